#include <cmath>       // for sqrt
#include <functional>  // for function

#include "kirchhoff/base/error.h"
#include "kirchhoff/model/random_model.h"
#include "model/rotary.h"

namespace kirchhoff {
namespace {

struct Sizes {
  Index n_layers, d_model, n_heads, n_kv_heads, d_head, d_mlp, d_vocab, n_ctx;
};

ModelConfig sized(std::string_view family, const Sizes& s) {
  ModelConfig c;
  c.family = family;
  c.architecture = fmt::format("random:{}", family);
  c.n_layers = s.n_layers;
  c.d_model = s.d_model;
  c.n_heads = s.n_heads;
  c.n_kv_heads = s.n_kv_heads;
  c.d_head = s.d_head;
  c.d_mlp = s.d_mlp;
  c.d_vocab = c.d_vocab_out = s.d_vocab;
  c.n_ctx = s.n_ctx;
  c.window_of_layer.assign(static_cast<std::size_t>(s.n_layers), 0);
  c.attn_scale_of_layer.assign(static_cast<std::size_t>(s.n_layers), 1.0 / std::sqrt(static_cast<double>(s.d_head)));
  return c;
}

ModelConfig gpt2(const Sizes& s) {
  ModelConfig c = sized("gpt2", s);
  c.positions = Positions::learned;
  return c;
}

ModelConfig neox(const Sizes& s) {
  ModelConfig c = sized("gpt_neox", s);
  set_rotary(c, plain_rotary(10000.0, s.d_head / 4));
  c.parallel = true;
  c.activation = Activation::gelu;
  return c;
}

ModelConfig llama(const Sizes& s, double theta) {
  ModelConfig c = sized("llama", s);
  set_rotary(c, plain_rotary(theta, s.d_head));
  c.norm = NormKind::rms;
  c.gated_mlp = true;
  c.activation = Activation::silu;
  return c;
}

ModelConfig gemma2(const Sizes& s, Index window) {
  ModelConfig c = llama(s, 10000.0);
  c.family = "gemma2";
  c.norm_eps = 1e-6;
  c.activation = Activation::gelu_tanh;
  c.embed_scale = std::sqrt(static_cast<double>(s.d_model));
  c.post_norm = true;
  c.attn_softcap = 50.0;
  c.logit_softcap = 30.0;
  for (std::size_t l = 0; l < c.window_of_layer.size(); l += 2) c.window_of_layer[l] = window;
  return c;
}

struct Shape_ {
  std::string name;
  std::function<ModelConfig()> make;
};

const std::vector<Shape_>& shapes() {
  static const std::vector<Shape_> all = {
      {"gpt2-small",
       [] {
         return gpt2({12, 768, 12, 12, 64, 3072, 50257, 1024});
       }},
      {"gpt2-medium",
       [] {
         return gpt2({24, 1024, 16, 16, 64, 4096, 50257, 1024});
       }},
      {"gpt2-large",
       [] {
         return gpt2({36, 1280, 20, 20, 64, 5120, 50257, 1024});
       }},
      {"gpt2-xl",
       [] {
         return gpt2({48, 1600, 25, 25, 64, 6400, 50257, 1024});
       }},
      {"pythia-70m",
       [] {
         return neox({6, 512, 8, 8, 64, 2048, 50304, 2048});
       }},
      {"pythia-160m",
       [] {
         return neox({12, 768, 12, 12, 64, 3072, 50304, 2048});
       }},
      {"smollm2-135m",
       [] {
         return llama({30, 576, 9, 3, 64, 1536, 49152, 8192}, 100000.0);
       }},
      {"llama-3.2-1b",
       [] {
         return llama({16, 2048, 32, 8, 64, 8192, 128256, 131072}, 500000.0);
       }},
      {"gemma-2-2b",
       [] {
         return gemma2({26, 2304, 8, 4, 256, 9216, 256000, 8192}, 4096);
       }},
  };
  return all;
}

}  // namespace

std::vector<std::string> shape_names() {
  std::vector<std::string> names;
  for (const Shape_& shape : shapes()) names.push_back(shape.name);
  return names;
}

ModelConfig shape_of(std::string_view name) {
  for (const Shape_& shape : shapes())
    if (shape.name == name) return shape.make();
  fail(ErrorCode::usage, "no shape is called '{}'; there are {}", name, fmt::join(shape_names(), ", "));
}

std::vector<NamedShape> capability_shapes() {
  const Sizes mha{3, 32, 4, 4, 8, 64, 97, 64};
  const Sizes gqa{3, 32, 4, 2, 12, 64, 97, 64};
  std::vector<NamedShape> all;
  const auto add = [&](std::string name, ModelConfig config, const std::function<void(ModelConfig&)>& change) {
    config.family = name;
    change(config);
    all.push_back({std::move(name), std::move(config)});
  };
  const auto alibi = [](ModelConfig& c) {
    c.positions = Positions::alibi;
    c.alibi_slopes = alibi_slopes(c.n_heads);
  };
  add("gpt2", gpt2(mha), [](ModelConfig&) {});
  add("gpt2-inverse-layer", gpt2(mha), [](ModelConfig& c) {
    for (std::size_t l = 0; l < 3; ++l) c.attn_scale_of_layer[l] /= static_cast<double>(l + 1);
  });
  add("gpt_neo", gpt2(mha), [](ModelConfig& c) {
    c.window_of_layer = {0, 4, 0};
    c.attn_scale_of_layer.assign(3, 1.0);
  });
  add("gptj", neox(mha), [](ModelConfig& c) {
    set_rotary(c, plain_rotary(10000.0, 4));
    c.rotary_adjacent = c.shared_norm = true;
    c.activation = Activation::gelu_tanh;
  });
  add("gpt_neox", neox({3, 32, 2, 2, 16, 64, 97, 64}), [](ModelConfig&) {});
  add("gpt_neox-sequential", neox({3, 32, 2, 2, 16, 64, 97, 64}), [](ModelConfig& c) { c.parallel = false; });
  add("opt", gpt2(mha), [](ModelConfig& c) { c.activation = Activation::relu; });
  add("bloom", gpt2(mha), [&](ModelConfig& c) {
    alibi(c);
    c.embed_norm = true;
    c.activation = Activation::gelu_tanh_bloom;
  });
  add("falcon", neox({3, 32, 4, 1, 8, 64, 97, 64}), [](ModelConfig& c) {
    set_rotary(c, plain_rotary(10000.0, 8));
    c.shared_norm = true;
  });
  add("llama", llama(gqa, 500.0), [](ModelConfig& c) {
    RotaryTable table = c.rotary_tables[0];
    scale_llama3(table, {8.0, 1.0, 4.0, 32.0});
    set_rotary(c, table);
  });
  add("mistral", llama(gqa, 10000.0), [](ModelConfig& c) { c.window_of_layer.assign(3, 4); });
  add("qwen3", llama(gqa, 1e6), [](ModelConfig& c) { c.qk_norm = QkNorm::per_head; });
  add("gemma", llama(gqa, 10000.0), [](ModelConfig& c) {
    c.embed_scale = std::sqrt(32.0);
    c.activation = Activation::gelu_tanh;
  });
  add("gemma2", gemma2(gqa, 4), [](ModelConfig& c) {
    c.attn_softcap = 3.0;
    c.logit_softcap = 4.0;
  });
  add("gemma3", gemma2(gqa, 4), [](ModelConfig& c) {
    c.attn_softcap = c.logit_softcap = 0.0;
    c.qk_norm = QkNorm::per_head;
    set_rotary(c, plain_rotary(1e6, 12), plain_rotary(1e4, 12));
  });
  add("phi", neox(mha), [](ModelConfig& c) {
    set_rotary(c, plain_rotary(10000.0, 4));
    c.shared_norm = true;
    c.activation = Activation::gelu_tanh;
  });
  add("stablelm", llama(gqa, 10000.0), [](ModelConfig& c) {
    c.norm = NormKind::layer_norm;
    set_rotary(c, plain_rotary(10000.0, 4));
  });
  add("olmo2", llama(mha, 500000.0), [](ModelConfig& c) {
    c.pre_norm = false;
    c.post_norm = true;
    c.qk_norm = QkNorm::full_width;
  });
  add("starcoder2", llama(gqa, 10000.0), [](ModelConfig& c) {
    c.norm = NormKind::layer_norm;
    c.gated_mlp = false;
    c.activation = Activation::gelu_tanh;
  });
  add("mpt", gpt2(mha), [&](ModelConfig& c) {
    alibi(c);
    c.activation = Activation::gelu;
  });
  add("attn-only", gpt2(mha), [](ModelConfig& c) { c.attn_only = true; });
  add("attn-only-shortformer", gpt2(mha), [](ModelConfig& c) {
    c.attn_only = true;
    c.positions = Positions::shortformer;
    c.norm = NormKind::none;
    c.final_norm = false;
  });
  add("solu_ln", gpt2(mha), [](ModelConfig& c) { c.activation = Activation::solu_ln; });
  add("tracr", gpt2(mha), [](ModelConfig& c) {
    c.causal = false;
    c.norm = NormKind::none;
    c.final_norm = false;
    c.activation = Activation::relu;
  });
  add("attn-only-smeared", gpt2(mha), [](ModelConfig& c) {
    c.attn_only = true;
    c.positions = Positions::shortformer;
    c.smeared_keys = true;
  });
  // Everything that a smeared key can meet on its way to the scores.
  add("smeared-rotary", llama(gqa, 500.0), [](ModelConfig& c) {
    c.qk_norm = QkNorm::per_head;
    c.window_of_layer = {0, 4, 0};
    c.smeared_keys = true;
  });
  add("no-positions", gpt2(mha), [](ModelConfig& c) { c.positions = Positions::none; });
  return all;
}

}  // namespace kirchhoff
