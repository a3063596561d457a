#pragma once
#include "kirchhoff/weights/head_matrices.h"
#include "weights/dense.h"

/// A head's matrices x^T y, [d_model, d_model], reduced to R y, [d_head, d_model], with x^T = Q R: Q's columns being
/// orthonormal, |x^T y z| = |R y z| for any z.
namespace kirchhoff::reduced {

inline TensorF64 product(const TensorF64& x, const TensorF64& y) {
  const TensorF64 r = dense::triangle(transposed(x.view<2>()));
  return dense::product(r.view<2>(), y.view<2>());
}

// What composes, so that every score is |write read^T| / (|write| |read|).
inline TensorF64 written(const HeadMatrices& head) { return product(head.v, head.o); }    // OV = v^T o
inline TensorF64 read_by_q(const HeadMatrices& head) { return product(head.k, head.q); }  // QK = q^T k
inline TensorF64 read_by_k(const HeadMatrices& head) { return product(head.q, head.k); }  // QK^T = k^T q
inline TensorF64 read_by_v(const HeadMatrices& head) { return product(head.o, head.v); }  // OV = v^T o

}  // namespace kirchhoff::reduced
