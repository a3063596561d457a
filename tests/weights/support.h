#pragma once
#include <gtest/gtest.h>

#include <cmath>       // for abs
#include <cstdlib>     // for getenv
#include <filesystem>  // for exists
#include <string>      // for string
#include <vector>      // for vector

#include "engine/support.h"
#include "kirchhoff/base/random.h"
#include "kirchhoff/io/safetensors.h"
#include "kirchhoff/model/load.h"
#include "kirchhoff/weights/token_circuit.h"

namespace kirchhoff::test {

inline std::string golden(const std::string& folder) { return KIRCHHOFF_TEST_DATA "/golden/" + folder; }

/// Tensors of a golden folder's file, by name, in double.
class GoldenFile {
 public:
  GoldenFile(const std::string& folder, const std::string& file)
      : checkpoint_(io::read_safetensors(golden(folder) + "/" + file).checkpoint) {}
  TensorF64 at(const std::string& name) const {
    const io::StoredTensor* stored = checkpoint_.find(name);
    EXPECT_NE(stored, nullptr) << name;
    return stored == nullptr ? TensorF64() : io::decode_f64(*stored);
  }

 private:
  io::Checkpoint checkpoint_;
};

inline TensorF64 random_matrix(Index rows, Index columns, std::uint64_t seed) {
  Random random(seed);
  TensorF64 result({rows, columns});
  for (double& x : result.values()) x = random.normal();
  return result;
}

/// The triple loop: the independent product.
inline TensorF64 multiply(View<const double, 2> a, View<const double, 2> b) {
  TensorF64 c({a.dim[0], b.dim[1]});
  for (Index i = 0; i < a.dim[0]; ++i)
    for (Index j = 0; j < b.dim[1]; ++j)
      for (Index k = 0; k < a.dim[1]; ++k) c[i * b.dim[1] + j] += a(i, k) * b(k, j);
  return c;
}
inline TensorF64 multiply(const TensorF64& a, const TensorF64& b) { return multiply(a.view<2>(), b.view<2>()); }
inline TensorF64 transposed_copy(const TensorF64& a) {
  TensorF64 c({a.dim(1), a.dim(0)});
  for (Index i = 0; i < a.dim(0); ++i)
    for (Index j = 0; j < a.dim(1); ++j) c[j * a.dim(0) + i] = a[i * a.dim(1) + j];
  return c;
}
inline double norm(const TensorF64& a) {
  double sum = 0.0;
  for (const double x : a.values()) sum += x * x;
  return std::sqrt(sum);
}
inline double trace(const TensorF64& a) {
  double sum = 0.0;
  for (Index i = 0; i < a.dim(0); ++i) sum += a[i * a.dim(1) + i];
  return sum;
}

/// A head of random, unrelated matrices.
inline HeadMatrices random_head(Index layer, Index d_head, Index d_model, std::uint64_t seed) {
  return {.layer = layer,
          .head = 0,
          .q = random_matrix(d_head, d_model, seed),
          .k = random_matrix(d_head, d_model, seed + 1),
          .v = random_matrix(d_head, d_model, seed + 2),
          .o = random_matrix(d_head, d_model, seed + 3),
          .score_scale = 1.0};
}

/// Data that lies beside the repository; "" where it is absent.
inline std::string shared_file(const std::string& name) {
  const char* shared = std::getenv("KIRCHHOFF_SHARED");
  const std::string path = std::string(shared != nullptr ? shared : KIRCHHOFF_SOURCE_DIR "/../shared") + "/" + name;
  return std::filesystem::exists(path) ? path : "";
}

}  // namespace kirchhoff::test
