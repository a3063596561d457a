"""Times the forward pass of a GPT-2-small-shaped model in Kirchhoff and in the Python tools, turn by turn, and prints ratios.

    compare.py KIRCHHOFF SCRIPTS ENVIRONMENTS [--rounds N] [--lengths 16,128,1024]     (bench/peers/compare calls it)

Every round measures all tools at one length, one after the other, each in a process of its own, so that what the machine
does in a minute meets all of them. A ratio is made within a round; the median over rounds is printed, with the lowest
and the highest. Rounds in which other processes kept more than a tenth of a processor busy are marked.
"""
import argparse
import json
import os
import statistics
import subprocess

PEERS = [  # name, environment, backend
    ("Hugging Face sdpa", "current", "hf-sdpa"),
    ("TransformerLens 2 (HookedTransformer)", "classic", "hooked"),
]
# Without these, glibc maps and unmaps the peers' large tensors anew each time: a third of their time at 1024 tokens.
FAIR_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "8589934592", "MALLOC_TRIM_THRESHOLD_": "17179869184"}


def kirchhoff_seconds(program, tokens):
    command = [program, "bench", "forward", "--shape", "gpt2-small", "--tokens", str(tokens), "--json"]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return tokens / result["tokens_per_s"], result["ratio"]


def peer_seconds(scripts, environments, environment, backend, tokens, threads):
    command = [os.path.join(environments, environment, "bin", "python"), os.path.join(scripts, "forward.py"), "--backend",
               backend, "--lengths", str(tokens), "--batches", "1", "--threads", str(threads)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | FAIR_MALLOC).stdout.splitlines()
    row = next(row for row in map(json.loads, lines) if "wall_s" in row)
    return row["wall_s"], row["others_cpu"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kirchhoff")
    parser.add_argument("scripts")
    parser.add_argument("environments")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lengths", default="16,128,1024")
    options = parser.parse_args()
    threads = len(os.sched_getaffinity(0))

    for tokens in map(int, options.lengths.split(",")):
        ratios = {name: [] for name, *_ in PEERS}
        for round_number in range(1, options.rounds + 1):
            own, of_gemm = kirchhoff_seconds(options.kirchhoff, tokens)
            print(f"{tokens:5} tokens, round {round_number}: Kirchhoff {1e3 * own:7.1f} ms ({100 * of_gemm:.0f} % of its GEMM rate)", end="")
            for name, environment, backend in PEERS:
                seconds, others = peer_seconds(options.scripts, options.environments, environment, backend, tokens, threads)
                ratios[name].append(seconds / own)
                print(f"; {name} {1e3 * seconds:7.1f} ms{' (machine busy: %.1f)' % others if others > 0.1 else ''}", end="")
            print(flush=True)
        for name, values in ratios.items():
            print(f"{tokens:5} tokens: Kirchhoff is {statistics.median(values):.2f} x as fast as {name} "
                  f"({min(values):.2f} to {max(values):.2f})", flush=True)


if __name__ == "__main__":
    main()
