"""Directories of trainings whose histories are known, as if they had been written by `kirchhoff train`."""
import json
import math
import pathlib


def share(step, middle, width):
    return 1 / (1 + math.exp((middle - step) / width))


def evaluation(step, layers, seed, phase):
    """The ICL score falls by 0.4 around step 500 with an induction head, or by 0.06 slowly without one."""
    done = share(step, 500 + 20 * seed, 40) if phase else step / 1000
    icl = -(0.4 if phase else 0.06) * done
    loss = 3.5 + 4.5 * math.exp(-step / 150) + icl / 2 + 0.01 * seed
    prefix = [[0.02 + 0.01 * head for head in range(4)] for _ in range(layers)]
    previous = [[0.1 + (0.7 * share(step, 400, 60) if (layer, head) == (0, 1) else 0.02 * head) for head in range(4)]
                for layer in range(layers)]
    if phase:
        prefix[-1][2 + seed % 2] = 0.05 + 0.85 * done
    return {"windows": 64, "context": 256, "loss": loss, "error": 0.03,
            "by_position": {"ends": [1, 16, 32, 224, 256], "loss": [loss + 1, loss + 0.3, loss, loss + 0.3 + icl]},
            "icl": {"early": [16, 32], "late": [224, 256], "early_loss": loss + 0.3, "late_loss": loss + 0.3 + icl,
                    "score": icl, "error": 0.01},
            "heads": {"prefix_matching": prefix, "previous_token": previous,
                      "copying": [[None] + [0.5 - 0.1 * head for head in range(3)] for _ in range(layers)]}}


def write_training(folder, *, layers=2, seed=0, phase=True, last=1000, tail=""):
    """`last`: the step that it has come to; `tail`: behind the last line."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    lines = []
    for step in range(0, last + 1, 10):
        record = {"step": step, "tokens": 8192 * step}
        if step > 0:
            record |= {"loss": 3.6 + 4.5 * math.exp(-step / 150), "learning_rate": 1e-3, "gradient_norm": 0.5}
        if step % 20 == 0:
            record["held_out"] = evaluation(step, layers, seed, phase)
        lines.append(json.dumps(record) + "\n")
    (folder / "history.jsonl").write_text("".join(lines) + tail)
    (folder / "training.json").write_text(json.dumps(
        {"model": {"n_layers": layers}, "training": {"steps": 1000, "seed": seed}, "command": f"kirchhoff train --seed {seed}"}))
    return folder
