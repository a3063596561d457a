#include "kirchhoff/weights/bigrams.h"

#include <algorithm>  // for equal_range, max, min, partial_sort, sort
#include <cmath>      // for exp, log, sqrt, tanh
#include <map>        // for map
#include <numeric>    // for iota

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/kernels/gemm.h"
#include "weights/token_vectors.h"

namespace kirchhoff {
namespace {

/// Entries of T in memory at a time, and outputs whose directions are.
constexpr Index kEntries = Index{1} << 24, kOutputs = 1024;

/// Values in rising order, with which every value's rank is known: 1 for the smallest, of equal ones their mean.
class Ranks {
 public:
  template <class Value>
  explicit Ranks(std::vector<Value> values) : sorted_(values.begin(), values.end()) {
    std::sort(sorted_.begin(), sorted_.end());
    // Sum of squares about the mean rank: n (n^2 - 1) / 12, less (t^3 - t) / 12 for each group of t equal ones.
    const auto n = static_cast<double>(sorted_.size());
    double spread = n * (n * n - 1.0);
    for (std::size_t i = 0, j = 0; i < sorted_.size(); i = j) {
      while (j < sorted_.size() && sorted_[j] == sorted_[i]) ++j;
      const auto t = static_cast<double>(j - i);
      spread -= t * (t * t - 1.0);
    }
    spread_ = spread / 12.0;
  }
  /// Minus the mean rank.
  double centred(double value) const {
    const auto [first, last] = std::equal_range(sorted_.begin(), sorted_.end(), value);
    const auto below = static_cast<double>(first - sorted_.begin()), equal = static_cast<double>(last - first);
    return below + (equal + 1.0) / 2.0 - (static_cast<double>(sorted_.size()) + 1.0) / 2.0;
  }
  double spread() const { return spread_; }

