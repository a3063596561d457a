#include "kirchhoff/engine/compare.h"

#include <fmt/format.h>

#include <cmath>        // for abs, isfinite
#include <limits>       // for numeric_limits
#include <map>          // for map
#include <type_traits>  // for is_same_v

#include "engine/expected_values.h"
#include "engine/reference_defects.h"
#include "kirchhoff/engine/loss.h"
#include "kirchhoff/engine/pull.h"
#include "kirchhoff/engine/run.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/model/stored_weights.h"

namespace kirchhoff {
namespace {

using engine::ExpectedValues;
using engine::Meaning;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// How far `got` is from `want`, entry by entry.
struct Difference {
  double abs = 0.0, rel = 0.0;
  Index at = 0;  // flat index of the largest
};

template <class Get>
Difference largest_difference(std::span<const double> want, const Get& got) {
  double scale = 0.0;
  for (const double w : want)
    if (std::isfinite(w)) scale = std::max(scale, std::abs(w));
  Difference worst;
  for (Index i = 0; i < static_cast<Index>(want.size()); ++i) {
    const double w = want[static_cast<std::size_t>(i)], g = got(i);
    if (g == w) continue;  // also -inf where -inf is expected
    const double error = std::isfinite(g) && std::isfinite(w) ? std::abs(g - w) : kInfinity;
    if (error > worst.abs) worst = {error, 0.0, i};
  }
  if (worst.abs > 0.0) worst.rel = scale > 0.0 ? worst.abs / scale : kInfinity;
  return worst;
}

std::string position(const Shape& shape, Index flat) {
  Shape index(shape.size());
  for (std::size_t a = shape.size(); a-- > 0; flat /= shape[a]) index[a] = flat % shape[a];
  return bracketed(index);
}

/// Gathers comparisons into a result.
class Tally {
 public:
  explicit Tally(Comparison& result) : result_(result) {}

  void skip(const Meaning& meaning) {
    SkippedKind& s = skipped_[meaning.kind];
    s.kind = meaning.kind;
    s.reason = meaning.reason;
    ++s.tensors;
  }
  void fail(std::string line) { result_.failures.push_back(std::move(line)); }
  void add(const std::string& name, const std::string& kind, const Difference& d, const std::string& where, double got,
           double want) {
    ++result_.sites;
    KindComparison& k = kinds_[kind];
    k.kind = kind;
    ++k.tensors;
    k.max_abs_error = std::max(k.max_abs_error, d.abs);
    if (k.worst.empty() || d.rel > k.max_rel_error) {
      k.max_rel_error = d.rel;
      k.worst = name;
      k.where = where;
    }
    if (result_.worst.empty() || d.rel > result_.max_rel_error) {
      result_.max_rel_error = d.rel;
      result_.worst = name;
    }
    if (d.rel > result_.tolerance)
      fail(fmt::format("{}: relative error {:.3g} at {}: got {:.9g}, expected {:.9g}", name, d.rel, where, got, want));
  }
  void finish() {
    for (auto& [kind, comparison] : kinds_) result_.kinds.push_back(std::move(comparison));
    for (auto& [kind, skipped] : skipped_) result_.skipped.push_back(std::move(skipped));
  }

