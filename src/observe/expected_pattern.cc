#include "kirchhoff/observe/expected_pattern.h"

#include <cmath>    // for abs, isfinite, log, nan
#include <utility>  // for move

namespace kirchhoff {
namespace {

constexpr std::string_view kPatternNames[] = {"previous", "current", "first", "duplicate", "induction"};

double row_sum(View<const double, 2> matrix, Index row) {
  double sum = 0.0;
  for (Index key = 0; key < matrix.dim[1]; ++key) sum += matrix(row, key);
  return sum;
}

void normalise_rows(TensorF64& matrix) {
  const View<double, 2> rows = matrix.view<2>();
  for (Index i = 0; i < rows.dim[0]; ++i)
    if (const double sum = row_sum(rows, i); sum > 0.0)
      for (double& x : rows.row(i)) x /= sum;
}

}  // namespace

std::string_view name(ExpectedPattern pattern) { return kPatternNames[static_cast<std::size_t>(pattern)]; }

std::optional<ExpectedPattern> expected_pattern_named(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kPatternNames); ++i)
    if (kPatternNames[i] == name) return static_cast<ExpectedPattern>(i);
  return std::nullopt;
}

TensorF64 expected_pattern(ExpectedPattern pattern, std::span<const TokenId> tokens) {
  const Index n = static_cast<Index>(tokens.size());
  TensorF64 expected({n, n});
  const View<double, 2> D = expected.view<2>();
  for (Index i = 0; i < n; ++i) {
    if (pattern == ExpectedPattern::current) D(i, i) = 1.0;
    if (pattern == ExpectedPattern::first) D(i, 0) = 1.0;
    if (pattern == ExpectedPattern::previous && i > 0) D(i, i - 1) = 1.0;
    if (pattern != ExpectedPattern::duplicate && pattern != ExpectedPattern::induction) continue;
    const Index shift = pattern == ExpectedPattern::induction ? 1 : 0;
    for (Index copy = 0; copy < i; ++copy)
      if (tokens[static_cast<std::size_t>(copy)] == tokens[static_cast<std::size_t>(i)]) D(i, copy + shift) = 1.0;
  }
  normalise_rows(expected);
  return expected;
}

TensorF64 expected_pattern(TensorF64 matrix, Index length) {
  check(matrix.rank() == 2 && matrix.dim(0) == length && matrix.dim(1) == length, ErrorCode::usage,
        "the expected pattern has shape {}, the prompt needs [{}, {}]", bracketed(matrix.shape()), length, length);
  for (Index i = 0; i < length * length; ++i)
    check(std::isfinite(matrix[i]) && matrix[i] >= 0.0, ErrorCode::usage,
          "the expected pattern has {} in row {}, column {}: entries are at least 0", matrix[i], i / length,
          i % length);
  normalise_rows(matrix);
  return matrix;
}

PatternMatch match_pattern(View<const float, 2> pattern, View<const double, 2> expected, const ExpectOptions& options) {
  const Index n = pattern.dim[0];
  check(pattern.dim[1] == n && expected.dim == pattern.dim, ErrorCode::usage,
        "a pattern of {} queries and {} keys cannot be compared with one of {} and {}", n, pattern.dim[1],
        expected.dim[0], expected.dim[1]);
  const auto counts = [&](Index query, Index key) {
    return !(options.exclude_first && key == 0) && !(options.exclude_current && key == query);
  };
  PatternMatch match;
  double on_target = 0.0, all = 0.0, distance = 0.0;
  for (Index i = 0; i < n; ++i) {
    double targets = 0.0, attention = 0.0, hit = 0.0, apart = 0.0;
    for (Index j = 0; j < n; ++j) {
      if (!counts(i, j)) continue;
      const double a = static_cast<double>(pattern(i, j)), d = expected(i, j);
      targets += d;
      attention += a;
      hit += d > 0.0 ? a : 0.0;
      apart += std::abs(a - d);
    }
    if (targets <= 0.0) continue;
    ++match.rows;
    on_target += hit;
    all += attention;
    distance += apart;
  }
  if (match.rows == 0) return match;
  match.overlap = all > 0.0 ? on_target / all : 0.0;
  match.agreement = 1.0 - distance / static_cast<double>(match.rows);
  return match;
}

TensorF64 pattern_difference(View<const float, 2> pattern, View<const double, 2> expected) {
  const Index n = pattern.dim[0];
  TensorF64 difference({n, n});
  for (Index i = 0; i < n; ++i) {
    const bool asked = row_sum(expected, i) > 0.0;
    for (Index j = 0; j < n; ++j)
      difference[i * n + j] = asked ? static_cast<double>(pattern(i, j)) - expected(i, j) : std::nan("");
  }
  return difference;
}

std::vector<double> pattern_entropies(View<const float, 2> pattern) {
  std::vector<double> entropies;
  for (Index i = 0; i < pattern.dim[0]; ++i) {
    double entropy = 0.0;
    for (Index j = 0; j < pattern.dim[1]; ++j)
      if (const double p = static_cast<double>(pattern(i, j)); p > 0.0) entropy -= p * std::log(p);
    entropies.push_back(entropy);
  }
  return entropies;
}

}  // namespace kirchhoff
