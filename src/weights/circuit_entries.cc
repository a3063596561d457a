// What is asked of the entries of a token circuit: rows, columns, extremes, the diagonal.
#include <algorithm>  // for max, min, swap
#include <cmath>      // for sqrt
#include <limits>     // for numeric_limits

#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/kernels/row_maxima.h"
#include "kirchhoff/weights/token_circuit.h"
#include "weights/tiles.h"

namespace kirchhoff {
namespace {

/// Values that are looked at together before any is compared on its own.
constexpr Index kRun = 128, kShortRun = 32;

/// The k entries that come first by `before`, kept sorted.
template <class Before>
class Best {
 public:
  Best(Index k, Before before) : k_(static_cast<std::size_t>(k)), before_(before) {}
  bool full() const { return entries_.size() == k_; }
  float worst() const { return entries_.back().value; }
  void offer(const CircuitEntry& entry) {
    if (k_ == 0 || (full() && !before_(entry.value, worst()))) return;
    if (full())
      entries_.back() = entry;
    else
      entries_.push_back(entry);
    for (std::size_t i = entries_.size() - 1; i > 0 && before_(entries_[i].value, entries_[i - 1].value); --i)
      std::swap(entries_[i], entries_[i - 1]);
  }
  std::vector<CircuitEntry>& entries() { return entries_; }

 private:
  std::size_t k_;
  Before before_;
  std::vector<CircuitEntry> entries_;
};

constexpr auto kLarger = [](float a, float b) { return a > b; };
constexpr auto kSmaller = [](float a, float b) { return a < b; };

/// The largest and the smallest of what was offered.
class BothEnds {
 public:
  explicit BothEnds(Index k) : top_(k, kLarger), bottom_(k, kSmaller) {}
  void offer(const CircuitEntry& entry) {
    top_.offer(entry);
    bottom_.offer(entry);
  }
  /// A run of one row's values, at (row, column) and on.
  void offer_run(Index row, Index column, const float* x, Index n) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const float high = top_.full() ? top_.worst() : -kInfinity, low = bottom_.full() ? bottom_.worst() : kInfinity;
    if (!tiles::any_outside(x, n, low, high)) return;
    for (Index j = 0; j < n; ++j) offer({row, column + j, x[j]});
  }
  void merge(const CircuitExtremes& others) {
    for (const CircuitEntry& entry : others.top) top_.offer(entry);
    for (const CircuitEntry& entry : others.bottom) bottom_.offer(entry);
  }
  CircuitExtremes take() { return {std::move(top_.entries()), std::move(bottom_.entries())}; }

 private:
  Best<decltype(kLarger)> top_;
  Best<decltype(kSmaller)> bottom_;
};

/// x (length d) times the rows of `rows`.
std::vector<float> against(const Tensor& rows, std::span<const float> x) {
  std::vector<float> result(static_cast<std::size_t>(rows.dim(0)));
  const Index d = rows.dim(1);
  kernels::gemm(kernels::GemmProblem{.a = ConstMatrix(x.data(), {1, d}),
                                     .b = transposed(rows.view<2>()),
                                     .c = Matrix(result.data(), {1, rows.dim(0)})});
  return result;
}

void check_k(Index k) { check(k >= 1, ErrorCode::usage, "{} entries were asked for: at least one", k); }

}  // namespace

std::vector<float> circuit_row(const TokenCircuit& circuit, Index row) {
  check(row >= 0 && row < circuit.rows(), ErrorCode::usage, "row {} is not one of {}", row, circuit.rows());
  return against(circuit.right, circuit.left.view<2>().row(row));
}

std::vector<float> circuit_column(const TokenCircuit& circuit, Index column) {
  check(column >= 0 && column < circuit.columns(), ErrorCode::usage, "column {} is not one of {}", column,
        circuit.columns());
  return against(circuit.left, circuit.right.view<2>().row(column));
}

Tensor circuit_matrix(const TokenCircuit& circuit, Index limit) {
  check(circuit.rows() <= limit / std::max<Index>(1, circuit.columns()), ErrorCode::usage,
        "the whole circuit has {} x {} entries, more than {}: ask for rows, columns or the largest entries",
        circuit.rows(), circuit.columns(), limit);
  const bool ov = circuit.kind == CircuitKind::ov;
  Tensor result = Tensor({circuit.rows(), circuit.columns()}, {ov ? "source" : "query", ov ? "out" : "key"});
  kernels::gemm(kernels::GemmProblem{
      .a = circuit.left.view<2>(), .b = transposed(circuit.right.view<2>()), .c = result.view<2>()});
  return result;
}

CircuitExtremes extremes(std::span<const float> values, Index k) {
  check_k(k);
  BothEnds ends(k);
  const Index n = static_cast<Index>(values.size());
  for (Index j = 0; j < n; j += kRun) ends.offer_run(0, j, values.data() + j, std::min(kRun, n - j));
  return ends.take();
}

