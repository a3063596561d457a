// Gradients of every weight of what `kirchhoff train` accepts, by central differences in double: of the training loss,
// over the array that training changes.
#include <gtest/gtest.h>

#include <cmath>

#include "kirchhoff/engine/pull.h"
#include "kirchhoff/train/parameters.h"
#include "train/support.h"

namespace kirchhoff::train {
namespace {

Json config_of(const std::string& positions, const Json& norm, const std::string& mlp) {
  Json config = {{"n_layers", 2},
                 {"d_model", 16},
                 {"n_heads", 2},
                 {"d_head", 8},
                 {"n_ctx", 12},
                 {"d_vocab", 19},
                 {"attn_only", mlp == "none"},
                 {"act_fn", mlp == "none" ? Json(nullptr) : Json(mlp == "gated" ? "silu" : "gelu_new")},
                 {"normalization_type", norm},
                 {"positional_embedding_type", positions}};
  if (mlp != "none") config["d_mlp"] = 24;
  if (mlp == "gated") config["gated_mlp"] = true;
  if (positions == "rotary") config["rotary_dim"] = 8;
  return config;
}

std::vector<Json> configs() {
  std::vector<Json> all;
  for (const char* positions : {"standard", "shortformer", "rotary", "none"})
    for (const Json& norm : {Json("LN"), Json("RMS"), Json(nullptr)})
      for (const char* mlp : {"none", "gelu", "gated"}) all.push_back(config_of(positions, norm, mlp));
  for (const char* positions : {"standard", "rotary"}) {
    all.push_back(config_of(positions, "LN", "none"));
    all.back()["smeared_keys"] = true;
  }
  all.push_back(config_of("shortformer", "LN", "none"));
  all.back()["n_layers"] = 0;
  all.push_back(config_of("shortformer", "LN", "none"));
  all.back()["n_key_value_heads"] = 1;
  all.push_back({{"model_type", "gpt2"},
                 {"vocab_size", 19},
                 {"n_positions", 12},
                 {"n_embd", 16},
                 {"n_layer", 2},
                 {"n_head", 2},
                 {"n_inner", 24},
                 {"activation_function", "gelu_new"}});  // tied
  all.push_back({{"model_type", "llama"},
                 {"vocab_size", 19},
                 {"max_position_embeddings", 12},
                 {"hidden_size", 16},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"intermediate_size", 24},
                 {"rms_norm_eps", 1e-5},
                 {"hidden_act", "silu"},
                 {"tie_word_embeddings", true}});
  return all;
}

/// The array of a run, in which every weight, biases and smears included, is some number that float32 holds after a
/// step of 2^-15.
class Point {
 public:
  explicit Point(const Json& config) : format_(config, "test"), parameters_(format_, options()) {
    Random random(7);
    for (const Parameters::Entry& entry : parameters_.entries()) {
      const bool gain = !entry.shape.matrix && entry.shape.slot.ends_with(".w");
      for (Index i = 0; i < entry.shape.size(); ++i) {
        const double value = (gain ? 1.0 : 0.0) + 0.3 * random.normal();
        parameters_.values()[static_cast<std::size_t>(entry.offset + i)] =
            static_cast<float>(std::round(value * 0x1p15) * 0x1p-15);
      }
    }
    parameters_.publish();
  }

  static TrainingOptions options() { return {.steps = 1}; }
  Parameters& parameters() { return parameters_; }

  /// The loss with one weight moved by t along a direction.
  double loss_at(const Parameters::Entry& entry, const std::vector<float>& direction, double t,
                 std::span<const Tokens> batch, const Metric& metric) {
    const auto at = static_cast<std::size_t>(entry.offset);
    const std::vector<float> own(parameters_.values().begin() + entry.offset,
                                 parameters_.values().begin() + entry.offset + entry.shape.size());
    for (std::size_t i = 0; i < own.size(); ++i)
      parameters_.values()[at + i] = own[i] + direction[i] * static_cast<float>(t);
    parameters_.publish();
    double sum = 0.0;
    for (const double value : metric.values(run_f64(parameters_.model(), batch))) sum += value;
    std::copy(own.begin(), own.end(), parameters_.values().begin() + entry.offset);
    parameters_.publish();
    return sum;
  }

 private:
  ModelFormat format_;
  Parameters parameters_;
};

TEST(TrainingGradients, OfEveryWeightAreDerivatives) {
  const std::vector<Tokens> batch{{3, 1, 4, 1, 5, 9, 2, 6}, {5, 3, 5, 8, 9}};
  const Metric metric = Metric::cross_entropy_from({1, 2});
  for (const Json& config : configs()) {
    Point point(config);
    const GradientsF64 gradients = pull_f64(point.parameters().model(), batch, metric, {.weights = true});
    Random random(11);
    for (const Parameters::Entry& entry : point.parameters().entries()) {
      ASSERT_TRUE(gradients.weights.contains(entry.shape.name)) << entry.shape.name;
      const TensorF64& gradient = gradients.weights.at(entry.shape.name);
      ASSERT_EQ(gradient.size(), entry.shape.size()) << entry.shape.name;
      std::vector<float> direction;
      double along = 0.0, norm = 0.0;
      for (Index i = 0; i < gradient.size(); ++i) {
        direction.push_back(static_cast<float>(random.below(3)) - 1.0F);
        // A tied W_E has the gradient of W_U's use, too.
        const double g =
            gradient[i] +
            (point.parameters().model().tied && entry.shape.name == "W_E" ? gradients.weights.at("W_U")[i] : 0.0);
        along += g * double{direction.back()};
        norm += g * g;
      }
      const double h = 0x1p-15;
      const auto loss = [&](double t) { return point.loss_at(entry, direction, t, batch, metric); };
      const double want = (8.0 * (loss(h) - loss(-h)) - (loss(2.0 * h) - loss(-2.0 * h))) / (12.0 * h);
      EXPECT_NEAR(along, want, 2e-7 * std::max(std::sqrt(norm), 1e-2)) << entry.shape.name << " of " << config.dump();
    }
  }
}

}  // namespace
}  // namespace kirchhoff::train
