"""Times a sample of TransformerLens's activation-patching sweep on a GPT-2-small-shaped model: one JSON line.

    patching_sample.py SCRIPTS --sweep head-pos|head|resid --tokens N --sample N --threads N

Its cost of a variant is that of a whole forward whatever is patched, so a sample drawn evenly from the sweep says what the
sweep would take. `common` is ../shared/bench-peers/common.py.
"""
import argparse
import json
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("scripts")
parser.add_argument("--sweep", required=True)
parser.add_argument("--tokens", type=int, required=True)
parser.add_argument("--sample", type=int, required=True)
parser.add_argument("--threads", type=int, required=True)
options = parser.parse_args()
sys.path.insert(0, options.scripts)

import common  # noqa: E402
import pandas  # noqa: E402
import torch  # noqa: E402
from transformer_lens import patching  # noqa: E402

torch.set_num_threads(options.threads)
torch.manual_seed(0)
layers, heads, tokens = range(common.LAYERS), range(common.HEADS), range(options.tokens)
call, axes, ranges = {
    "head-pos": (patching.get_act_patch_attn_head_out_by_pos, ("layer", "pos", "head"), (layers, tokens, heads)),
    "head": (patching.get_act_patch_attn_head_out_all_pos, ("layer", "head"), (layers, heads)),
    "resid": (patching.get_act_patch_resid_pre, ("layer", "pos"), (layers, tokens)),
}[options.sweep]
everything = pandas.MultiIndex.from_product(ranges, names=axes).to_frame(index=False)
count = min(options.sample, len(everything))
sample = everything.iloc[[i * len(everything) // count for i in range(count)]].reset_index(drop=True)

_, model = common.build_lens()
with torch.inference_mode():
    clean, corrupted = common.prompt_pair(1, options.tokens)
    _, cache = model.run_with_cache(clean)
    model(corrupted)
    common.reset_peak()
    others, start = common.busy_seconds() - time.process_time(), time.perf_counter()
    call(model, corrupted, cache, common.logit_difference, index_axis_names=None, index_df=sample)
    seconds = time.perf_counter() - start
    others = (common.busy_seconds() - time.process_time() - others) / seconds
print(json.dumps({"variants": len(everything), "timed": count, "seconds_per_variant": seconds / count,
                  "peak_mib": common.memory_mb("VmHWM"), "others_cpu": round(max(others, 0.0), 2)}))