 private:
  std::vector<double> sorted_;
  double spread_ = 0.0;
};

/// Spearman of values with a source's counts, all that never follow counting zero: the centred ranks of the latter are
/// one number, and centred ranks sum to zero, so that only outs that follow are looked at.
template <class ValueOf>
std::optional<double> rank_correlation(const Ranks& values, const BigramRow& row, Index outputs,
                                       const ValueOf& value_of) {
  std::vector<double> counts(static_cast<std::size_t>(outputs) - row.next.size(), 0.0);
  for (const BigramRow::Next& next : row.next) counts.push_back(static_cast<double>(next.count));
  const Ranks in_text(std::move(counts));
  const double unseen = in_text.centred(0.0);
  if (!(in_text.spread() > 0.0) || !(values.spread() > 0.0)) return std::nullopt;
  const bool all_seen = static_cast<Index>(row.next.size()) == outputs;
  double sum = 0.0;
  for (const BigramRow::Next& next : row.next)
    sum += values.centred(value_of(next.token)) *
           (in_text.centred(static_cast<double>(next.count)) - (all_seen ? 0.0 : unseen));
  return sum / std::sqrt(in_text.spread() * values.spread());
}

double spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const Ranks of_a(a), of_b(b);
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += of_a.centred(a[i]) * of_b.centred(b[i]);
  return of_a.spread() > 0.0 && of_b.spread() > 0.0 ? sum / std::sqrt(of_a.spread() * of_b.spread()) : 0.0;
}

/// What is added to every row: b_U, and the final norm's bias through W_U.
std::vector<double> output_constants(const Model& model, bool raw) {
  const ModelConfig& config = model.config;
  std::vector<double> constants(static_cast<std::size_t>(config.d_vocab_out), 0.0);
  if (raw) return constants;
  const std::vector<double>&bias = model.weights.ln_final.b.f64(), &b_U = model.weights.b_U.f64();
  std::vector<float> direction(static_cast<std::size_t>(config.d_model));
  for (std::size_t t = 0; t < constants.size(); ++t) {
    if (!bias.empty() && config.final_norm) {
      model.weights.W_U.rows(static_cast<Index>(t), static_cast<Index>(t) + 1, direction.data());
      for (std::size_t i = 0; i < bias.size(); ++i) constants[t] += bias[i] * static_cast<double>(direction[i]);
    }
    if (!b_U.empty()) constants[t] += b_U[t];
    constants[t] *= config.logit_scale;
  }
  return constants;
}

/// Rows of T for some sources, [sources, outputs], with constants and soft-cap.
void direct_path_rows(const Model& model, bool raw, std::span<const BigramRow> sources,
                      const std::vector<double>& constants, Matrix out) {
  const ModelConfig& config = model.config;
  const Index d = config.d_model;
  Tensor embedded = Tensor::uninitialised({static_cast<Index>(sources.size()), d});
  for (std::size_t i = 0; i < sources.size(); ++i)
    token_vectors::direct_rows(model, raw, sources[i].source, sources[i].source + 1,
                               embedded.data() + static_cast<Index>(i) * d);
  Tensor directions = Tensor::uninitialised({std::min(kOutputs, config.d_vocab_out), d});
  for (Index begin = 0; begin < config.d_vocab_out; begin += kOutputs) {
    const Index n = std::min(kOutputs, config.d_vocab_out - begin);
    token_vectors::logit_rows(model, raw, begin, begin + n, directions.data());
    kernels::gemm(kernels::GemmProblem{.a = embedded.view<2>(),
                                       .b = transposed(ConstMatrix(directions.data(), {n, d})),
                                       .c = Matrix(out.data + begin, {out.dim[0], n}, out.stride)});
  }
  parallel_for(out.dim[0], [&](Index i) {
    const std::span<float> row = out.row(i);
    for (std::size_t t = 0; t < row.size(); ++t) {
      double x = static_cast<double>(row[t]) + constants[t];
      if (config.logit_softcap > 0.0 && !raw) x = config.logit_softcap * std::tanh(x / config.logit_softcap);
      row[t] = static_cast<float>(x);
    }
  });
}

double log_sum_exp(std::span<const float> x) {
  const auto most = static_cast<double>(*std::max_element(x.begin(), x.end()));
  double sum = 0.0;
  for (const float value : x) sum += std::exp(static_cast<double>(value) - most);
  return most + std::log(sum);
}

/// The indices of the k largest, of equal ones the lower.
template <class Value>
std::vector<Index> largest_indices(std::span<const Value> values, Index k) {
  std::vector<Index> order(values.size());
  std::iota(order.begin(), order.end(), Index{0});
  const auto n = std::min(static_cast<std::ptrdiff_t>(k), static_cast<std::ptrdiff_t>(order.size()));
  std::partial_sort(order.begin(), order.begin() + n, order.end(), [&](Index a, Index b) {
    const Value x = values[static_cast<std::size_t>(a)], y = values[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  });
  order.resize(static_cast<std::size_t>(n));
  return order;
}

std::vector<Index> most_frequent(const BigramRow& row, Index k) {
  std::vector<Index> counts;
  for (const BigramRow::Next& next : row.next) counts.push_back(next.count);
  std::vector<Index> tokens;
  for (const Index i : largest_indices(std::span<const Index>(counts), k))
    tokens.push_back(row.next[static_cast<std::size_t>(i)].token);
  return tokens;
}

/// One source, its row of T known; ln p of each token that follows goes into `log_p`.
BigramSource compared(const BigramRow& row, std::span<const float> path, Index top, double* log_p) {
  BigramSource result{.source = row.source,
                      .count = row.count,
                      .distinct = static_cast<Index>(row.next.size()),
                      .correlation = std::nullopt,
                      .in_text = most_frequent(row, top),
                      .in_path = largest_indices(path, top)};
  const Ranks ranks(std::vector<float>(path.begin(), path.end()));
  const auto value_of = [&](Index t) { return static_cast<double>(path[static_cast<std::size_t>(t)]); };
  result.correlation = rank_correlation(ranks, row, static_cast<Index>(path.size()), value_of);
  const double total = log_sum_exp(path);
  for (std::size_t i = 0; i < row.next.size(); ++i) {
    const double share = static_cast<double>(row.next[i].count) / static_cast<double>(row.count);
    log_p[i] = value_of(row.next[i].token) - total;
    result.loss -= share * log_p[i];
    result.entropy -= share * std::log(share);
  }
  return result;
}

}  // namespace

std::vector<BigramRow> count_bigrams(const TokenCorpus& corpus, Index d_vocab, Index d_vocab_out) {
  std::map<std::pair<Index, Index>, Index> counts;
  for (const auto& window : corpus.windows)
    for (std::size_t i = corpus.bos ? 1 : 0; i + 1 < window.size(); ++i) {
      const Index a = window[i], b = window[i + 1];
      check(a >= 0 && a < d_vocab && b >= 0 && b < d_vocab_out, ErrorCode::usage,
            "tokens {}, {}: the model reads {} tokens and predicts {}", a, b, d_vocab, d_vocab_out);
      ++counts[{a, b}];
    }
  std::vector<BigramRow> rows;
  for (const auto& [pair, count] : counts) {
    if (rows.empty() || rows.back().source != pair.first) rows.push_back({.source = pair.first, .next = {}});
    rows.back().count += count;
    rows.back().next.push_back({pair.second, count});
  }
  return rows;
}

BigramComparison compare_bigrams(const Model& model, const std::vector<BigramRow>& rows, const BigramOptions& options) {
  check(!rows.empty(), ErrorCode::usage, "the text has no two tokens in a row");
  check(options.top >= 0, ErrorCode::usage, "{} is not a number of outputs", options.top);
  const Index outputs = model.config.d_vocab_out, n = static_cast<Index>(rows.size());
  std::vector<double> unigrams(static_cast<std::size_t>(outputs), 0.0);
  std::vector<std::size_t> first_pair;  // where a source's pairs begin among all
  std::size_t pairs = 0;
  BigramComparison result;
  for (const BigramRow& row : rows) {
    first_pair.push_back(pairs);
    pairs += row.next.size();
    result.pairs += row.count;
    for (const BigramRow::Next& next : row.next)
      unigrams[static_cast<std::size_t>(next.token)] += static_cast<double>(next.count);
  }
  const auto total = static_cast<double>(result.pairs);
  const Ranks unigram_ranks(unigrams);
  const std::vector<double> constants = output_constants(model, options.raw);
  std::vector<double> log_p(pairs), unigram_correlations(rows.size());
  result.sources.resize(rows.size());
  const Index block = std::clamp<Index>(kEntries / outputs, 1, n);
  Tensor buffer = Tensor::uninitialised({block, outputs});
  for (Index begin = 0; begin < n; begin += block) {
    report(options.progress, "bigrams", begin, n);
    const Index count = std::min(block, n - begin);
    const Matrix path = buffer.view<2>().rows(0, count);
    direct_path_rows(model, options.raw,
                     std::span(rows).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)),
                     constants, path);
    parallel_for(count, [&](Index i) {
      const auto s = static_cast<std::size_t>(begin + i);
      result.sources[s] = compared(rows[s], path.row(i), options.top, log_p.data() + first_pair[s]);
      unigram_correlations[s] = rank_correlation(unigram_ranks, rows[s], outputs, [&](Index t) {
                                  return unigrams[static_cast<std::size_t>(t)];
                                }).value_or(0.0);
    });
  }
  report(options.progress, "bigrams", n, n);

  std::vector<double> in_text, by_unigrams;
  for (std::size_t s = 0; s < rows.size(); ++s) {
    const BigramSource& source = result.sources[s];
    const double weight = static_cast<double>(source.count) / total;
    result.correlation += weight * source.correlation.value_or(0.0);
    result.unigram_correlation += weight * unigram_correlations[s];
    result.loss += weight * source.loss;
    result.entropy += weight * source.entropy;
    for (const BigramRow::Next& next : rows[s].next) {
      in_text.push_back(std::log(static_cast<double>(next.count) / static_cast<double>(rows[s].count)));
      by_unigrams.push_back(std::log(unigrams[static_cast<std::size_t>(next.token)] / total));
      result.unigram_loss -= static_cast<double>(next.count) / total * by_unigrams.back();
    }
  }
  result.seen_correlation = spearman(log_p, in_text);
  result.seen_unigram_correlation = spearman(by_unigrams, in_text);
  return result;
}

}  // namespace kirchhoff
