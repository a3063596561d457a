#!/usr/bin/env python3
"""Writes what Hugging Face computes from a model, for `kirchhoff model verify` to compare with.

    export_expected.py MODEL_DIR [-o OUTPUT_DIR] [--ids 5,6,7]... [--like EXPECTED_JSON] [--lengths 1,7,19] [--seed 0]

Needs torch, transformers and safetensors (packages.txt, section [export]). Writes expected.json and
expected.safetensors into OUTPUT_DIR (default: beside the model): embeddings, residual stream, patterns, outputs of
attention and MLP, logits, and gradients of a logit difference; names and shapes as tests/data/golden/README.md says.

Everything is computed in float64. `model.double()` alone would not do: norms, softmax and rotary tables pass through
float32 whatever the weights are. Here every such cast is redirected to float64 while the model is built and run, and an
operation that makes a narrower tensor all the same is an error.
"""
import argparse
import json
import pathlib
import random
import sys

try:
    import safetensors.torch
    import torch
    import transformers
    from torch.overrides import TorchFunctionMode
except ImportError as error:
    sys.exit(f"error: {error}\n  help: see packages.txt, section [export]: pip install torch transformers safetensors")

NARROW = (torch.float32, torch.float16, torch.bfloat16)

# Where families keep their parts, as paths from the model or from a block; the first that exists is meant.
BLOCKS = ("model.layers", "transformer.h", "gpt_neox.layers", "model.decoder.layers", "transformer.blocks")
FINAL_NORM = ("model.norm", "transformer.ln_f", "gpt_neox.final_layer_norm", "model.decoder.final_layer_norm",
              "model.final_layernorm", "transformer.norm_f")
POSITIONS = ("transformer.wpe", "model.decoder.embed_positions")
EMBEDDING_NORM = ("transformer.word_embeddings_layernorm",)
QUERY = ("self_attn.q_proj", "self_attn.qkv_proj", "attn.c_attn", "attn.attention.q_proj", "attn.q_proj",
         "attention.query_key_value", "self_attention.query_key_value", "attn.Wqkv")
ATTENTION_OUT = ("self_attn.o_proj", "self_attn.out_proj", "self_attn.dense", "self_attention.dense", "attn.c_proj",
                 "attn.attention.out_proj", "attn.out_proj", "attention.dense")
MLP_OUT = ("mlp.down_proj", "mlp.c_proj", "mlp.fc_out", "mlp.dense_4h_to_h", "mlp.fc2", "ffn.down_proj", "fc2")
# Families whose norms of these names act on a sublayer's output (elsewhere post_attention_layernorm precedes the MLP).
POST_NORM_FAMILIES = ("gemma2", "gemma3", "gemma3_text", "olmo2")
ATTENTION_POST_NORM, MLP_POST_NORM = ("post_attention_layernorm",), ("post_feedforward_layernorm",)


class Float64Everywhere(TorchFunctionMode):
    """Redirects casts to narrower floating types to float64; with `strict`, refuses narrower results."""

    def __init__(self, strict):
        super().__init__()
        self.strict = strict

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16):
            function = torch.Tensor.double
        args = tuple(torch.float64 if any(a is narrow for narrow in NARROW) else a for a in args)
        kwargs = {key: torch.float64 if any(value is narrow for narrow in NARROW) else value
                  for key, value in (kwargs or {}).items()}
        result = function(*args, **kwargs)
        if self.strict and isinstance(result, torch.Tensor) and result.dtype in NARROW:
            raise RuntimeError(f"{function} made a tensor of {result.dtype}")
        return result


def find(module, paths, what=None):
    """The first submodule of that name, as (name, module); None if `what` is not given and there is none."""
    names = dict(module.named_modules())
    for path in paths:
        if path in names:
            return path, names[path]
    if what:
        sys.exit(f"error: {type(module).__name__} has no {what} under any known name: {', '.join(paths)}")
    return None


