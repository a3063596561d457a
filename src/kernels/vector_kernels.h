#pragma once
#include "kirchhoff/base/types.h"
#include "kirchhoff/kernels/activations_backward.h"
#include "kirchhoff/kernels/cpu.h"
#include "kirchhoff/kernels/scan.h"

namespace kirchhoff::kernels {

/// C = alpha * A B' + bias (+ C if accumulate), with C: [m, n], as raw rows of the given strides; bias may be null.
struct SmallGemm {
  const float* a;  ///< [m, k]
  Index a_stride;
  const float* b;  ///< dot_rows: [n, k], B' its transpose; combine_rows: [k, n], B' = B
  Index b_stride;
  float* c;
  Index c_stride;
  Index m, n, k;
  float alpha;
  const float* bias;  ///< [n]
  bool accumulate;
};

/// One row of NormBackwardProblem (norm_backward.h). gain, dnormalized and normalized_seed may be null.
struct NormBackwardRow {
  const float* x;
  const float* dout;
  const float* gain;
  const float* normalized_seed;
  Index n;
  float mean, scale;  ///< as norm_statistics gives them (mean 0 for RMS), or a frozen scale
  bool centre;        ///< LayerNorm
  bool detach_scale;
  bool accumulate;
  float scale_seed;
  float* dx;
  float* dnormalized;
};

/// The inner loops, on contiguous rows of n values. One implementation (vector_kernels_impl.h) is compiled once for
/// each instruction set, and cpu() chooses the table once. An output may be an input.
struct VectorKernels {
  /// Norms return the divisor. gain, bias and normalized may be null.
  float (*layer_norm)(const float* x, Index n, const float* gain, const float* bias, float eps, float* out,
                      float* normalized);
  float (*rms_norm)(const float* x, Index n, const float* gain, const float* bias, float eps, float* out,
                    float* normalized);
  void (*softmax)(const float* x, Index n, float* out);
  /// factor * softmax; returns log_sum_exp. factor > 0.
  double (*scaled_softmax)(const float* x, Index n, float factor, float* out);
  double (*log_sum_exp)(const float* x, Index n);
  void (*activate)(Activation activation, const float* x, Index n, float* out);
  void (*activate_gated)(Activation activation, const float* gate, const float* linear, Index n, float* out);
  void (*soft_cap)(float* x, Index n, float cap);

  /// The divisor of a norm; `mean` is 0 unless it centres.
  float (*norm_statistics)(const float* x, Index n, bool centre, float eps, float* mean);
  /// Returns the gradient of the divisor.
  float (*norm_backward)(const NormBackwardRow& row);
  void (*softmax_backward)(const float* pattern, const float* dpattern, Index n, float* dscores);
  void (*activate_backward)(Activation activation, ActivationRule rule, const float* x, const float* dout, Index n,
                            float* dx);
  void (*activate_gated_backward)(Activation activation, ActivationRule rule, const float* gate, const float* linear,
                                  const float* dout, Index n, float* dgate, float* dlinear);

  /// Products with few rows, for which packing B costs more than multiplying. Each entry of C is rounded in an order
  /// that depends on k alone, so the rows of C are independent of m, bitwise.
  void (*dot_rows)(const SmallGemm& problem);
  void (*combine_rows)(const SmallGemm& problem);

  /// scan.h.
  ValueRange (*value_range)(const float* x, Index n);
  float (*largest_value)(const float* x, Index n);
};

/// The table of cpu().isa.
const VectorKernels& vector_kernels();

/// The table of one instruction set; null where this build has none.
const VectorKernels* vector_kernels(Isa isa);

// One definition for each instruction set: plain/ and x86/, or the nulls of portable/.
const VectorKernels* plain_kernels();
const VectorKernels* avx2_kernels();
const VectorKernels* avx512_kernels();

}  // namespace kirchhoff::kernels
