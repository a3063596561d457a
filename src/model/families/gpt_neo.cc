#include "model/families.h"
#include "model/hf_config.h"

namespace kirchhoff {
namespace {

/// attention_types is a run-length code, [[["global", "local"], 6]]; attention_layers is the same written out.
std::vector<std::string> layer_kinds(ConfigReader& c) {
  if (!c.has("attention_types")) return c.texts("attention_layers");
  c.ignore({"attention_layers"});
  std::vector<std::string> kinds;
  const Json& runs = c.value("attention_types");
  const auto wrong = [&] { c.bad_value("attention_types", "a list of [[kinds], repetitions]"); };
  if (!runs.is_array()) wrong();
  for (const Json& run : runs) {
    if (!run.is_array() || run.size() != 2 || !run[0].is_array() || !run[1].is_number_unsigned()) wrong();
    if (run[1].get<Index>() > kMaxLayers) wrong();
    for (Index i = 0; i < run[1].get<Index>(); ++i)
      for (const Json& kind : run[0]) {
        if (!kind.is_string() || static_cast<Index>(kinds.size()) >= kMaxLayers) wrong();
        kinds.push_back(kind.get<std::string>());
      }
  }
  return kinds;
}

Recipe gpt_neo_hf(ConfigReader& c) {
  Recipe recipe;
  ModelConfig& model = recipe.config;
  model.n_layers = c.count("num_layers", kMaxLayers);
  model.d_model = c.count("hidden_size", kMaxWidth);
  model.n_heads = model.n_kv_heads = c.count("num_heads", kMaxWidth);
  model.d_head = c.divided("hidden_size", model.d_model, "num_heads", model.n_heads);
  model.d_mlp = c.count_or("intermediate_size", 4 * model.d_model, kMaxWidth);
  model.d_vocab = c.count("vocab_size", kMaxVocabulary);
  model.n_ctx = c.count("max_position_embeddings", kMaxPositions);
  model.positions = Positions::learned;
  model.norm_eps = c.positive_or("layer_norm_epsilon", 1e-5);
  model.activation = hf::activation(c, "activation_function", "gelu_new");
  hf::set_attn_scale(model, 1.0);  // scores are not divided by sqrt(d_head)

  const Index window = c.count_or("window_size", 256, kMaxPositions);
  const std::vector<std::string> kinds = layer_kinds(c);
  check(static_cast<Index>(kinds.size()) == model.n_layers, ErrorCode::format,
        "'{}': attention_types gives {} layers, num_layers is {}", c.file(), kinds.size(), model.n_layers);
  for (const std::string& kind : kinds) {
    check(kind == "global" || kind == "local", ErrorCode::unsupported,
          "'{}': attention_types has \"{}\", expected global or local", c.file(), kind);
    model.window_of_layer.push_back(kind == "local" ? window : 0);
  }

  recipe.prefixes = {"transformer.", ""};
  recipe.add("W_E", "{P}wte.weight");
  recipe.add("W_pos", "{P}wpe.weight");
  recipe.norm("ln1", "{P}h.{L}.ln_1", true);
  recipe.linear("Q", "{P}h.{L}.attn.attention.q_proj", false);
  recipe.linear("K", "{P}h.{L}.attn.attention.k_proj", false);
  recipe.linear("V", "{P}h.{L}.attn.attention.v_proj", false);
  recipe.linear("O", "{P}h.{L}.attn.attention.out_proj", true);
  recipe.norm("ln2", "{P}h.{L}.ln_2", true);
  recipe.linear("in", "{P}h.{L}.mlp.c_fc", true);
  recipe.linear("out", "{P}h.{L}.mlp.c_proj", true);
  recipe.norm("ln_final", "{P}ln_f", true);
  recipe.ignorable = {"*.attn.attention.bias", "*.attn.attention.masked_bias"};  // causal masks
  hf::output_head(recipe, c.boolean_or("tie_word_embeddings", true));
  return recipe;
}

}  // namespace

Family gpt_neo_family() {
  return {.name = "gpt_neo",
          .model_types = {"gpt_neo"},
          .architectures = {"GPTNeoForCausalLM", "GPTNeoModel"},
          .hugging_face = gpt_neo_hf};
}

}  // namespace kirchhoff
