#include "kirchhoff/model/load.h"

#include <algorithm>      // for any_of
#include <set>            // for set
#include <unordered_map>  // for unordered_map

#include "kirchhoff/model/stored_weights.h"
#include "model/materialise.h"
#include "model/resolve.h"
#include "model/slots.h"

namespace kirchhoff {
namespace {

constexpr Index kFloat = static_cast<Index>(sizeof(float));

class Loader {
 public:
  Loader(const io::ModelFiles& files, const LoadOptions& options)
      : checkpoint_(files.checkpoint), options_(options), recipe_(recipe_of(files)), dims_(dimensions(recipe_.config)) {
    for (const io::StoredTensor& tensor : checkpoint_.tensors) by_name_.emplace(tensor.name, &tensor);
    check(!by_name_.empty(), ErrorCode::not_found, "'{}': the model has no weights", files.path);
    model_.config = recipe_.config;
    model_.origin.argument = files.argument;
    model_.origin.path = files.path;
    model_.origin.format = checkpoint_.format;
    model_.origin.folded = recipe_.folded;
    choose_prefix();
  }

  Model load() {
    const std::vector<Step> steps = plan();
    refuse_unexpected(steps);
    model_.origin.weight_bytes = float_bytes(steps);
    model_.origin.packed = options_.weights == WeightsMode::packed ||
                           (options_.weights == WeightsMode::automatic && !fits(model_.origin.weight_bytes));
    model_.weights.layers.resize(static_cast<std::size_t>(model_.config.n_layers));
    for (std::size_t i = 0; i < steps.size(); ++i) {
      report(options_.progress, "load weights", static_cast<Index>(i), static_cast<Index>(steps.size()));
      throw_if_interrupted();
      fill(steps[i]);
    }
    if (recipe_.tied) model_.weights.W_U = model_.weights.W_E;
    model_.tied = recipe_.tied;
    check_complete(model_);
    report(options_.progress, "load weights", static_cast<Index>(steps.size()), static_cast<Index>(steps.size()));
    return std::move(model_);
  }

  TensorF64 as_stored(std::string_view name, const WeightValues& values) const {
    const io::StoredTensor& stored = named(name);
    TensorF64 out(stored.shape);
    for (const Step& step : plan()) {
      if (step.tensor != &stored) continue;
      const std::string block = step.slot.per_layer ? fmt::format("blocks.{}.", step.layer) : std::string();
      scatter(values(block + std::string(step.slot.name)), step.gather, out);
      if (recipe_.tied && step.slot.name == "W_E") scatter(values("W_U"), step.gather, out);
    }
    return out;
  }

 private:
  /// One rule applied to one layer: checked, ready to convert.
  struct Step {
    const io::StoredTensor* tensor;
    Slot slot;
    Index layer;
    Gather gather;
    double plus;
  };

  const io::StoredTensor& named(std::string_view name) const {
    for (const io::StoredTensor& tensor : checkpoint_.tensors)
      if (tensor.name == name || name.ends_with("." + tensor.name)) return tensor;
    fail(ErrorCode::not_found, "'{}': there is no tensor '{}'", checkpoint_.path, name);
  }

  static void scatter(std::span<const double> values, const Gather& gather, TensorF64& out) {
    if (values.empty()) return;
    check(static_cast<Index>(values.size()) == gather.d_out * gather.d_in, ErrorCode::usage,
          "a weight of {} x {} values was given {}", gather.d_out, gather.d_in, values.size());
    for (Index row = 0; row < gather.d_out; ++row)
      for (Index column = 0; column < gather.d_in; ++column)
        out[gather.row_offset(row) + gather.column_offset(column)] +=
            values[static_cast<std::size_t>(row * gather.d_in + column)];
  }

  void choose_prefix() {
    prefix_ = recipe_.prefixes.front();
    for (const TensorRule& rule : recipe_.rules) {
      if (rule.slot != "W_E") continue;
      for (const std::string& prefix : recipe_.prefixes)
        if (by_name_.contains(tensor_name(rule.tensor, prefix, 0))) {
          prefix_ = prefix;
          return;
        }
    }
  }

  std::vector<Step> plan() const {
    std::vector<Step> steps;
    for (const TensorRule& rule : recipe_.rules) {
      const Slot slot = find_slot(rule.slot, recipe_.config.qk_norm);
      const Gather gather = compile_axes(rule.axes.empty() ? slot.axes : std::string_view(rule.axes), slot.axes, dims_);
      const Index first = !slot.per_layer ? 0 : std::max<Index>(0, rule.layer);
      const Index last = !slot.per_layer || rule.layer >= 0 ? first : recipe_.config.n_layers - 1;
      for (Index layer = first; layer <= last; ++layer)
        steps.push_back({&stored(rule, layer, gather.source), slot, layer, gather, rule.plus});
    }
    return steps;
  }

