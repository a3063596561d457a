"""Times activation patching of a GPT-2-small-shaped model in Kirchhoff and in TransformerLens, turn by turn, and prints ratios.

    patching.py KIRCHHOFF SCRIPTS ENVIRONMENTS [--rounds N] [--sample N] [--cases head-pos:16,...]    (bench/peers/patching calls it)

Kirchhoff computes the whole sweep; of TransformerLens's a sample is timed, drawn evenly, because its cost of a variant is
the same for all. Both sides exclude the two runs before the sweep, and take the logit difference of two tokens at the last
position. A ratio is made within a round; rounds in which other processes kept more than a tenth of a processor busy are
marked.
"""
import argparse
import json
import os
import statistics
import subprocess

# Without these, glibc maps and unmaps the peers' large tensors anew each time.
FAIR_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "8589934592", "MALLOC_TRIM_THRESHOLD_": "17179869184"}
GOALS = {"head-pos:16": 18, "head-pos:32": 12, "head:16": 9, "resid:16": 12}


def last_json(command, **arguments):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, **arguments).stdout.splitlines()[-1])


def own(program, sweep, tokens):
    command = [program, "bench", "patch", "--shape", "gpt2-small", "--sites", sweep, "--tokens", str(tokens),
               "--repeats", "1", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kirchhoff")
    parser.add_argument("scripts")
    parser.add_argument("environments")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sample", type=int, default=48)
    parser.add_argument("--cases", default=",".join(GOALS))
    options = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    python = os.path.join(options.environments, "classic", "bin", "python")
    sampler = os.path.join(os.path.dirname(os.path.abspath(__file__)), "patching_sample.py")

    for case in options.cases.split(","):
        sweep, tokens = case.split(":")
        ratios, memory = [], []
        for round_number in range(1, options.rounds + 1):
            ours = own(options.kirchhoff, sweep, int(tokens))
            theirs = last_json([python, sampler, options.scripts, "--sweep", sweep, "--tokens", tokens, "--sample",
                                str(options.sample), "--threads", str(threads)], env=os.environ | FAIR_MALLOC)
            each = ours["seconds"] / ours["variants"]
            ratios.append(theirs["seconds_per_variant"] / each)
            memory.append(ours["peak_mib"] / theirs["peak_mib"])
            busy = f" (machine busy: {theirs['others_cpu']:.1f})" if theirs["others_cpu"] > 0.1 else ""
            print(f"{sweep}, {tokens} tokens, round {round_number}: Kirchhoff {ours['seconds']:.2f} s for {ours['variants']} variants, "
                  f"{1e3 * each:.2f} ms each ({100 * ours['ratio']:.0f} % of its GEMM rate), {ours['peak_mib']:.0f} MiB; "
                  f"TransformerLens {1e3 * theirs['seconds_per_variant']:.1f} ms each ({theirs['timed']} of {theirs['variants']} "
                  f"timed), {theirs['peak_mib']:.0f} MiB{busy}", flush=True)
        print(f"{sweep}, {tokens} tokens: Kirchhoff is {statistics.median(ratios):.1f} x as fast as TransformerLens "
              f"({min(ratios):.1f} to {max(ratios):.1f}){f', goal {GOALS[case]}' if case in GOALS else ''}, with "
              f"{statistics.median(memory):.2f} of its memory", flush=True)


if __name__ == "__main__":
    main()
