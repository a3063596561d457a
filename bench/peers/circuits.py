"""Times what reads circuits of a GPT-2-small-shaped model in Kirchhoff and in the Python tools, turn by turn.

    circuits.py KIRCHHOFF SCRIPTS ENVIRONMENTS [--rounds N] [--cases dla,...]    (bench/peers/circuits calls it)

A case names one benchmark of Kirchhoff's bench programs, which lie in `bench/` beside the program, and one row that a
script of ../shared/bench-peers prints; both do the same work and exclude the run before it. A ratio is made within a
round; rounds in which other processes kept more than a tenth of a processor busy are marked.
"""
import argparse
import dataclasses
import json
import os
import statistics
import subprocess

# Without these, glibc maps and unmaps the peers' large tensors anew each time.
FAIR_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "8589934592", "MALLOC_TRIM_THRESHOLD_": "17179869184"}


@dataclasses.dataclass(frozen=True)
class Case:
    title: str
    bench: str  # the program in bench/
    benchmark: str
    script: tuple  # the peer's, with its arguments
    row: str  # of what it prints
    goal: float


CASES = {
    "dla": Case("direct logit attribution of every head at every position, 128 tokens, one direction", "observe_bench",
                "heads_one_direction", ("attribution.py", "--length", "128"), "stack+logit_attrs", 50),
    "dla-next": Case("the same with the next token's direction at each position (the peer still has one for all)",
                     "observe_bench", "heads_next_tokens", ("attribution.py", "--length", "128"), "stack+logit_attrs", 50),
}


def own_seconds(program, case):
    bench = os.path.join(os.path.dirname(os.path.realpath(program)), "bench", case.bench)
    command = [bench, f"--benchmark_filter=^{case.benchmark}/", "--benchmark_format=json", "--benchmark_min_time=0.5"]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["benchmarks"][0]
    return result["real_time"] * {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[result["time_unit"]]


def peer(python, scripts, case, threads):
    command = [python, os.path.join(scripts, case.script[0]), *case.script[1:], "--runs", "2", "--threads", str(threads)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | FAIR_MALLOC).stdout.splitlines()
    rows = [json.loads(line) for line in lines if line.startswith("{")]
    return next(row for row in rows if row.get("name") == case.row)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kirchhoff")
    parser.add_argument("scripts")
    parser.add_argument("environments")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", default=",".join(CASES))
    options = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    python = os.path.join(options.environments, "classic", "bin", "python")

    for name in options.cases.split(","):
        case = CASES[name]
        ratios = []
        for round_number in range(1, options.rounds + 1):
            ours, theirs = own_seconds(options.kirchhoff, case), peer(python, options.scripts, case, threads)
            ratios.append(theirs["wall_s"] / ours)
            busy = f" (machine busy: {theirs['others_cpu']:.1f})" if theirs["others_cpu"] > 0.1 else ""
            print(f"{name}, round {round_number}: Kirchhoff {1e3 * ours:.2f} ms; TransformerLens {1e3 * theirs['wall_s']:.0f} ms, "
                  f"{theirs['rss_peak_mb'] - theirs['rss_before_mb']:.0f} MB more{busy}", flush=True)
        print(f"{case.title}: Kirchhoff is {statistics.median(ratios):.0f} x as fast as TransformerLens "
              f"({min(ratios):.0f} to {max(ratios):.0f}), goal {case.goal:.0f}", flush=True)


if __name__ == "__main__":
    main()
