#pragma once
#include <array>    // for array
#include <cassert>  // for assert
#include <span>     // for span
#include <type_traits>

#include "kirchhoff/base/types.h"

namespace kirchhoff {

/// A non-owning, strided window of rank R on somebody's memory, which must outlive it. Row-major when made from a
/// Tensor; strides are in elements. Bounds are asserted in debug builds.
template <class T, int R>
struct View {
  using Dims = std::array<Index, static_cast<std::size_t>(R)>;

  T* data = nullptr;
  Dims dim{};
  Dims stride{};

  View() = default;
  View(T* data_, Dims dim_, Dims stride_) : data(data_), dim(dim_), stride(stride_) {}
  /// Contiguous, row-major.
  View(T* data_, Dims dim_) : data(data_), dim(dim_) {
    Index step = 1;
    for (int a = R - 1; a >= 0; --a) {
      stride[static_cast<std::size_t>(a)] = step;
      step *= dim[static_cast<std::size_t>(a)];
    }
  }
  /// A mutable view is also a constant one.
  operator View<const T, R>() const requires(!std::is_const_v<T>) { return {data, dim, stride}; }

  template <class... I>
  requires(sizeof...(I) == R) T& operator()(I... i) const {
    Index offset = 0;
    std::size_t a = 0;
    ((assert(i >= 0 && i < dim[a]), offset += static_cast<Index>(i) * stride[a], ++a), ...);
    return data[offset];
  }

  /// The sub-view at index i of the first axis.
  View<T, R - 1> at(Index i) const requires(R > 1) {
    assert(i >= 0 && i < dim[0]);
    View<T, R - 1> v;
    v.data = data + i * stride[0];
    for (std::size_t a = 1; a < R; ++a) {
      v.dim[a - 1] = dim[a];
      v.stride[a - 1] = stride[a];
    }
    return v;
  }

  /// Entries [begin, begin + count) of the first axis.
  View rows(Index begin, Index count) const {
    assert(begin >= 0 && count >= 0 && begin + count <= dim[0]);
    View v = *this;
    v.data += begin * stride[0];
    v.dim[0] = count;
    return v;
  }

  /// Row i as a span; the last axis must be contiguous.
  std::span<T> row(Index i) const requires(R == 2) {
    assert(stride[1] == 1 && i >= 0 && i < dim[0]);
    return {data + i * stride[0], static_cast<std::size_t>(dim[1])};
  }

  Index size() const {
    Index n = 1;
    for (Index d : dim) n *= d;
    return n;
  }
};

/// The transpose of a matrix, sharing its memory.
template <class T>
View<T, 2> transposed(View<T, 2> v) {
  return {v.data, {v.dim[1], v.dim[0]}, {v.stride[1], v.stride[0]}};
}

using ConstMatrix = View<const float, 2>;
using Matrix = View<float, 2>;

}  // namespace kirchhoff
