#include "kirchhoff/train/trainer.h"

#include <algorithm>  // for clamp, copy, min
#include <charconv>   // for from_chars
#include <cmath>      // for isfinite, sqrt
#include <utility>    // for move

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/parallel.h"
#include "kirchhoff/io/safetensors.h"
#include "kirchhoff/io/tensor_writer.h"
#include "kirchhoff/train/adamw.h"

namespace kirchhoff::train {
namespace {

/// Tokens whose activations and logits are held at once. Products of so many rows run as fast as larger ones.
constexpr Index kMicroBatchTokens = 512;

/// Sums of parts of a batch that are kept apart and may be computed at once: fixed, since the order of a sum's terms
/// changes its bits.
constexpr Index kLanes = 4;

Index micro_batch(const TrainingOptions& options) {
  if (options.micro_batch > 0) return std::min(options.micro_batch, options.batch);
  return std::clamp<Index>(kMicroBatchTokens / options.context, 1, options.batch);
}

Metric loss_of(const Batch& batch, Index begin, Index count) {
  if (batch.first_scored.empty()) return Metric::cross_entropy();
  const auto first = batch.first_scored.begin() + begin;
  return Metric::cross_entropy_from(std::vector<Index>(first, first + count));
}

const io::StoredTensor& state_tensor(const io::Checkpoint& state, const std::string& name, Index size) {
  const io::StoredTensor* tensor = state.find(name);
  check(tensor != nullptr && tensor->dtype == DType::f32 && tensor->shape == Shape{size}, ErrorCode::format,
        "'{}': tensor '{}' is missing or not F32 [{}]: the state belongs to another model", state.path, name, size);
  return *tensor;
}

/// A count in a state's metadata.
Index whole_number(const io::SafetensorsFile& file, const std::string& key) {
  const auto found = file.metadata.find(key);
  const std::string text = found == file.metadata.end() ? std::string() : found->second;
  Index value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check(error == std::errc() && end == text.data() + text.size() && value >= 0, ErrorCode::format,
        "'{}': '{}' in __metadata__ is '{}', expected a count: not a training's state", file.checkpoint.path, key,
        text);
  return value;
}

}  // namespace

Trainer::Trainer(const ModelFormat& format, const TrainingOptions& options, BatchSource batches)
    : options_(options), batches_(std::move(batches)), parameters_(format, options) {
  options_.validate();
  const auto size = static_cast<Index>(parameters_.values().size());
  first_ = Tensor(Shape{size});
  second_ = Tensor(Shape{size});
}

StepReport Trainer::advance() {
  const Index step = step_ + 1;
  const Batch batch = batches_(step);
  const auto sequences = static_cast<Index>(batch.sequences.size());
  check(sequences > 0 && (batch.first_scored.empty() || batch.first_scored.size() == batch.sequences.size()),
        ErrorCode::internal, "training: a batch of {} sequences with {} first tokens", sequences,
        batch.first_scored.size());
  StepReport report{.step = step, .tokens = tokens_, .learning_rate = options_.learning_rate_at(step)};
  for (const Tokens& tokens : batch.sequences) report.tokens += static_cast<Index>(tokens.size());

  // 1. The gradient of the sum of the sequences' losses.
  for (const double loss : pull_lanes(batch)) report.loss += loss / static_cast<double>(sequences);

  // 2. Its length, of the mean.
  const double mean = 1.0 / static_cast<double>(sequences);
  double squares = 0.0;
  for (const Parameters::Entry& entry : parameters_.entries())
    if (entry.trained) squares += sum_lanes(entry.shape.name);
  report.gradient_norm = std::sqrt(squares) * mean;
  check(
      std::isfinite(report.loss) && std::isfinite(report.gradient_norm), ErrorCode::numerical,
      "training diverged at step {}: loss {}, length of the gradient {}; a smaller learning rate (now {}) or a longer "
      "warm-up helps",
      step, report.loss, report.gradient_norm, report.learning_rate);
  const bool clips = options_.clip > 0.0 && report.gradient_norm > options_.clip;

  // 3. The weights.
  const std::span<float> values = parameters_.values();
  for (const Parameters::Entry& entry : parameters_.entries()) {
    if (!entry.trained) continue;
    const auto at = static_cast<std::size_t>(entry.offset), size = static_cast<std::size_t>(entry.shape.size());
    adamw({.learning_rate = report.learning_rate,
           .beta1 = options_.betas[0],
           .beta2 = options_.betas[1],
           .epsilon = options_.epsilon,
           .weight_decay = entry.decays ? options_.weight_decay : 0.0,
           .t = step,
           .gradient_scale = clips ? mean * options_.clip / report.gradient_norm : mean},
          values.subspan(at, size), std::as_const(lanes_.front().weights.at(entry.shape.name)).values(),
          first_.values().subspan(at, size), second_.values().subspan(at, size));
  }
  parameters_.publish();
  step_ = step;
  tokens_ = report.tokens;
  return report;
}

/// Into lanes_, whose sum is the gradient of the sum of the sequences' losses; these are returned. A lane's parts come
/// one after the other. Lanes go side by side where that keeps every thread busy: none waits for another then, and each
/// finds in its own cache what it wrote. One after the other, on all threads, they have the same numbers.
std::vector<double> Trainer::pull_lanes(const Batch& batch) {
  const auto sequences = static_cast<Index>(batch.sequences.size());
  const Index size = micro_batch(options_), parts = (sequences + size - 1) / size;
  const Index lanes = std::min(kLanes, parts);
  lanes_.resize(static_cast<std::size_t>(lanes));
  std::vector<double> losses(batch.sequences.size());
  const auto pull_lane = [&](Index lane) {
    Gradients& gradients = lanes_[static_cast<std::size_t>(lane)];
    for (Index part = lane; part < parts; part += lanes) {
      const Index begin = part * size, count = std::min(size, sequences - begin);
      const std::span<const Tokens> some =
          std::span(batch.sequences).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
      pull(model(), some, loss_of(batch, begin, count), {.weights = true, .accumulate = part != lane}, gradients);
      std::copy(gradients.values.begin(), gradients.values.end(), losses.begin() + begin);
    }
  };
  if (lanes > 1 && lanes % thread_count() == 0) {
    parallel_for(lanes, pull_lane);
  } else {
    for (Index lane = 0; lane < lanes; ++lane) pull_lane(lane);
  }
  return losses;
}

/// The gradient of an entry, in lanes_[0]; returns the sum of its squares.
double Trainer::sum_lanes(const std::string& name) {
  std::vector<std::span<const float>> terms;
  for (const Gradients& lane : std::span(lanes_).subspan(1)) terms.push_back(lane.weights.at(name).values());
  if (name == "W_E" && model().tied)  // the parameter's is the sum of its two uses
    for (const Gradients& lane : lanes_) terms.push_back(lane.weights.at("W_U").values());
  return add_up(lanes_.front().weights.at(name).values(), terms);
}

void Trainer::save(const std::string& path, const std::map<std::string, std::string>& notes) const {
  const std::span<const float> values = parameters_.values();
  const io::StoredTensor tensors[] = {
      {"parameters", DType::f32, {static_cast<Index>(values.size())}, std::as_bytes(values), 0, "memory", nullptr},
      io::borrowed("adam.first", first_),
      io::borrowed("adam.second", second_)};
  std::map<std::string, std::string> metadata = notes;
  metadata["step"] = std::to_string(step_);
  metadata["tokens"] = std::to_string(tokens_);
  io::write_safetensors(path, tensors, metadata);
}

std::map<std::string, std::string> Trainer::restore(const std::string& path) {
  io::SafetensorsFile file = io::read_safetensors(path);
  const Index step = whole_number(file, "step"), tokens = whole_number(file, "tokens");
  check(step <= options_.steps, ErrorCode::format, "'{}' is the state after step {}, the run has {}", path, step,
        options_.steps);
  const auto size = static_cast<Index>(parameters_.values().size());
  const io::StoredTensor& values = state_tensor(file.checkpoint, "parameters", size);
  const io::StoredTensor& first = state_tensor(file.checkpoint, "adam.first", size);
  const io::StoredTensor& second = state_tensor(file.checkpoint, "adam.second", size);
  io::decode(values, 0, parameters_.values());
  io::decode(first, 0, first_.values());
  io::decode(second, 0, second_.values());
  step_ = step;
  tokens_ = tokens;
  parameters_.publish();
  return std::move(file.metadata);
}

double Trainer::flops_per_step() const {
  const ModelConfig& c = model().config;
  double matrices = 0.0;  // values of the matrices that every token is multiplied with
  for (const Parameters::Entry& entry : parameters_.entries())
    if (entry.shape.matrix && entry.shape.slot != "W_E" && entry.shape.slot != "W_pos")
      matrices += static_cast<double>(entry.shape.size());
  if (model().tied) matrices += static_cast<double>(c.d_vocab) * static_cast<double>(c.d_model);
  const auto tokens = static_cast<double>(options_.batch) * static_cast<double>(options_.context);
  const double pairs = (static_cast<double>(options_.context) + 1.0) / 2.0;  // keys that a query sees, on average
  const double attention =
      4.0 * pairs * static_cast<double>(c.n_heads) * static_cast<double>(c.d_head) * static_cast<double>(c.n_layers);
  return 3.0 * tokens * (2.0 * matrices + attention);
}

}  // namespace kirchhoff::train
