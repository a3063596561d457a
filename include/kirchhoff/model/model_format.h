#pragma once
#include <nlohmann/json.hpp>

#include <memory>  // for shared_ptr
#include <span>    // for span
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/model/model.h"
#include "kirchhoff/tensor/dtype.h"

namespace kirchhoff {

/// One weight that a model of some format has, under its canonical name.
struct WeightShape {
  std::string name;  ///< "W_E", "blocks.3.W_Q", "blocks.3.ln1.w": those of Gradients::weights
  std::string slot;  ///< the name without its block: "W_Q", "ln1.w"
  Index layer = -1;  ///< -1: of the whole model
  Index d_out = 0, d_in = 1;
  bool matrix = false;  ///< storage [d_out, d_in]; otherwise a vector of d_out values

  Index size() const { return d_out * d_in; }
};

/// What a config says about the files of its models: which weights there are, and in which tensors they lie. The same
/// table by which load_model reads, read backwards.
class ModelFormat {
 public:
  /// A TransformerLens config or a Hugging Face config.json; `path` is for messages. Errors: as read_config.
  ModelFormat(nlohmann::ordered_json config, const std::string& path);

  const ModelConfig& config() const { return config_; }
  const nlohmann::ordered_json& json() const { return json_; }
  bool tied() const { return tied_; }
  /// In a fixed order; a tied W_U is not among them.
  const std::vector<WeightShape>& weights() const { return weights_; }

  /// A model without weights, to be bound.
  Model model() const;
  /// Weight `i` of weights() becomes `values`: a matrix borrows them (they may change under it; `owner` keeps them), a
  /// vector copies them.
  void bind(Model& model, std::size_t i, const float* values, const std::shared_ptr<const void>& owner) const;

  /// Writes DIRECTORY/model.safetensors and DIRECTORY/config.json (TransformerLens: tl_config.json beside it is not
  /// needed), which load_model opens, each whole or not at all. `values[i]` are those of weights()[i]. dtype: F32, F16
  /// or BF16, rounded to nearest even. Errors: io; usage (another dtype); numerical (a value that F16 cannot hold, by
  /// tensor).
  void write(const std::string& directory, std::span<const std::span<const float>> values,
             DType dtype = DType::f32) const;
  /// The same with the weights of a model of this format.
  void write(const std::string& directory, const Model& model, DType dtype = DType::f32) const;

 private:
  struct Place {  // of a weight in a file
    std::string tensor, axes;
    double plus = 0.0;
  };
  nlohmann::ordered_json json_;
  ModelConfig config_;
  bool tied_ = false;
  std::vector<WeightShape> weights_;
  std::vector<Place> places_;
};

}  // namespace kirchhoff