class Recorder:
    """Keeps the named intermediates of one forward pass, without the batch axis."""

    def __init__(self, model, family):
        self.values, self.graph = {}, {}  # copies, because some blocks add in place; the tensors that get a gradient
        self.blocks_name, blocks = find(model, BLOCKS, "list of blocks")
        self.blocks = list(blocks)
        self.embedding_kept = find(model, POSITIONS) or find(model, EMBEDDING_NORM)
        if self.embedding_kept:  # otherwise hidden.0 is the embedding, with the scale that some families apply outside
            self.on_output(model.get_input_embeddings(), "embed")
        if positions := find(model, POSITIONS):
            self.on_output(positions[1], "pos_embed")
        for layer, block in enumerate(self.blocks):
            self.on_input(block, f"hidden.{layer}")
            attention_out = find(block, ATTENTION_OUT, "attention output projection")[1]
            self.on_input(attention_out, f"z.{layer}")
            self.on_output(attention_out, f"attn_out.{layer}")
            self.on_output(find(block, MLP_OUT, "MLP output projection")[1], f"mlp_out.{layer}")
            if family in POST_NORM_FAMILIES:
                self.on_output(find(block, ATTENTION_POST_NORM, "norm after attention")[1], f"attn_out_post.{layer}")
                self.on_output(find(block, MLP_POST_NORM, "norm after the MLP")[1], f"mlp_out_post.{layer}")
        self.on_output(self.blocks[-1], f"hidden.{len(self.blocks)}")
        self.on_output(find(model, FINAL_NORM, "final norm")[1], "hidden.final")

    def on_output(self, module, name):
        module.register_forward_hook(lambda _module, _inputs, output: self.keep(name, output))

    def on_input(self, module, name):
        module.register_forward_pre_hook(
            lambda _module, args, kwargs: self.keep(name, args[0] if args else kwargs["hidden_states"]), with_kwargs=True)

    def keep(self, name, value):
        value = value[0] if isinstance(value, tuple) else value
        self.values[name] = value.detach().clone()
        if name == "embed" or (name.startswith("hidden") and name != "hidden.final"):
            value.retain_grad()
            self.graph[name] = value

    def parameters_of_interest(self):
        """The first query (or fused) weight and the last MLP-down weight, by their names in the loaded model."""
        first = f"{self.blocks_name}.0.{find(self.blocks[0], QUERY, 'query projection')[0]}.weight"
        last = f"{self.blocks_name}.{len(self.blocks) - 1}.{find(self.blocks[-1], MLP_OUT, 'MLP output')[0]}.weight"
        return [first, last]


def without_batch(tensor, length):
    return tensor[0] if tensor.dim() > 2 or tensor.shape[0] != length else tensor  # OPT's MLP runs on [batch * pos, d]


def record(model, recorder, tokens, metric, grad_params):
    """All tensors of one sequence, float64, by name."""
    model.zero_grad()
    recorder.values, recorder.graph = {}, {}
    output = model(torch.tensor([tokens]), output_attentions=True, use_cache=False)
    logits = output.logits[0]
    (logits[-1, metric["a"]] - logits[-1, metric["b"]]).backward()

    length, heads = len(tokens), output.attentions[0].shape[1]
    tensors = recorder.values | {f"grad.{name}": value.grad for name, value in recorder.graph.items()}
    if not recorder.embedding_kept:
        tensors |= {"embed": tensors["hidden.0"], "grad.embed": tensors["grad.hidden.0"]}
    tensors = {name: without_batch(value, length) for name, value in tensors.items()}
    tensors |= {f"pattern.{layer}": attention[0].detach() for layer, attention in enumerate(output.attentions)}
    tensors["logits"] = logits.detach()
    for name in [n for n in tensors if n.startswith("z.")]:
        tensors[name] = tensors[name].reshape(length, heads, -1)
    parameters = dict(model.named_parameters())
    tensors |= {f"grad.param.{name}": parameters[name].grad.detach() for name in grad_params}
    return tensors


