#include "kirchhoff/weights/skip_trigrams.h"

#include <algorithm>  // for clamp, max, min, partial_sort, stable_sort
#include <array>      // for array
#include <cmath>      // for sqrt
#include <map>        // for map
#include <numeric>    // for iota
#include <utility>    // for swap

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/kernels/gemm.h"
#include "weights/token_vectors.h"

namespace kirchhoff {
namespace {

struct Moments {
  double mean = 0.0, sd = 0.0;
};

/// Rows of a thin factor that are summed at a time: products in float, sums in double.
constexpr Index kFactorRows = 1024;

/// The sum of x's rows [d] and x^T x [d, d].
struct FactorSums {
  std::vector<double> sum;
  TensorF64 gram;
};

FactorSums factor_sums(const Tensor& x) {
  const Index n = x.dim(0), d = x.dim(1);
  FactorSums result{std::vector<double>(static_cast<std::size_t>(d), 0.0), TensorF64({d, d})};
  Tensor part({d, d});
  for (Index begin = 0; begin < n; begin += kFactorRows) {
    const ConstMatrix rows = x.view<2>().rows(begin, std::min(kFactorRows, n - begin));
    kernels::gemm(kernels::GemmProblem{.a = transposed(rows), .b = rows, .c = part.view<2>()});
    for (Index i = 0; i < part.size(); ++i) result.gram[i] += static_cast<double>(part[i]);
    for (Index r = 0; r < rows.dim[0]; ++r)
      for (Index i = 0; i < d; ++i) result.sum[static_cast<std::size_t>(i)] += static_cast<double>(rows(r, i));
  }
  return result;
}

/// Of all entries l . r: the sum is (sum l) . (sum r), the sum of squares that of (L^T L) * (R^T R).
Moments entry_moments(const TokenCircuit& circuit) {
  const FactorSums left = factor_sums(circuit.left), right = factor_sums(circuit.right);
  const double count = static_cast<double>(circuit.rows()) * static_cast<double>(circuit.columns());
  double sum = 0.0, squares = 0.0;
  for (std::size_t i = 0; i < left.sum.size(); ++i) sum += left.sum[i] * right.sum[i];
  for (Index i = 0; i < left.gram.size(); ++i) squares += left.gram[i] * right.gram[i];
  const double mean = sum / count;
  return {mean, std::sqrt(std::max(0.0, squares / count - mean * mean))};
}

double deviation(float value, double mean, double sd) {
  return sd > 0.0 ? (static_cast<double>(value) - mean) / sd : 0.0;
}

std::vector<TrigramToken> trigram_tokens(const std::vector<CircuitEntry>& entries, double mean, double sd) {
  std::vector<TrigramToken> tokens;
  tokens.reserve(entries.size());
  for (const CircuitEntry& e : entries) tokens.push_back({e.column, e.value, deviation(e.value, mean, sd)});
  return tokens;
}

SourceTrigrams joined(const HeadTables& tables, Index source, const std::vector<CircuitEntry>& destinations,
                      const std::vector<CircuitEntry>& outs) {
  SourceTrigrams result{.source = source,
                        .destinations = trigram_tokens(destinations, tables.attention_mean, tables.attention_sd),
                        .outs = trigram_tokens(outs, tables.output_mean, tables.output_sd)};
  result.strength = std::min(result.destinations.front().deviation, result.outs.front().deviation);
  return result;
}

/// Products of a source's destinations and outs along the direct path: [destination, out].
TensorF64 direct_products(const Model& model, bool raw, const SourceTrigrams& source) {
  const auto rows_of = [&](const std::vector<TrigramToken>& tokens, auto&& write) {
    Tensor rows = Tensor::uninitialised({static_cast<Index>(tokens.size()), model.config.d_model});
    for (std::size_t i = 0; i < tokens.size(); ++i)
      write(model, raw, tokens[i].token, tokens[i].token + 1, rows.data() + static_cast<Index>(i) * rows.dim(1));
    return rows;
  };
  const Tensor reads = rows_of(source.destinations, token_vectors::direct_rows);
  const Tensor writes = rows_of(source.outs, token_vectors::logit_rows);
  const ConstMatrix x = reads.view<2>(), y = writes.view<2>();
  TensorF64 products({x.dim[0], y.dim[0]});
  for (Index b = 0; b < x.dim[0]; ++b)
    for (Index c = 0; c < y.dim[0]; ++c)
      for (Index i = 0; i < x.dim[1]; ++i)
        products[b * y.dim[0] + c] += static_cast<double>(x(b, i)) * static_cast<double>(y(c, i));
  return products;
}

/// How many of falling entries are at least so far out.
Index far_out(const std::vector<TrigramToken>& tokens, double least) {
  Index n = 0;
  while (n < static_cast<Index>(tokens.size()) && tokens[static_cast<std::size_t>(n)].deviation >= least) ++n;
  return n;
}

/// The two pairs of a source with the largest contrast, if any has one above 0.
TrigramBug bug_of(const Model& model, const SourceTrigrams& source, const TrigramBugOptions& options) {
  const TensorF64 products = direct_products(model, options.raw, source);
  const View<const double, 2> T = products.view<2>();
  const Index destinations = far_out(source.destinations, options.deviation),
              outs = far_out(source.outs, options.deviation);
  // Where W_U is W_E, the direct path believes in nothing as in the token itself: no bigram that a text has.
  const auto repeats = [&](Index b, Index c) {
    return source.destinations[static_cast<std::size_t>(b)].token == source.outs[static_cast<std::size_t>(c)].token;
  };
  TrigramBug best{.source = source.source, .destination = {}, .out = {}};
  for (Index b0 = 0; b0 < destinations; ++b0)
    for (Index b1 = b0 + 1; b1 < destinations; ++b1)
      for (Index c0 = 0; c0 < outs; ++c0)
        for (Index c1 = 0; c1 < outs; ++c1) {
          const double contrast = T(b0, c0) + T(b1, c1) - T(b0, c1) - T(b1, c0);
          if (c0 == c1 || contrast <= best.contrast || repeats(b0, c0) || repeats(b1, c1)) continue;
          best.contrast = contrast;
          best.destination[0] = source.destinations[static_cast<std::size_t>(b0)];
          best.destination[1] = source.destinations[static_cast<std::size_t>(b1)];
          best.out[0] = source.outs[static_cast<std::size_t>(c0)];
          best.out[1] = source.outs[static_cast<std::size_t>(c1)];
          // Falling lists: the smaller deviations are those of b1 and of the later of the two outs.
          best.strength =
              std::min(best.destination[1].deviation, std::min(best.out[0].deviation, best.out[1].deviation));
        }
  return best;
}

}  // namespace

HeadTables head_tables(const Model& model, const HeadMatrices& head, const CircuitOptions& options) {
  HeadTables tables;
  tables.attention = token_circuit(model, head, CircuitKind::qk, options);
  std::swap(tables.attention.left, tables.attention.right);
  tables.output = token_circuit(model, head, CircuitKind::ov, options);
  const Moments attention = entry_moments(tables.attention), output = entry_moments(tables.output);
  tables.attention_mean = attention.mean;
  tables.attention_sd = attention.sd;
  tables.output_mean = output.mean;
  tables.output_sd = output.sd;
  return tables;
}

SourceTrigrams source_trigrams(const HeadTables& tables, Index source, Index k) {
  return joined(tables, source, extremes(circuit_row(tables.attention, source), k).top,
                extremes(circuit_row(tables.output, source), k).top);
}

std::vector<SourceTrigrams> all_source_trigrams(const HeadTables& tables, Index k, const Progress& progress) {
  const auto destinations = circuit_row_tops(tables.attention, k, progress);
  const auto outs = circuit_row_tops(tables.output, k, progress);
  std::vector<SourceTrigrams> all;
  all.reserve(destinations.size());
  for (std::size_t s = 0; s < destinations.size(); ++s)
    all.push_back(joined(tables, static_cast<Index>(s), destinations[s], outs[s]));
  return all;
}

std::vector<Index> strongest_sources(const std::vector<SourceTrigrams>& sources, TrigramRanking ranking, Index count) {
  const auto rank = [&](Index i) {
    const SourceTrigrams& source = sources[static_cast<std::size_t>(i)];
    switch (ranking) {
      case TrigramRanking::attention:
        return source.destinations.front().deviation;
      case TrigramRanking::output:
        return source.outs.front().deviation;
      case TrigramRanking::both:
        break;
    }
    return source.strength;
  };
  std::vector<Index> order(sources.size());
  std::iota(order.begin(), order.end(), Index{0});
  const auto n = static_cast<std::size_t>(std::clamp<Index>(count, 0, static_cast<Index>(order.size())));
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n), order.end(),
                    [&](Index a, Index b) { return rank(a) > rank(b) || (rank(a) == rank(b) && a < b); });
  order.resize(n);
  return order;
}