  const io::StoredTensor& stored(const TensorRule& rule, Index layer, const Shape& expected) const {
    const std::string name = tensor_name(rule.tensor, prefix_, layer);
    const auto it = by_name_.find(name);
    if (it == by_name_.end())
      throw Error(
          ErrorCode::format,
          fmt::format("'{}': tensor '{}' is missing, expected shape {}", checkpoint_.path, name, bracketed(expected)),
          inspect_advice(checkpoint_.path));
    const io::StoredTensor& tensor = *it->second;
    if (tensor.shape != expected)
      throw Error(ErrorCode::format,
                  fmt::format("'{}': tensor '{}' has shape {}, the config says {}", tensor.file, name,
                              bracketed(tensor.shape), bracketed(expected)),
                  inspect_advice(tensor.file));
    return tensor;
  }

  static std::string inspect_advice(const std::string& file) {
    return fmt::format(
        "the weights and the config do not belong together, or the file is truncated; see 'kirchhoff inspect {}'",
        file);
  }

  /// Every tensor is used, or known to carry nothing; anything else may mean that the config is not the whole truth.
  void refuse_unexpected(const std::vector<Step>& steps) {
    std::set<const io::StoredTensor*> used;
    for (const Step& step : steps) used.insert(step.tensor);
    const auto listed = [&](const std::vector<std::string>& patterns, const std::string& name) {
      return std::any_of(patterns.begin(), patterns.end(),
                         [&](const std::string& p) { return matches(tensor_name(p, prefix_, 0), name); });
    };
    for (const io::StoredTensor& tensor : checkpoint_.tensors) {
      if (used.contains(&tensor)) continue;
      if (listed(recipe_.zero, tensor.name)) {
        const TensorF64 values = io::decode_f64(tensor);
        for (double value : values.values())
          check(value == 0.0, ErrorCode::unsupported,
                "'{}': tensor '{}' is not zero; a model with this term is not implemented", tensor.file, tensor.name);
      } else if (recipe_.tied && tensor.name == recipe_.tied_head) {
        refuse_another_head(steps, tensor);
      } else if (!listed(recipe_.ignorable, tensor.name)) {
        throw Error(ErrorCode::format,
                    fmt::format("'{}': unexpected tensor '{}' {}: nothing in the config asks for it", tensor.file,
                                tensor.name, bracketed(tensor.shape)),
                    inspect_advice(tensor.file));
      }
      model_.origin.ignored.push_back(tensor.name);
    }
  }

  /// Some files repeat the embedding as the head that is tied to it. Where the two differ, config and weights
  /// contradict each other, and programs disagree about which of them to believe.
  static void refuse_another_head(const std::vector<Step>& steps, const io::StoredTensor& head) {
    const auto embedding =
        std::find_if(steps.begin(), steps.end(), [](const Step& step) { return step.slot.name == "W_E"; });
    const io::StoredTensor& tied = *embedding->tensor;
    if (head.dtype == tied.dtype && head.shape == tied.shape && std::ranges::equal(head.bytes, tied.bytes)) return;
    throw Error(ErrorCode::format,
                fmt::format("'{}': the config ties the unembedding to '{}', but tensor '{}' has other values",
                            head.file, tied.name, head.name),
                "set tie_word_embeddings to false to use it, or remove the tensor");
  }

  static Index float_bytes(const std::vector<Step>& steps) {
    Index bytes = 0;
    for (const Step& step : steps) bytes += step.gather.d_out * step.gather.d_in * kFloat;
    return bytes;
  }

  /// A run needs memory beside the weights; a tenth is kept for it.
  static bool fits(Index weight_bytes) { return weight_bytes < available_memory() / 10 * 9; }

  void fill(const Step& step) {
    const MaterialiseOptions how = {.packed = model_.origin.packed, .allow_nonfinite = options_.allow_nonfinite};
    if (step.slot.matrix) {
      *step.slot.matrix(model_.weights, step.layer) = materialise_matrix(*step.tensor, step.gather, how);
    } else {
      *step.slot.vector(model_.weights, step.layer) = materialise_vector(*step.tensor, step.gather, step.plus, how);
    }
  }

  const io::Checkpoint& checkpoint_;
  const LoadOptions& options_;
  Recipe recipe_;
  Dimensions dims_;
  std::unordered_map<std::string_view, const io::StoredTensor*> by_name_;
  std::string prefix_;
  Model model_;
};

}  // namespace

Model load_model(const io::ModelFiles& files, const LoadOptions& options) { return Loader(files, options).load(); }

TensorF64 as_stored(const io::ModelFiles& files, std::string_view tensor, const WeightValues& values) {
  return Loader(files, {}).as_stored(tensor, values);
}

Model load_model(const std::string& argument, const LoadOptions& options) {
  return load_model(io::open_model_files(argument), options);
}

}  // namespace kirchhoff