CircuitExtremes circuit_extremes(const TokenCircuit& circuit, Index k, const Progress& progress) {
  check_k(k);
  const Index blocks = (circuit.rows() + tiles::kRows - 1) / tiles::kRows;
  std::vector<BothEnds> of_block(static_cast<std::size_t>(blocks), BothEnds(k));
  tiles::stream(circuit, progress, [&](Index row, Index column, ConstMatrix tile) {
    BothEnds& ends = of_block[static_cast<std::size_t>(row / tiles::kRows)];
    for (Index r = 0; r < tile.dim[0]; ++r)
      for (Index j = 0; j < tile.dim[1]; j += kRun)
        ends.offer_run(row + r, column + j, tile.row(r).data() + j, std::min(kRun, tile.dim[1] - j));
  });
  BothEnds all(k);
  for (BothEnds& block : of_block) all.merge(block.take());
  return all.take();
}

std::vector<std::vector<CircuitEntry>> circuit_row_tops(const TokenCircuit& circuit, Index k,
                                                        const Progress& progress) {
  check_k(k);
  const auto rows = static_cast<std::size_t>(circuit.rows());
  std::vector<Best<decltype(kLarger)>> best(rows, {k, kLarger});
  // What a value must exceed, side by side: looking it up in `best` would cost as much as passing over a run.
  std::vector<float> floors(rows, -std::numeric_limits<float>::infinity());
  tiles::stream(circuit, progress, [&](Index row, Index column, ConstMatrix tile) {
    float maxima[tiles::kRows];
    kernels::row_maxima(tile, maxima);
    for (Index r = 0; r < tile.dim[0]; ++r) {
      auto& own = best[static_cast<std::size_t>(row + r)];
      float& floor = floors[static_cast<std::size_t>(row + r)];
      if (!(maxima[r] > floor)) continue;
      const float* x = tile.row(r).data();
      for (Index j = 0; j < tile.dim[1]; j += kShortRun) {
        const Index n = std::min(kShortRun, tile.dim[1] - j);
        if (!tiles::any_above(x + j, n, floor)) continue;
        for (Index i = j; i < j + n; ++i) own.offer({row + r, column + i, x[i]});
        if (own.full()) floor = own.worst();
      }
    }
  });
  std::vector<std::vector<CircuitEntry>> result;
  for (auto& own : best) result.push_back(std::move(own.entries()));
  return result;
}

DiagonalStatistics diagonal_statistics(const TokenCircuit& circuit, Index k, const Progress& progress) {
  check_k(k);
  check(circuit.rows() == circuit.columns(), ErrorCode::usage, "a {} x {} circuit has no diagonal", circuit.rows(),
        circuit.columns());
  const Index n = circuit.rows(), d = circuit.left.dim(1);
  DiagonalStatistics result;
  result.k = k;
  std::vector<double> left_sum(static_cast<std::size_t>(d), 0.0), right_sum(static_cast<std::size_t>(d), 0.0);
  double squares = 0.0, positive = 0.0;
  for (Index t = 0; t < n; ++t) {
    double value = 0.0;
    for (Index i = 0; i < d; ++i) {
      const auto l = static_cast<double>(circuit.left[t * d + i]), r = static_cast<double>(circuit.right[t * d + i]);
      value += l * r;
      left_sum[static_cast<std::size_t>(i)] += l;
      right_sum[static_cast<std::size_t>(i)] += r;
    }
    result.values.push_back(static_cast<float>(value));
    result.trace += value;
    squares += value * value;
    positive += value > 0.0 ? 1.0 : 0.0;
  }
  const auto count = static_cast<double>(n);
  for (Index i = 0; i < d; ++i)
    result.mean_of_all +=
        left_sum[static_cast<std::size_t>(i)] * right_sum[static_cast<std::size_t>(i)] / count / count;
  result.mean = result.trace / count;
  result.sd = std::sqrt(std::max(0.0, squares / count - result.mean * result.mean));
  result.positive_share = positive / count;

  // The tile's own value on the diagonal is rounded otherwise than the sum above and is not compared with it.
  std::vector<Index> above(static_cast<std::size_t>(n), 0);
  tiles::stream(circuit, progress, [&](Index row, Index column, ConstMatrix tile) {
    for (Index r = 0; r < tile.dim[0]; ++r) {
      const Index own = row + r - column;  // where the diagonal crosses this row of the tile
      const float* x = tile.row(r).data();
      const float value = result.values[static_cast<std::size_t>(row + r)];
      Index larger = tiles::count_above(x, tile.dim[1], value);
      if (own >= 0 && own < tile.dim[1] && x[own] > value) --larger;
      above[static_cast<std::size_t>(row + r)] += larger;
    }
  });
  for (const Index larger : above) {
    result.ranks.push_back(larger + 1);
    result.top_1 += larger < 1 ? 1.0 / count : 0.0;
    result.top_k += larger < k ? 1.0 / count : 0.0;
  }
  return result;
}

}  // namespace kirchhoff
