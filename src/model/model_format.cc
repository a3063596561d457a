#include "kirchhoff/model/model_format.h"

#include <algorithm>  // for find_if, max
#include <utility>    // for move

#include "kirchhoff/io/encode.h"
#include "kirchhoff/io/tensor_writer.h"
#include "kirchhoff/io/whole_file.h"
#include "model/axes.h"
#include "model/resolve.h"
#include "model/slots.h"

namespace kirchhoff {
namespace {

Gather gather_of(const std::string& axes, const Slot& slot, const ModelConfig& config) {
  return compile_axes(axes.empty() ? slot.axes : std::string_view(axes), slot.axes, dimensions(config));
}

}  // namespace

ModelFormat::ModelFormat(nlohmann::ordered_json config, const std::string& path) : json_(std::move(config)) {
  const Recipe recipe = recipe_of(json_, path);
  config_ = recipe.config;
  tied_ = recipe.tied;
  for (const TensorRule& rule : recipe.rules) {
    const Slot slot = find_slot(rule.slot, config_.qk_norm);
    const Gather gather = gather_of(rule.axes, slot, config_);
    const Index first = slot.per_layer ? std::max<Index>(0, rule.layer) : -1;
    const Index last = !slot.per_layer || rule.layer >= 0 ? first : config_.n_layers - 1;
    for (Index layer = first; layer <= last; ++layer) {
      const std::string block = layer < 0 ? std::string() : fmt::format("blocks.{}.", layer);
      weights_.push_back({block + rule.slot, rule.slot, layer, gather.d_out, gather.d_in, slot.matrix != nullptr});
      places_.push_back({tensor_name(rule.tensor, recipe.prefixes.front(), layer), rule.axes, rule.plus});
    }
  }
}

Model ModelFormat::model() const {
  Model model;
  model.config = config_;
  model.tied = tied_;
  model.weights.layers.resize(static_cast<std::size_t>(config_.n_layers));
  return model;
}

void ModelFormat::bind(Model& model, std::size_t i, const float* values,
                       const std::shared_ptr<const void>& owner) const {
  const WeightShape& shape = weights_.at(i);
  const Slot slot = find_slot(shape.slot, config_.qk_norm);
  const Index layer = std::max<Index>(0, shape.layer);
  if (slot.matrix == nullptr) {
    *slot.vector(model.weights, layer) = WeightVector(std::vector<double>(values, values + shape.d_out));
    return;
  }
  *slot.matrix(model.weights, layer) = WeightMatrix(shape.d_out, shape.d_in, values, owner);
  if (tied_ && shape.slot == "W_E") model.weights.W_U = model.weights.W_E;
}

void ModelFormat::write(const std::string& directory, std::span<const std::span<const float>> values,
                        DType dtype) const {
  check(dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16, ErrorCode::usage,
        "a model is written as F32, F16 or BF16, not as {}", info(dtype).name);

  // 1. The canonical weights, scattered to where the file has them; a fused tensor comes from several.
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const Place& place = places_[i];
    const Gather gather = gather_of(place.axes, find_slot(weights_[i].slot, config_.qk_norm), config_);
    auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.first == place.tensor; });
    if (found == tensors.end()) found = tensors.insert(tensors.end(), {place.tensor, Tensor(gather.source)});
    const std::span<const float> from = values[i];
    for (Index row = 0; row < gather.d_out; ++row)
      for (Index column = 0; column < gather.d_in; ++column)
        found->second[gather.row_offset(row) + gather.column_offset(column)] =
            static_cast<float>(double{from[static_cast<std::size_t>(row * gather.d_in + column)]} - place.plus);
  }

  // 2. The files: the weights last, so that a directory with weights is a whole model.
  io::write_whole_file(directory + "/config.json", json_.dump(2) + "\n");
  std::vector<std::vector<std::byte>> bytes;
  std::vector<io::StoredTensor> stored;
  for (const auto& [name, tensor] : tensors) {
    io::StoredTensor& one = stored.emplace_back(io::borrowed(name, tensor));
    if (dtype == DType::f32) continue;
    one.dtype = dtype;
    one.bytes = bytes.emplace_back(io::encode(name, tensor, dtype));
  }
  io::write_safetensors(directory + "/model.safetensors", stored, {{"format", "pt"}});
}

void ModelFormat::write(const std::string& directory, const Model& model, DType dtype) const {
  Weights weights = model.weights;  // the slots' look-up gives what may change
  std::vector<Tensor> memory;
  std::vector<std::span<const float>> values;
  for (const WeightShape& shape : weights_) {
    const Slot slot = find_slot(shape.slot, config_.qk_norm);
    const Index layer = std::max<Index>(0, shape.layer);
    if (slot.matrix == nullptr) {
      const WeightVector& vector = *slot.vector(weights, layer);
      check(vector.size() == shape.size(), ErrorCode::usage, "the model has no {}, which this format needs",
            shape.name);
      values.emplace_back(vector.f32());
      continue;
    }
    const WeightMatrix& matrix = *slot.matrix(weights, layer);
    check(matrix.d_out() == shape.d_out && matrix.d_in() == shape.d_in, ErrorCode::usage,
          "the model's {} is [{}, {}], this format's [{}, {}]", shape.name, matrix.d_out(), matrix.d_in(), shape.d_out,
          shape.d_in);
    Tensor& expanded = memory.emplace_back(Tensor::uninitialised({shape.d_out, shape.d_in}));
    matrix.rows(0, shape.d_out, expanded.data());
    values.emplace_back(expanded.values());
  }
  write(directory, values, dtype);
}

}  // namespace kirchhoff