 private:
  Comparison& result_;
  std::map<std::string, KindComparison> kinds_;
  std::map<std::string, SkippedKind> skipped_;
};

/// `shape` with an axis of heads after the position, where the engine has one value for all heads.
bool has_head_axis(const Shape& shape, const Shape& ours, const ModelConfig& config) {
  return shape.size() == 3 && ours.size() == 2 && shape[0] == ours[0] && shape[2] == ours[1] &&
         (shape[1] == config.n_heads || shape[1] == config.n_kv_heads);
}

/// `ours` are values of this shape, flat.
template <class Real>
void compare_tensor(const io::StoredTensor& stored, const std::string& kind, const Shape& shape,
                    std::span<const Real> ours, const ModelConfig& config, Tally& tally) {
  const bool per_head = has_head_axis(stored.shape, shape, config);
  if (stored.shape != shape && !per_head) {
    tally.fail(
        fmt::format("{}: shape {} computed, {} expected", stored.name, bracketed(shape), bracketed(stored.shape)));
    return;
  }
  const TensorF64 want = io::decode_f64(stored);
  const Index width = shape.back(), heads = per_head ? stored.shape[1] : 1;
  const auto got = [&](Index i) {
    const Index at = per_head ? i / (heads * width) * width + i % width : i;
    return static_cast<double>(ours[static_cast<std::size_t>(at)]);
  };
  const Difference d = largest_difference(want.values(), got);
  tally.add(stored.name, kind, d, position(stored.shape, d.at), got(d.at), want[d.at]);
}

/// The same for what one sequence gave: its batch axis has one entry.
template <class Real>
void compare_tensor(const io::StoredTensor& stored, const std::string& kind, const BasicTensor<Real>& ours,
                    const ModelConfig& config, Tally& tally) {
  compare_tensor(stored, kind, Shape(ours.shape().begin() + 1, ours.shape().end()), ours.values(), config, tally);
}

/// What the files hold about one sequence, and what it is.
struct Compared {
  const io::StoredTensor* stored;
  Meaning meaning;
};

/// Skips what the engine does not know, and fails what the model lacks.
std::vector<Compared> compared_values(const ExpectedValues& expected, const ExpectedValues::Sequence& sequence,
                                      const ModelConfig& config, Tally& tally) {
  std::vector<Compared> compared;
  for (const io::StoredTensor& stored : expected.checkpoint.tensors) {
    if (!stored.name.starts_with(sequence.prefix)) continue;
    const std::string name = stored.name.substr(sequence.prefix.size());
    Meaning meaning = engine::meaning_of(expected, name, config.n_layers);
    if (meaning.site.empty()) {
      tally.skip(meaning);
      continue;
    }
    try {
      if (meaning.site != "logits" && meaning.what != Meaning::What::parameter_gradient)
        find_sites(config, meaning.site);
      compared.push_back({&stored, std::move(meaning)});
    } catch (const Error& e) {
      tally.fail(fmt::format("{}: {}", stored.name, e.what()));
    }
  }
  return compared;
}

/// One run that captures every site that the file has a value for.
template <class Real>
void compare_values(const Model& model, const ExpectedValues::Sequence& sequence, std::span<const Compared> compared,
                    Tally& tally) {
  RunOptions options;
  for (const Compared& c : compared)
    if (c.meaning.what == Meaning::What::value && c.meaning.site != "logits") options.capture.push_back(c.meaning.site);
  BasicTrace<Real> trace;
  if constexpr (std::is_same_v<Real, float>)
    trace = run(model, sequence.tokens, options);
  else
    trace = run_f64(model, sequence.tokens, options);
  for (const Compared& c : compared)
    if (c.meaning.what == Meaning::What::value)
      compare_tensor(*c.stored, c.meaning.kind, c.meaning.site == "logits" ? trace.logits : trace.at(c.meaning.site),
                     model.config, tally);
  if (!sequence.loss) return;
  const double got = mean_loss(token_losses(trace)), want = *sequence.loss;
  const Difference d = largest_difference({&want, 1}, [&](Index) { return got; });
  tally.add(sequence.prefix + "loss", "loss", d, "mean", got, want);
}

/// One backward pass, if the file has gradients.
template <class Real>
void compare_gradients(const Model& model, const ExpectedValues& expected, const ExpectedValues::Sequence& sequence,
                       std::span<const Compared> compared, Tally& tally) {
  using What = Meaning::What;
  PullOptions options;
  for (const Compared& c : compared) {
    if (c.meaning.what == What::gradient) options.at.push_back(c.meaning.site);
    options.weights = options.weights || c.meaning.what == What::parameter_gradient;
  }
  if (options.at.empty() && !options.weights) return;
  const Metric metric =
      Metric::logit_difference({{.targets = {expected.metric->target}, .foils = {expected.metric->foil}}});
  BasicGradients<Real> gradients;
  if constexpr (std::is_same_v<Real, float>)
    gradients = pull(model, sequence.tokens, metric, options);
  else
    gradients = pull_f64(model, sequence.tokens, metric, options);

  std::vector<double> wide;
  const WeightValues values = [&](const std::string& name) -> std::span<const double> {
    const auto found = gradients.weights.find(name);
    if (found == gradients.weights.end()) return {};
    wide.assign(found->second.values().begin(), found->second.values().end());
    return wide;
  };
  for (const Compared& c : compared) {
    if (c.meaning.what == What::gradient)
      compare_tensor(*c.stored, c.meaning.kind, gradients.at(c.meaning.site), model.config, tally);
    if (c.meaning.what != What::parameter_gradient) continue;
    try {
      const TensorF64 ours = as_stored(io::open_model_files(model.origin.argument), c.meaning.site, values);
      compare_tensor(*c.stored, c.meaning.kind, ours.shape(), ours.values(), model.config, tally);
    } catch (const Error& e) {
      tally.fail(fmt::format("{}: {}", c.stored->name, e.what()));
    }
  }
}

template <class Real>
void compare_sequence(const Model& model, const ExpectedValues& expected, const ExpectedValues::Sequence& sequence,
                      Tally& tally) {
  const std::vector<Compared> compared = compared_values(expected, sequence, model.config, tally);
  compare_values<Real>(model, sequence, compared, tally);
  compare_gradients<Real>(model, expected, sequence, compared, tally);
}

Comparison compare(const Model& model, const ExpectedValues& expected, const CompareOptions& options) {
  Comparison result;
  result.directory = expected.directory;
  result.precision = options.precision;
  result.tolerance = options.tolerance;
  Tally tally(result);
  for (const std::string& name : expected.listed)
    if (expected.checkpoint.find(name) == nullptr)
      tally.fail(fmt::format("{}: listed in expected.json, missing in {}", name, expected.checkpoint.path));
  const auto count = static_cast<Index>(expected.sequences.size());
  for (Index s = 0; s < count; ++s) {
    report(options.progress, "compare", s, count);
    const ExpectedValues::Sequence& sequence = expected.sequences[static_cast<std::size_t>(s)];
    if (options.precision == Precision::f32)
      compare_sequence<float>(model, expected, sequence, tally);
    else
      compare_sequence<double>(model, expected, sequence, tally);
  }
  report(options.progress, "compare", count, count);
  tally.finish();
  return result;
}

}  // namespace

Comparison compare_with_expected(const Model& model, const std::string& directory, const CompareOptions& options) {
  const ExpectedValues expected = engine::read_expected_values(directory);
  Comparison result = compare(model, expected, options);
  if (result.passed()) return result;
  if (const auto defect = engine::known_defect(expected, model)) {
    Comparison with_defect = compare(defect->model, expected, options);
    if (with_defect.passed()) {
      with_defect.reference_defect = defect->description;
      return with_defect;
    }
  }
  return result;
}

}  // namespace kirchhoff
