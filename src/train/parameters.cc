#include "kirchhoff/train/parameters.h"

#include <cmath>    // for cos, pow, sin, sqrt
#include <utility>  // for as_const

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/parallel.h"
#include "kirchhoff/base/random.h"

namespace kirchhoff::train {
namespace {

bool writes_to_stream(const WeightShape& shape) { return shape.slot == "W_O" || shape.slot == "W_out"; }
bool reads_positions(const WeightShape& shape) { return shape.slot == "W_Q" || shape.slot == "W_K"; }
bool is_gain(const WeightShape& shape) {
  return !shape.matrix && (shape.slot.ends_with(".w") || shape.slot == "q_norm" || shape.slot == "k_norm");
}
bool is_smear(const WeightShape& shape) { return shape.slot == "smear"; }

/// PE[p, 2i] = amplitude * sin(p / base^(2i/d)), PE[p, 2i+1] = amplitude * cos of the same.
void fill_sinusoids(float* out, Index positions, Index d_model, double base, double amplitude) {
  for (Index p = 0; p < positions; ++p)
    for (Index i = 0; i < d_model; ++i) {
      const double angle =
          static_cast<double>(p) / std::pow(base, static_cast<double>(i - i % 2) / static_cast<double>(d_model));
      out[p * d_model + i] = static_cast<float>(amplitude * (i % 2 == 0 ? std::sin(angle) : std::cos(angle)));
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
      check(entry.shape.d_in % 2 == 0, ErrorCode::usage, "training: sinusoidal positions need an even d_model, not {}",
            entry.shape.d_in);
      fill_sinusoids(out, entry.shape.d_out, entry.shape.d_in, options.sinusoid_base,
                     options.sinusoid_amplitude);
      has_positions = true;
      continue;
    }
    if (!entry.shape.matrix) {
      if (is_gain(entry.shape)) std::fill_n(out, entry.shape.size(), 1.0F);
      continue;  // biases 0; a smear of 0 is half of each key
    }
    double scale = writes_to_stream(entry.shape) ? deviation / std::sqrt(sublayers) : deviation;
    if (reads_positions(entry.shape)) scale /= std::max(1.0, options.sinusoid_amplitude);
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
