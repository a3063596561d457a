"""Times activation and edge patching of a GPT-2-small-shaped model in Kirchhoff and in the Python tools, turn by turn.

    patching.py KIRCHHOFF SCRIPTS ENVIRONMENTS [--rounds N] [--sample N] [--cases head-pos:16,...]    (bench/peers/patching calls it)

Activation patching: Kirchhoff computes the whole sweep; of TransformerLens's a sample is timed, drawn evenly, because its
cost of a variant is the same for all. Edges: 128 drawn at random, 8 prompts each, against ACDC of auto-circuit on as many
prompts and --edges random edges, with the logits of all tokens at the last position. Both sides exclude the two runs before the sweep. A ratio is made within a round; rounds in which other processes kept more than a tenth of a processor busy are
marked.
"""
import argparse
import json
import os
import statistics
import subprocess

# Without these, glibc maps and unmaps the peers' large tensors anew each time.
FAIR_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "8589934592", "MALLOC_TRIM_THRESHOLD_": "17179869184"}
GOALS = {"head-pos:16": 18, "head-pos:32": 12, "head:16": 9, "resid:16": 12, "edge:16": 10}
EDGE_BATCH = 8


def last_json(command, **arguments):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, **arguments).stdout.splitlines()[-1])


def own(program, sweep, tokens):
    command = [program, "bench", "patch", "--shape", "gpt2-small", "--sites", sweep, "--tokens", str(tokens),
               "--batch", str(EDGE_BATCH if sweep == "edge" else 1), "--repeats", "1", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def transformer_lens(python, scripts, sweep, tokens, sample, threads):
    sampler = os.path.join(os.path.dirname(os.path.abspath(__file__)), "patching_sample.py")
    return last_json([python, sampler, scripts, "--sweep", sweep, "--tokens", str(tokens), "--sample", str(sample), "--threads",
                      str(threads)], env=os.environ | FAIR_MALLOC)


def auto_circuit(python, scripts, tokens, edges, threads):
    command = [python, os.path.join(scripts, "edges_autocircuit.py"), "--skip-gradients", "--batch", str(EDGE_BATCH), "--length",
               str(tokens), "--edges", str(edges), "--runs", "1", "--threads", str(threads)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | FAIR_MALLOC).stdout.splitlines()
    rows = [json.loads(line) for line in lines if line.startswith("{")]
    row = next(row for row in rows if row["name"] == "acdc_random_edges")
    return {"variants": row["edges"], "timed": row["count"], "seconds_per_variant": 1e-3 * row["per_item_ms"],
            "peak_mib": row["rss_peak_mb"], "others_cpu": row["others_cpu"]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kirchhoff")
    parser.add_argument("scripts")
    parser.add_argument("environments")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sample", type=int, default=48)
    parser.add_argument("--edges", type=int, default=12)
    parser.add_argument("--cases", default=",".join(GOALS))
    options = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    python = os.path.join(options.environments, "classic", "bin", "python")

    for case in options.cases.split(","):
        sweep, tokens = case.split(":")
        peer = "auto-circuit" if sweep == "edge" else "TransformerLens"
        ratios, memory = [], []
        for round_number in range(1, options.rounds + 1):
            ours = own(options.kirchhoff, sweep, int(tokens))
            if sweep == "edge":
                theirs = auto_circuit(python, options.scripts, int(tokens), options.edges, threads)
            else:
                theirs = transformer_lens(python, options.scripts, sweep, int(tokens), options.sample, threads)
            each = ours["seconds"] / ours["variants"]
            ratios.append(theirs["seconds_per_variant"] / each)
            memory.append(ours["peak_mib"] / theirs["peak_mib"])
            busy = f" (machine busy: {theirs['others_cpu']:.1f})" if theirs["others_cpu"] > 0.1 else ""
            print(f"{sweep}, {tokens} tokens, round {round_number}: Kirchhoff {ours['seconds']:.2f} s for {ours['variants']} variants, "
                  f"{1e3 * each:.2f} ms each ({100 * ours['ratio']:.0f} % of its GEMM rate), {ours['peak_mib']:.0f} MiB; "
                  f"{peer} {1e3 * theirs['seconds_per_variant']:.1f} ms each ({theirs['timed']} of {theirs['variants']} "
                  f"timed), {theirs['peak_mib']:.0f} MiB{busy}", flush=True)
        print(f"{sweep}, {tokens} tokens: Kirchhoff is {statistics.median(ratios):.1f} x as fast as {peer} "
              f"({min(ratios):.1f} to {max(ratios):.1f}){f', goal {GOALS[case]}' if case in GOALS else ''}, with "
              f"{statistics.median(memory):.2f} of its memory", flush=True)


if __name__ == "__main__":
    main()
