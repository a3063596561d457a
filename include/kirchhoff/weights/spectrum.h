#pragma once
#include <complex>  // for complex
#include <cstdint>  // for uint64_t
#include <span>     // for span
#include <vector>   // for vector

#include "kirchhoff/weights/token_circuit.h"

namespace kirchhoff {

/// sum(lambda) / sum|lambda|, in [-1, 1], |lambda| the modulus: 1 if all eigenvalues are positive reals. Zeros do not
/// count; 0 without any other. Of an OV circuit: copying (Elhage et al. 2021; framework-math, section 9).
double positivity(std::span<const std::complex<double>> eigenvalues);

/// What positivity is by chance.
struct NullBand {
  double mean = 0.0, sd = 0.0;
  Index samples = 0;
};

/// Spectra of token circuits from d_head x d_head matrices, once the vocabulary's Gram is known: E^T U (OV) or E^T E
/// (QK), [d_model, d_model], summed in double from float products of blocks of tokens. Costs 2 V d_model^2 once, then
/// 2 d_head d_model^2 a head.
class VocabularySpectra {
 public:
  /// E, U as in token_circuit; U centred over the vocabulary unless raw. Error{usage} for OV of a model whose output
  /// vocabulary is another. `progress`: stage "vocabulary", counted in tokens.
  VocabularySpectra(const Model& model, CircuitKind kind, bool raw, const Progress& progress = {});

  /// All eigenvalues but zeros of the head's token circuit without score_scale, largest modulus first. A norm of q and
  /// k per head is left out but for its gains.
  std::vector<std::complex<double>> of(const HeadMatrices& head) const;
  /// Those of every head, layer by layer.
  std::vector<std::vector<std::complex<double>>> of_all_heads(const Model& model, const HeadForm& form) const;
  /// Those of a head with Gaussian weights before this vocabulary, seeded: what a spectrum looks like by chance.
  std::vector<std::complex<double>> of_random_head(Index d_head, std::uint64_t seed) const;
  /// Positivity of heads with Gaussian weights before this vocabulary, seeded.
  NullBand null_band(Index d_head, Index samples, std::uint64_t seed) const;

 private:
  std::vector<std::complex<double>> of(const TensorF64& reads, const TensorF64& writes) const;
  CircuitKind kind_;
  Tensor gram_;  // [d_model, d_model]: sum over tokens t of E_t^T U_t
};

}  // namespace kirchhoff
