#include "kirchhoff/engine/compare.h"

#include <fmt/format.h>

#include <cmath>        // for abs, isfinite
#include <limits>       // for numeric_limits
#include <map>          // for map
#include <type_traits>  // for is_same_v

#include "engine/expected_values.h"
#include "engine/reference_defects.h"
#include "kirchhoff/engine/loss.h"
#include "kirchhoff/engine/run.h"
#include "kirchhoff/engine/sites.h"

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

template <class Real>
void compare_tensor(const io::StoredTensor& stored, const std::string& kind, const BasicTensor<Real>& ours,
                    const ModelConfig& config, Tally& tally) {
  const Shape shape(ours.shape().begin() + 1, ours.shape().end());  // one sequence: no batch axis
  const bool per_head = has_head_axis(stored.shape, shape, config);
  if (stored.shape != shape && !per_head) {
    tally.fail(
        fmt::format("{}: shape {} computed, {} expected", stored.name, bracketed(shape), bracketed(stored.shape)));
    return;
  }
  const TensorF64 want = io::decode_f64(stored);
  const Index width = shape.back(), heads = per_head ? stored.shape[1] : 1;
  const auto got = [&](Index i) {
    return static_cast<double>(ours[per_head ? i / (heads * width) * width + i % width : i]);
  };
  const Difference d = largest_difference(want.values(), got);
  tally.add(stored.name, kind, d, position(stored.shape, d.at), got(d.at), want[d.at]);
}

/// One sequence: one run that captures every site that the file has a value for.
template <class Real>
void compare_sequence(const Model& model, const ExpectedValues& expected, const ExpectedValues::Sequence& sequence,
                      Tally& tally) {
  const ModelConfig& config = model.config;
  RunOptions options;
  std::vector<std::pair<const io::StoredTensor*, Meaning>> compared;
  for (const io::StoredTensor& stored : expected.checkpoint.tensors) {
    if (!stored.name.starts_with(sequence.prefix)) continue;
    const std::string name = stored.name.substr(sequence.prefix.size());
    Meaning meaning = engine::meaning_of(expected, name, config.n_layers);
    if (meaning.site.empty()) {
      tally.skip(meaning);
      continue;
    }
    if (meaning.site != "logits") {
      try {
        find_sites(config, meaning.site);
      } catch (const Error& e) {
        tally.fail(fmt::format("{}: {}", stored.name, e.what()));
        continue;
      }
      options.capture.push_back(meaning.site);
    }
    compared.emplace_back(&stored, std::move(meaning));
  }

  BasicTrace<Real> trace;
  if constexpr (std::is_same_v<Real, float>)
    trace = run(model, sequence.tokens, options);
  else
    trace = run_f64(model, sequence.tokens, options);

  for (const auto& [stored, meaning] : compared)
    compare_tensor(*stored, meaning.kind, meaning.site == "logits" ? trace.logits : trace.at(meaning.site), config,
                   tally);
  if (sequence.loss) {
    const double got = mean_loss(token_losses(trace)), want = *sequence.loss;
    const Difference d = largest_difference({&want, 1}, [&](Index) { return got; });
    tally.add(sequence.prefix + "loss", "loss", d, "mean", got, want);
  }
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
