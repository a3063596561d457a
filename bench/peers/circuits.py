"""Times what reads circuits of a GPT-2-small-shaped model in Kirchhoff and in the Python tools, turn by turn.

    circuits.py KIRCHHOFF SCRIPTS ENVIRONMENTS [--rounds N] [--cases dla,...]    (bench/peers/circuits calls it)

A case names what Kirchhoff measures, a benchmark of a program in `bench/` beside it or an analysis of `kirchhoff bench
weights`, and one row that a script of ../shared/bench-peers prints; both do the same work and exclude the run before it.
A row that does one of several equal pieces of work (a head, a kind of score) is counted that often. A ratio is made within a
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
    bench: str  # the program in bench/; "" for `kirchhoff bench weights`
    benchmark: str
    script: tuple  # the peer's, with its arguments
    row: str  # of what it prints
    goal: float
    times: int = 1  # how often the row's work is done


CASES = {
    "dla": Case("direct logit attribution of every head at every position, 128 tokens, one direction", "observe_bench",
                "heads_one_direction", ("attribution.py", "--length", "128"), "stack+logit_attrs", 50),
    "dla-next": Case("the same with the next token's direction at each position (the peer still has one for all)",
                     "observe_bench", "heads_next_tokens", ("attribution.py", "--length", "128"), "stack+logit_attrs", 50),
    "ov-eigenvalues": Case("eigenvalues of the token-expanded OV circuits of all 144 heads", "", "ov_eigenvalues", ("circuits.py",),
                           "full_ov_eigenvalues", 10, times=144),
    "composition": Case("Q-, K- and V-composition of all pairs of heads", "", "composition", ("circuits.py",),
                        "all_composition_scores", 15, times=3),
    "row-tops": Case("the 10 largest entries of 2048 rows of a vocabulary x vocabulary OV circuit", "", "row_tops",
                     ("circuits.py",), "full_ov_top10_block", 5),
}


def own(program, case):
    """(seconds, MiB beyond what was held before, or None)."""
    if not case.bench:
        command = [program, "bench", "weights", "--json"]
        result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        row = next(row for row in result["analyses"] if row["name"] == case.benchmark)
        return row["seconds"], row["extra_mib"]
    bench = os.path.join(os.path.dirname(os.path.realpath(program)), "bench", case.bench)
    command = [bench, f"--benchmark_filter=^{case.benchmark}/", "--benchmark_format=json", "--benchmark_min_time=0.5"]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["benchmarks"][0]
    return result["real_time"] * {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[result["time_unit"]], None


def peer_rows(python, scripts, script, threads):
    command = [python, os.path.join(scripts, script[0]), *script[1:], "--runs", "2", "--threads", str(threads)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | FAIR_MALLOC).stdout.splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


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

    names = options.cases.split(",")
    ratios = {name: [] for name in names}
    for round_number in range(1, options.rounds + 1):
        rows = {}  # of a script: it prints those of several cases
        for name in names:
            case = CASES[name]
            seconds, extra = own(options.kirchhoff, case)
            if case.script not in rows:
                rows[case.script] = peer_rows(python, options.scripts, case.script, threads)
            theirs = next(row for row in rows[case.script] if row.get("name") == case.row)
            theirs_seconds = case.times * theirs["wall_s"]
            ratios[name].append(theirs_seconds / seconds)
            memory = "" if extra is None else f", {extra:.0f} MiB more"
            busy = f" (machine busy: {theirs['others_cpu']:.1f})" if theirs["others_cpu"] > 0.1 else ""
            print(f"{name}, round {round_number}: Kirchhoff {1e3 * seconds:.2f} ms{memory}; TransformerLens "
                  f"{1e3 * theirs_seconds:.0f} ms, {theirs['rss_peak_mb'] - theirs['rss_before_mb']:.0f} MB more{busy}", flush=True)
    for name in names:
        case = CASES[name]
        print(f"{case.title}: Kirchhoff is {statistics.median(ratios[name]):.0f} x as fast as TransformerLens "
              f"({min(ratios[name]):.0f} to {max(ratios[name]):.0f}), goal {case.goal:.0f}", flush=True)


if __name__ == "__main__":
    main()
