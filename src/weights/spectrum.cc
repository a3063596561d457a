#include "kirchhoff/weights/spectrum.h"

#include <algorithm>  // for min
#include <cmath>      // for abs, sqrt

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/base/random.h"
#include "kirchhoff/kernels/gemm.h"
#include "weights/dense.h"
#include "weights/token_vectors.h"

namespace kirchhoff {
namespace {

constexpr Index kTokensAtATime = 2048;

void add_rows(ConstMatrix x, std::vector<double>& sum) {
  for (Index r = 0; r < x.dim[0]; ++r)
    for (Index i = 0; i < x.dim[1]; ++i) sum[static_cast<std::size_t>(i)] += static_cast<double>(x(r, i));
}

}  // namespace

double positivity(std::span<const std::complex<double>> eigenvalues) {
  double sum = 0.0, moduli = 0.0;
  for (const std::complex<double>& value : eigenvalues) {
    sum += value.real();  // imaginary parts of conjugates cancel
    moduli += std::abs(value);
  }
  return moduli > 0.0 ? sum / moduli : 0.0;
}

VocabularySpectra::VocabularySpectra(const Model& model, CircuitKind kind, bool raw, const Progress& progress)
    : kind_(kind) {
  const Index d = model.config.d_model, n = model.config.d_vocab;
  check(kind == CircuitKind::qk || n == model.config.d_vocab_out, ErrorCode::usage,
        "the OV circuit is {} x {}: a matrix that is not square has no eigenvalues", n, model.config.d_vocab_out);
  const Index most = std::min(kTokensAtATime, n);
  Tensor source = Tensor::uninitialised({most, d}), other = Tensor::uninitialised({most, d}), part({d, d});
  TensorF64 gram({d, d});  // sum over tokens t of E_t^T U_t
  std::vector<double> source_sum(static_cast<std::size_t>(d), 0.0), other_sum(static_cast<std::size_t>(d), 0.0);
  for (Index begin = 0; begin < n; begin += most) {
    const Index count = std::min(most, n - begin);
    report(progress, "vocabulary", begin, n);
    token_vectors::source_rows(model, raw, begin, begin + count, source.data());
    const ConstMatrix e(source.data(), {count, d});
    ConstMatrix u = e;
    if (kind == CircuitKind::ov) {
      token_vectors::logit_rows(model, raw, begin, begin + count, other.data());
      u = ConstMatrix(other.data(), {count, d});
      add_rows(e, source_sum);
      add_rows(u, other_sum);
    }
    kernels::gemm(kernels::GemmProblem{.a = transposed(e), .b = u, .c = part.view<2>()});
    for (Index i = 0; i < gram.size(); ++i) gram[i] += static_cast<double>(part[i]);
  }
  if (kind == CircuitKind::ov && !raw)  // E^T (U - mean U)
    for (Index i = 0; i < d; ++i)
      for (Index j = 0; j < d; ++j)
        gram[i * d + j] -=
            source_sum[static_cast<std::size_t>(i)] * other_sum[static_cast<std::size_t>(j)] / static_cast<double>(n);
  gram_ = Tensor::uninitialised({d, d});
  for (Index i = 0; i < gram.size(); ++i) gram_[i] = static_cast<float>(gram[i]);
  report(progress, "vocabulary", n, n);
}

/// eig(E a^T b U^T) but for zeros = eig(b (U^T E) a^T), a and b [d_head, d_model]. The product with the Gram, which is
/// a sum of float products itself, is one in float; what follows is small.
std::vector<std::complex<double>> VocabularySpectra::of(const TensorF64& reads, const TensorF64& writes) const {
  Tensor a = Tensor::uninitialised(reads.shape()), product = Tensor::uninitialised(reads.shape());
  for (Index i = 0; i < a.size(); ++i) a[i] = static_cast<float>(reads[i]);
  kernels::gemm(kernels::GemmProblem{
      .a = ConstMatrix(a.view<2>()), .b = ConstMatrix(gram_.view<2>()), .c = product.view<2>()});  // a E^T U
  TensorF64 through = TensorF64::uninitialised(reads.shape());
  for (Index i = 0; i < a.size(); ++i) through[i] = static_cast<double>(product[i]);
  return dense::eigenvalues(dense::product(through.view<2>(), transposed(writes.view<2>())).view<2>());
}

std::vector<std::complex<double>> VocabularySpectra::of(const HeadMatrices& head) const {
  return kind_ == CircuitKind::ov ? of(head.v, head.o) : of(head.q, head.k);
}

std::vector<std::vector<std::complex<double>>> VocabularySpectra::of_all_heads(const Model& model,
                                                                               const HeadForm& form) const {
  const Index heads = model.config.n_heads, n = model.config.n_layers * heads;
  std::vector<std::vector<std::complex<double>>> spectra(static_cast<std::size_t>(n));
  parallel_for(
      n, [&](Index i) { spectra[static_cast<std::size_t>(i)] = of(head_matrices(model, i / heads, i % heads, form)); });
  return spectra;
}

std::vector<std::complex<double>> VocabularySpectra::of_random_head(Index d_head, std::uint64_t seed) const {
  Random random(seed);
  const TensorF64 reads = dense::gaussian(d_head, gram_.dim(0), random),
                  writes = dense::gaussian(d_head, gram_.dim(0), random);
  return of(reads, writes);
}

NullBand VocabularySpectra::null_band(Index d_head, Index samples, std::uint64_t seed) const {
  check(samples >= 2, ErrorCode::usage, "{} samples: a standard deviation needs two", samples);
  std::vector<double> values(static_cast<std::size_t>(samples));
  parallel_for(samples, [&](Index s) {
    values[static_cast<std::size_t>(s)] =
        positivity(of_random_head(d_head, seed * 1000003U + static_cast<std::uint64_t>(s)));
  });
  NullBand band;
  band.samples = samples;
  for (const double value : values) band.mean += value / static_cast<double>(samples);
  for (const double value : values)
    band.sd += (value - band.mean) * (value - band.mean) / static_cast<double>(samples - 1);
  band.sd = std::sqrt(band.sd);
  return band;
}

}  // namespace kirchhoff
