#pragma once
#include <gtest/gtest.h>

#include <cmath>    // for abs, isfinite
#include <cstring>  // for memcmp
#include <numeric>  // for accumulate
#include <ostream>  // for ostream
#include <string>   // for string
#include <vector>   // for vector

#include "kirchhoff/base/random.h"
#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/random_model.h"

namespace kirchhoff {
/// What a test's name and its failures call its parameter.
inline void PrintTo(const NamedShape& shape, std::ostream* out) { *out << shape.name; }
}  // namespace kirchhoff

namespace kirchhoff::test {

/// A sanitizer looks for other mistakes than wrong numbers, at some ten times the cost: there, a quarter of n cases
/// that differ in numbers alone.
constexpr std::size_t cases(std::size_t n) {
#ifdef KIRCHHOFF_SANITIZED
  return (n + 3) / 4;
#else
  return n;
#endif
}

/// Of cases that are alike in all families of models, the sixth that runs in this family under a sanitizer: others in
/// the next families, so that each runs in many. Without a sanitizer, all.
inline bool runs_in([[maybe_unused]] const NamedShape& family, [[maybe_unused]] std::size_t turn) {
#ifdef KIRCHHOFF_SANITIZED
  return (std::accumulate(family.name.begin(), family.name.end(), turn)) % 6 == 0;
#else
  return true;
#endif
}

inline Tokens random_tokens(Index count, Index d_vocab, std::uint64_t seed) {
  Random random(seed);
  Tokens tokens;
  for (Index i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(random.below(d_vocab)));
  return tokens;
}

/// The largest difference, relative to the largest finite magnitude of `want`; infinite where an infinity or NaN of one
/// is not that of the other.
template <class Got, class Want>
double relative_error(const Got& got, const Want& want) {
  if (std::size(got) != std::size(want)) return INFINITY;
  double scale = 0.0, error = 0.0;
  for (std::size_t i = 0; i < std::size(want); ++i) {
    const auto g = static_cast<double>(got[i]), w = static_cast<double>(want[i]);
    if (std::isfinite(w)) scale = std::max(scale, std::abs(w));
    if (g == w) continue;
    error = std::max(error, std::isfinite(g) && std::isfinite(w) ? std::abs(g - w) : INFINITY);
  }
  return error == 0.0 ? 0.0 : error / scale;
}

template <class Real>
bool same_bits(const BasicTensor<Real>& a, const BasicTensor<Real>& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(Real)) == 0;
}

/// Row `index` of the storage of a matrix, in double.
inline std::vector<double> storage_row(const WeightMatrix& w, Index index) {
  std::vector<float> row(static_cast<std::size_t>(w.d_in()));
  w.rows(index, index + 1, row.data());
  return {row.begin(), row.end()};
}

/// x W + b in double, x: [rows, d_in] flat; an absent bias is zero.
template <class Real>
std::vector<double> multiply(std::span<const Real> x, const WeightMatrix& W, const WeightVector& b) {
  const auto d_in = static_cast<std::size_t>(W.d_in()), d_out = static_cast<std::size_t>(W.d_out());
  std::vector<double> y(x.size() / d_in * d_out);
  for (std::size_t o = 0; o < d_out; ++o) {
    const std::vector<double> w = storage_row(W, static_cast<Index>(o));
    for (std::size_t r = 0; r < x.size() / d_in; ++r) {
      double sum = b.present() ? b.f64()[o] : 0.0;
      for (std::size_t i = 0; i < d_in; ++i) sum += static_cast<double>(x[r * d_in + i]) * w[i];
      y[r * d_out + o] = sum;
    }
  }
  return y;
}

/// One test per set of capabilities, named after a family that has it.
class EveryFamily : public ::testing::TestWithParam<NamedShape> {
 protected:
  const ModelConfig& config() const { return GetParam().config; }
  Model model(std::uint64_t seed = 1) const { return random_model(config(), seed); }
  Tokens tokens(Index count, std::uint64_t seed = 2) const { return random_tokens(count, config().d_vocab, seed); }
};

inline std::string shape_name(const ::testing::TestParamInfo<NamedShape>& info) {
  std::string name = info.param.name;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

#define KIRCHHOFF_EVERY_FAMILY(suite) \
  INSTANTIATE_TEST_SUITE_P(Family, suite, ::testing::ValuesIn(capability_shapes()), test::shape_name)

}  // namespace kirchhoff::test
