#include "kirchhoff/train/parameters.h"

#include <cmath>    // for cos, pow, sin, sqrt
#include <utility>  // for as_const

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/parallel.h"
#include "kirchhoff/base/random.h"

namespace kirchhoff::train {
namespace {

bool writes_to_stream(const WeightShape& shape) { return shape.slot == "W_O" || shape.slot == "W_out"; }
bool is_gain(const WeightShape& shape) {
  return !shape.matrix && (shape.slot.ends_with(".w") || shape.slot == "q_norm" || shape.slot == "k_norm");
}
bool is_smear(const WeightShape& shape) { return shape.slot == "smear"; }

/// PE[p, 2i] = amplitude * sin(p * frequency / base^(2i/n)), PE[p, 2i+1] = amplitude * cos of the same, 2i < n, the
/// number of features; 0 from there on.
void fill_sinusoids(float* out, Index positions, Index d_model, Index n, const TrainingOptions& options) {
  std::fill_n(out, positions * d_model, 0.0F);
  for (Index p = 0; p < positions; ++p)
    for (Index i = 0; i < n; ++i) {
      const double angle = options.sinusoid_frequency * static_cast<double>(p) /
                           std::pow(options.sinusoid_base, static_cast<double>(i - i % 2) / static_cast<double>(n));
      out[p * d_model + i] =
          static_cast<float>(options.sinusoid_amplitude * (i % 2 == 0 ? std::sin(angle) : std::cos(angle)));
    }
}

/// A bias that stays 0 is none, and costs nothing.
bool reads(const Parameters::Entry& entry) { return entry.trained || entry.shape.matrix; }

}  // namespace

Parameters::Parameters(const ModelFormat& format, const TrainingOptions& options)
    : format_(format), model_(format.model()) {
  constexpr Index kAlign = 16;
  Index total = 0;
  for (const WeightShape& shape : format_.weights()) {
    const bool fixed = (shape.slot == "W_pos" && options.sinusoidal) ||
                       (!options.biases && !shape.matrix && !is_gain(shape) && !is_smear(shape));
    entries_.push_back({shape, total, shape.matrix, !fixed});
    total += (shape.size() + kAlign - 1) / kAlign * kAlign;
  }
  values_ = std::make_shared<Tensor>(Shape{total});
  initialise(options);
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (reads(entries_[i])) format_.bind(model_, i, values_->data() + entries_[i].offset, values_);
  model_.origin.argument = "training";
  model_.origin.format = "memory";
  model_.origin.weight_bytes = total * static_cast<Index>(sizeof(float));
}

void Parameters::initialise(const TrainingOptions& options) {
  const ModelConfig& config = format_.config();
  const double deviation =
      options.init_deviation > 0.0 ? options.init_deviation : 0.8 / std::sqrt(static_cast<double>(config.d_model));
  const double sublayers = static_cast<double>(std::max<Index>(1, config.n_layers)) * (config.attn_only ? 1.0 : 2.0);
  Random seeds(options.seed);
  bool has_positions = false;
  for (const Entry& entry : entries_) {
    const std::uint64_t seed = seeds.bits();  // drawn for each, so that one weight does not move another's
    float* out = values_->data() + entry.offset;
    if (entry.shape.slot == "W_pos" && options.sinusoidal) {
      const Index features = options.sinusoid_features > 0 ? options.sinusoid_features : entry.shape.d_in;
      check(features % 2 == 0 && features <= entry.shape.d_in, ErrorCode::usage,
            "training: sinusoidal positions need an even number of features, at most d_model ({}), not {}",
            entry.shape.d_in, features);
      fill_sinusoids(out, entry.shape.d_out, entry.shape.d_in, features, options);
      has_positions = true;
      continue;
    }
    if (!entry.shape.matrix) {
      if (is_gain(entry.shape)) std::fill_n(out, entry.shape.size(), 1.0F);
      continue;  // biases 0; a smear of 0 is half of each key
    }
    double scale = writes_to_stream(entry.shape) ? deviation / std::sqrt(sublayers) : deviation;
    if (entry.shape.slot == "W_E" && options.embedding_deviation > 0.0) scale = options.embedding_deviation;
    const Index d_in = entry.shape.d_in;
    parallel_for_blocks(entry.shape.d_out, 16, [&](Index begin, Index end) {
      for (Index row = begin; row < end; ++row) {
        Random random(Random(seed + static_cast<std::uint64_t>(row)).bits());  // mixed: rows must not overlap
        for (Index i = 0; i < d_in; ++i) out[row * d_in + i] = static_cast<float>(scale * random.normal());
      }
    });
  }
  check(has_positions || !options.sinusoidal, ErrorCode::usage,
        "training: sinusoidal positions, but the model has no position vectors; expected standard or shortformer");
}

Index Parameters::count() const {
  Index count = 0;
  for (const Entry& entry : entries_)
    if (entry.trained) count += entry.shape.size();
  return count;
}

void Parameters::publish() {
  for (std::size_t i = 0; i < entries_.size(); ++i)
    if (!entries_[i].shape.matrix && reads(entries_[i]))
      format_.bind(model_, i, values_->data() + entries_[i].offset, values_);
}

void Parameters::write(const std::string& directory, DType dtype) const {
  std::vector<std::span<const float>> values;
  for (const Entry& entry : entries_) values.push_back(of(entry));
  format_.write(directory, values, dtype);
}

}  // namespace kirchhoff::train
