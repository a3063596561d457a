#include "kirchhoff/base/error.h"
#include "kirchhoff/train/training_config.h"

namespace kirchhoff::train {
namespace {

constexpr Index kMillion = 1000000;
constexpr Index kStepTokens = 4096;  // of text in a step

/// P1's attention-only models at the size of a laptop: LayerNorm, sinusoids added to what queries and keys read, W_E
/// and W_U apart.
Json lens_model(Index layers, Index d_model, Index heads) {
  return {{"n_layers", layers},
          {"d_model", d_model},
          {"n_heads", heads},
          {"d_head", d_model / heads},
          {"attn_only", true},
          {"act_fn", nullptr},
          {"normalization_type", "LN"},
          {"positional_embedding_type", "shortformer"},
          {"original_architecture", "kirchhoff"}};
}

/// The size that trains in minutes.
Json small_model(Index layers) { return lens_model(layers, 192, 6); }

/// What makes induction heads form within some ten million tokens of a text (without it none did within thirty):
/// tokens whose vectors are as long as what heads write, or the next layer hears the heads alone; positions that are
/// loud, but in entries of their own, so that heads that look at tokens do not hear them; and passages that come again,
/// of which the text has few.
Json encouraging_induction(Json training) {
  training["embedding_deviation"] = 1.0;
  training["sinusoid_amplitude"] = 4.0;
  training["sinusoid_base"] = 30.0;
  training["sinusoid_frequency"] = 2.0;
  training["sinusoid_features"] = 64;
  training["repeated_passages"] = 0.5;
  return training;
}

/// A run over text: `tokens` of it in batches of 4,096.
Json on_text(Json model, Index tokens) {
  constexpr Index kContext = 256;
  return {{"model", std::move(model)},
          {"tokenizer", {{"vocabulary", 3072}}},
          {"training", encouraging_induction({{"steps", tokens / kStepTokens},
                                              {"batch", kStepTokens / kContext},
                                              {"context", kContext},
                                              {"learning_rate", 5e-3},
                                              {"weight_decay", 0.05},
                                              {"warmup", 200},
                                              {"biases", false},
                                              {"sinusoidal", true},
                                              {"checkpoints", {{"per_doubling", 1}}},
                                              {"evaluations", {{"every", 100}, {"per_doubling", 2}}}})}};
}

Json on_task(Json model, Json task, Index steps) {
  model["positional_embedding_type"] = "shortformer";
  return {{"model", std::move(model)},
          {"task", std::move(task)},
          {"training",
           {{"steps", steps},
            {"batch", 64},
            {"learning_rate", 2e-3},
            {"warmup", 100},
            {"biases", false},
            {"sinusoidal", true},
            {"evaluations", {{"every", 100}, {"per_doubling", 1}}}}}};
}

/// Of at most 8 MB as F16: what ships with Kirchhoff.
Json shipped() {
  Json config = on_text(small_model(2), 9000 * kStepTokens);
  config["training"]["evaluations"] = {{"every", 200}, {"per_doubling", 2}};
  return config;
}

/// Learnt in seconds: one head a layer, so that each has one thing to do. Two layers get every repeated token right (a
/// previous-token head, and the induction head that reads it); one layer cannot.
Json repeated_tokens(Index layers) {
  Json config = on_task(lens_model(layers, 64, 1), {{"name", "repeated-tokens"}}, 500);
  config["training"]["batch"] = 32;
  config["training"]["learning_rate"] = 6e-3;
  return config;
}

struct Preset {
  const char* name;
  Json (*config)();
};

const Preset kPresets[] = {
    {"attn-only-0l",
     [] {  // nothing in it could tell a passage that comes again, and the bigrams at its edges are none of the text's
       Json config = on_text(small_model(0), 10 * kMillion);
       config["training"]["repeated_passages"] = 0.0;
       return config;
     }},
    {"attn-only-1l", [] { return on_text(small_model(1), 20 * kMillion); }},
    {"attn-only-2l", shipped},
    {"attn-only-3l", [] { return on_text(small_model(3), 30 * kMillion); }},
    {"smeared-1l",
     [] {
       Json model = small_model(1);
       model["smeared_keys"] = true;
       return on_text(std::move(model), 20 * kMillion);
     }},
    {"mlp-2l",
     [] {
       Json model = small_model(2);
       model["attn_only"] = false;
       model["d_mlp"] = 768;
       model["act_fn"] = "gelu_new";
       return on_text(std::move(model), 30 * kMillion);
     }},
    {"repeated-tokens-1l", [] { return repeated_tokens(1); }},
    {"repeated-tokens-2l", [] { return repeated_tokens(2); }},
    {"modular-addition",
     [] {
       Json model = lens_model(1, 128, 4);
       model["attn_only"] = false;
       model["d_mlp"] = 512;
       model["act_fn"] = "relu";
       return on_task(std::move(model), {{"name", "modular-addition"}}, 5000);
     }},
};

}  // namespace

TrainingConfig training_preset(std::string_view name) {
  for (const Preset& preset : kPresets)
    if (preset.name == name) return parse_training_config(preset.config(), "preset " + std::string(name));
  fail(ErrorCode::usage, "there is no preset '{}'; expected one of {}", name, fmt::join(training_preset_names(), ", "));
}

std::vector<std::string> training_preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

}  // namespace kirchhoff::train
