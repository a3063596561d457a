#!/usr/bin/env python3
"""A second implementation of training, in numpy and double precision: two attention-only layers (LayerNorm,
Shortformer positions), cross-entropy, AdamW with clipping, warm-up and cosine. From the same initial weights and the
same sequences it must find the losses that Kirchhoff finds.

    twin.py TRAIN_TEST    runs that program's export, trains, compares; exit status 77 where numpy is absent
"""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("numpy is absent: skipped")
    sys.exit(77)


def read_safetensors(path):
    data = open(path, "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    body = data[8 + length :]
    return {
        name: np.frombuffer(body[slice(*entry["data_offsets"])], np.float32).reshape(entry["shape"]).astype(np.float64)
        for name, entry in header.items()
    }


def layer_norm(x, gain, bias, eps):
    mean = x.mean(-1, keepdims=True)
    scale = np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + eps)
    normed = (x - mean) / scale
    return normed * gain + bias, (normed, scale, gain)


def layer_norm_back(dout, kept):
    normed, scale, gain = kept
    d = dout * gain
    dx = (d - d.mean(-1, keepdims=True) - normed * (d * normed).mean(-1, keepdims=True)) / scale
    return dx, (dout * normed).sum((0, 1)), dout.sum((0, 1))


def loss_and_gradients(w, tokens, layers, eps):
    """Mean over sequences and tokens but the first of -log p; gradients of every weight. tokens: [batch, pos]."""
    g = {name: np.zeros_like(value) for name, value in w.items()}
    batch, length = tokens.shape
    x = w["embed.W_E"][tokens]
    positions = w["pos_embed.W_pos"][:length]
    kept = []
    for layer in range(layers):
        p = f"blocks.{layer}.attn."
        n, norm = layer_norm(x, w[f"blocks.{layer}.ln1.w"], w[f"blocks.{layer}.ln1.b"], eps)
        qk = n + positions
        q = np.einsum("btm,hmd->bhtd", qk, w[p + "W_Q"]) + w[p + "b_Q"][:, None]
        k = np.einsum("btm,hmd->bhtd", qk, w[p + "W_K"]) + w[p + "b_K"][:, None]
        v = np.einsum("btm,hmd->bhtd", n, w[p + "W_V"]) + w[p + "b_V"][:, None]
        scores = np.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
        scores = np.where(np.tril(np.ones((length, length), bool)), scores, -np.inf)
        pattern = np.exp(scores - scores.max(-1, keepdims=True))
        pattern /= pattern.sum(-1, keepdims=True)
        z = np.einsum("bhqk,bhkd->bhqd", pattern, v)
        x = x + np.einsum("bhqd,hdm->bqm", z, w[p + "W_O"]) + w[p + "b_O"]
        kept.append((n, norm, qk, q, k, v, pattern, z))
    final, norm = layer_norm(x, w["ln_final.w"], w["ln_final.b"], eps)
    logits = final @ w["unembed.W_U"] + w["unembed.b_U"]
    shifted = logits - logits.max(-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    count = batch * (length - 1)
    loss = -np.take_along_axis(log_p[:, :-1], tokens[:, 1:, None], -1).sum() / count

    dlogits = np.exp(log_p)
    np.put_along_axis(dlogits[:, :-1], tokens[:, 1:, None],
                      np.take_along_axis(dlogits[:, :-1], tokens[:, 1:, None], -1) - 1, -1)
    dlogits[:, -1] = 0
    dlogits /= count
    g["unembed.W_U"] = np.einsum("btm,btv->mv", final, dlogits)
    g["unembed.b_U"] = dlogits.sum((0, 1))
    dx, g["ln_final.w"], g["ln_final.b"] = layer_norm_back(dlogits @ w["unembed.W_U"].T, norm)
    for layer in reversed(range(layers)):
        p = f"blocks.{layer}.attn."
        n, norm, qk, q, k, v, pattern, z = kept[layer]
        g[p + "W_O"] = np.einsum("bhqd,bqm->hdm", z, dx)
        g[p + "b_O"] = dx.sum((0, 1))
        dz = np.einsum("bqm,hdm->bhqd", dx, w[p + "W_O"])
        dv = np.einsum("bhqk,bhqd->bhkd", pattern, dz)
        dpattern = np.einsum("bhqd,bhkd->bhqk", dz, v)
        dscores = pattern * (dpattern - (dpattern * pattern).sum(-1, keepdims=True)) / math.sqrt(q.shape[-1])
        dq = np.einsum("bhqk,bhkd->bhqd", dscores, k)
        dk = np.einsum("bhqk,bhqd->bhkd", dscores, q)
        dqk = 0
        for name, d, read in (("Q", dq, qk), ("K", dk, qk), ("V", dv, n)):
            g[p + "W_" + name] = np.einsum("btm,bhtd->hmd", read, d)
            g[p + "b_" + name] = d.sum((0, 2))
            dread = np.einsum("bhtd,hmd->btm", d, w[p + "W_" + name])
            if name == "V":
                dn = dread
            else:
                dqk = dqk + dread
        g["pos_embed.W_pos"][:length] += dqk.sum(0)
        back, g[f"blocks.{layer}.ln1.w"], g[f"blocks.{layer}.ln1.b"] = layer_norm_back(dn + dqk, norm)
        dx = dx + back
    np.add.at(g["embed.W_E"], tokens, dx)
    return loss, g


def train(directory):
    run = json.load(open(directory + "/twin.json"))
    w = read_safetensors(directory + "/model.safetensors")
    o = run["training"]
    first = {name: np.zeros_like(value) for name, value in w.items()}
    second = {name: np.zeros_like(value) for name, value in w.items()}
    losses = []
    for t, batch in enumerate(run["batches"], 1):
        loss, g = loss_and_gradients(w, np.array(batch), run["layers"], run["eps"])
        losses.append(loss)
        norm = math.sqrt(sum((d**2).sum() for d in g.values()))
        scale = min(1.0, o["clip"] / norm)
        done = (t - o["warmup"]) / (o["steps"] - o["warmup"])
        fall = o["final_fraction"] + (1 - o["final_fraction"]) * 0.5 * (1 + math.cos(math.pi * done))
        rate = o["learning_rate"] * (t / o["warmup"] if t <= o["warmup"] else fall)
        beta1, beta2 = o["betas"]
        for name, value in w.items():
            d = g[name] * scale
            first[name] = beta1 * first[name] + (1 - beta1) * d
            second[name] = beta2 * second[name] + (1 - beta2) * d * d
            if value.ndim > 1 and ".b_" not in name:
                value *= 1 - rate * o["weight_decay"]
            value -= rate * (first[name] / (1 - beta1**t)) / (np.sqrt(second[name] / (1 - beta2**t)) + o["epsilon"])
    return losses, run["losses"]


def main():
    with tempfile.TemporaryDirectory() as directory:
        environment = dict(os.environ, KIRCHHOFF_TWIN_DIRECTORY=directory)
        subprocess.run([sys.argv[1], "--gtest_filter=Twin.*"], env=environment, stdout=subprocess.DEVNULL)  # its own verdict is its own
        ours, theirs = train(directory)
    worst = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    print("losses of the twin:", ", ".join(f"{loss:.6f}" for loss in ours))
    print(f"largest difference {worst:.2e} over {len(ours)} steps")
    sys.exit(0 if len(ours) == 20 and worst < 2e-5 else 1)


if __name__ == "__main__":
    main()