def closure(tensors, layers):
    """max |hidden.0 + everything that sublayers add - hidden.L| / max |hidden.L|."""
    total = tensors["hidden.0"].clone()
    for layer in range(layers):
        for part in ("attn_out", "mlp_out"):
            total += tensors.get(f"{part}_post.{layer}", tensors[f"{part}.{layer}"])
    last = tensors[f"hidden.{layers}"]
    return float((total - last).abs().max() / last.abs().max())


def choose_sequences(options, vocabulary):
    """The token lists and the two tokens of the metric: given, copied from another expected.json, or seeded."""
    if options.like:
        like = json.loads(pathlib.Path(options.like).read_text())
        return [s["tokens"] for s in like["sequences"]], {key: like["metric"][key] for key in ("a", "b")}
    generator = random.Random(options.seed)
    sequences = [[int(t) for t in ids.split(",")] for ids in options.ids or []]
    if not sequences:
        sequences = [[generator.randrange(vocabulary) for _ in range(int(n))] for n in options.lengths.split(",")]
    a, b = generator.sample(range(vocabulary), 2)
    return sequences, {"a": a, "b": b}


def load_in_float64(folder):
    """The model built anew in float64, rotary tables and other constants included, with the file's parameters."""
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto", local_files_only=True)
    torch.set_default_dtype(torch.float64)
    with Float64Everywhere(strict=False):
        model = transformers.AutoModelForCausalLM.from_config(loaded.config, dtype=torch.float64, attn_implementation="eager")
    model.load_state_dict({name: value.double() if value.is_floating_point() else value
                           for name, value in loaded.state_dict().items()})
    return model.eval()


def export(options):
    model = load_in_float64(options.model)
    family = model.config.model_type
    recorder = Recorder(model, family)
    grad_params = recorder.parameters_of_interest()
    sequences, metric = choose_sequences(options, model.config.vocab_size)
    longest = max(range(len(sequences)), key=lambda n: len(sequences[n]))

    written, described = {}, []
    for n, tokens in enumerate(sequences):
        with Float64Everywhere(strict=True):
            tensors = record(model, recorder, tokens, metric, grad_params if n == longest else [])
            logits = tensors["logits"]
            described.append({"name": f"seq{n}", "tokens": tokens, "closure": closure(tensors, len(recorder.blocks)),
                              "logit_diff": float(logits[-1, metric["a"]] - logits[-1, metric["b"]])})
            if n == longest and len(tokens) > 1:
                loss = float(torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(tokens[1:])))
        for name, value in tensors.items():
            if n == longest or not name.startswith("z."):
                written[f"seq{n}/{name}"] = value.to(torch.float64 if name == "logits" else torch.float32).contiguous().clone()

    facts = {
        "format": 1, "id": pathlib.Path(options.model).resolve().name, "hf_class": type(model).__name__,
        "model_type": family, "n_layers": len(recorder.blocks), "vocab": model.config.vocab_size, "sequences": described,
        "metric": metric | {"definition": "logits[last, a] - logits[last, b]"},
        "loss": {"sequence": f"seq{longest}", "mean_next_token_cross_entropy": loss} if len(sequences[longest]) > 1 else None,
        "grad_params": grad_params, "closure": max(s["closure"] for s in described),
        "tensors": {name: {"shape": list(t.shape), "dtype": str(t.dtype).removeprefix("torch.")}
                    for name, t in sorted(written.items())},
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__,
                     "safetensors": safetensors.__version__},
    }
    folder = pathlib.Path(options.output or options.model)
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.torch.save_file(written, folder / "expected.safetensors")
    (folder / "expected.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(f"{folder}: {len(written)} tensors, closure {facts['closure']:.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a Hugging Face model directory")
    parser.add_argument("-o", "--output", help="where to write (default: the model's directory)")
    parser.add_argument("--ids", action="append", help="a sequence of token ids, comma-separated; may be repeated")
    parser.add_argument("--like", help="take sequences and metric from this expected.json")
    parser.add_argument("--lengths", default="1,7,19", help="lengths of random sequences (default: 1,7,19)")
    parser.add_argument("--seed", type=int, default=0)
    export(parser.parse_args())


if __name__ == "__main__":
    main()