std::vector<TrigramBug> trigram_bugs(const Model& model, const std::vector<SourceTrigrams>& sources,
                                     const TrigramBugOptions& options) {
  std::vector<Index> candidates;
  for (const Index i : strongest_sources(sources, TrigramRanking::both, options.candidates)) {
    const SourceTrigrams& source = sources[static_cast<std::size_t>(i)];
    if (far_out(source.destinations, options.deviation) > 1 && far_out(source.outs, options.deviation) > 1)
      candidates.push_back(i);
  }
  constexpr Index kSources = 64;
  const auto n = static_cast<Index>(candidates.size());
  std::vector<TrigramBug> found(candidates.size());
  for (Index begin = 0; begin < n; begin += kSources) {
    report(options.progress, "bugs", begin, n);
    parallel_for(std::min(kSources, n - begin), [&](Index i) {
      const auto at = static_cast<std::size_t>(begin + i);
      found[at] = bug_of(model, sources[static_cast<std::size_t>(candidates[at])], options);
    });
  }
  report(options.progress, "bugs", n, n);

  std::map<std::array<Index, 4>, TrigramBug> distinct;
  for (const TrigramBug& bug : found) {
    if (!(bug.contrast > 0.0)) continue;
    std::array<Index, 4> key = {bug.destination[0].token, bug.out[0].token, bug.destination[1].token, bug.out[1].token};
    if (key[0] > key[2]) key = {key[2], key[3], key[0], key[1]};
    const auto [place, fresh] = distinct.emplace(key, bug);
    if (!fresh && bug.strength > place->second.strength) place->second = bug;
  }
  std::vector<TrigramBug> bugs;
  for (const auto& [key, bug] : distinct) bugs.push_back(bug);
  std::stable_sort(bugs.begin(), bugs.end(),
                   [](const TrigramBug& a, const TrigramBug& b) { return a.contrast > b.contrast; });
  if (static_cast<Index>(bugs.size()) > options.count)
    bugs.resize(static_cast<std::size_t>(std::max<Index>(0, options.count)));
  return bugs;
}

}  // namespace kirchhoff
