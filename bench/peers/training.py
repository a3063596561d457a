"""Times a step of training of a two-layer attention-only transformer in Kirchhoff, in plain PyTorch and in TransformerLens, turn by
turn.

    training.py KIRCHHOFF SCRIPTS ENVIRONMENTS [--rounds N] [--steps N]    (bench/peers/training calls it)

All three: d_model 512, 8 heads, context 256, vocabulary 8192, batch 16, learnt positions, LayerNorm, biases, AdamW, float32.
"minimal" is a torch model with fused attention and no more than that, "lens" TransformerLens 2's HookedTransformer. A ratio is
made within a round; rounds in which other processes kept more than a tenth of a processor busy are marked.
"""
import argparse
import json
import os
import statistics
import subprocess
import time

# Without these, glibc maps and unmaps the peers' large tensors anew each time.
FAIR_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "8589934592", "MALLOC_TRIM_THRESHOLD_": "17179869184"}
PEERS = {"minimal": ("current", "PyTorch", 1.3), "lens": ("classic", "TransformerLens", 1.5)}
GOAL_OF_GEMM, GOAL_OF_MEMORY = 0.65, 0.5


def busy_seconds():
    """CPU seconds the whole machine has spent not idle."""
    with open("/proc/stat") as stat:
        ticks = [int(field) for field in stat.readline().split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")


def own(program, steps, threads):
    began, times = (busy_seconds(), time.perf_counter()), os.times()
    command = [program, "bench", "train", "--repeats", str(steps), "--threads", str(threads), "--json", "--quiet"]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    after = os.times()
    ours = after.children_user + after.children_system - times.children_user - times.children_system
    result["others_cpu"] = max(0.0, (busy_seconds() - began[0] - ours) / (time.perf_counter() - began[1]))
    return result


def peer(python, scripts, model, steps, threads):
    command = [python, os.path.join(scripts, "train.py"), "--model", model, "--runs", str(steps), "--threads", str(threads)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | FAIR_MALLOC).stdout.splitlines()
    return next(row for row in map(json.loads, filter(lambda line: line.startswith("{"), lines)) if row["name"] == "train_step")


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kirchhoff")
    parser.add_argument("scripts")
    parser.add_argument("environments")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=9)
    options = parser.parse_args()
    threads = len(os.sched_getaffinity(0))

    speed, memory = ({name: [] for name in PEERS} for _ in range(2))
    of_gemm = []
    for number in range(1, options.rounds + 1):
        ours = own(options.kirchhoff, options.steps, threads)
        of_gemm.append(ours["ratio"])
        marked = f" (machine busy: {ours['others_cpu']:.1f})" if ours["others_cpu"] > 0.1 else ""
        print(f"round {number}: Kirchhoff {ours['tokens_per_s']:.0f} tokens/s, {100 * ours['ratio']:.0f} % of its GEMM rate of "
              f"{ours['gemm_gflops']:.0f} GFLOP/s, {ours['peak_mib']:.0f} MiB{marked}", flush=True)
        for model, (environment, title, _) in PEERS.items():
            theirs = peer(os.path.join(options.environments, environment, "bin", "python"), options.scripts, model, options.steps, threads)
            speed[model].append(ours["tokens_per_s"] / theirs["tokens_per_s"])
            memory[model].append(ours["peak_mib"] / theirs["rss_peak_mb"])
            marked = f" (machine busy: {theirs['others_cpu']:.1f})" if theirs["others_cpu"] > 0.1 else ""
            print(f"round {number}: {title} {theirs['tokens_per_s']:.0f} tokens/s, {100 * theirs['of_roofline']:.0f} % of "
                  f"{theirs['roofline_gflops']:.0f} GFLOP/s, {theirs['rss_peak_mb']:.0f} MiB{marked}", flush=True)
    for model, (_, title, goal) in PEERS.items():
        print(f"Kirchhoff trains {spread(speed[model], 2)} x as fast as {title}, goal {goal}; in {spread(memory[model], 2)} of its memory, "
              f"goal {GOAL_OF_MEMORY}", flush=True)
    print(f"of the GEMM rate: {spread(of_gemm, 2)}, goal {GOAL_OF_GEMM}", flush=True)


if __name__ == "__main__":
    main()
