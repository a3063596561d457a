#pragma once
#include <algorithm>  // for copy_n
#include <span>       // for span

#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff::engine {

/// [rows, heads * d_head] seen as [rows, heads, d_head].
template <class T>
View<T, 3> by_head(View<T, 2> x, Index d_head) {
  return {x.data, {x.dim[0], x.dim[1] / d_head, d_head}, {x.stride[0], d_head, 1}};
}

/// Head h of [rows, heads, width] as a matrix.
template <class T>
View<T, 2> head_of(View<T, 3> x, Index h) {
  return {x.data + h * x.stride[1], {x.dim[0], x.dim[2]}, {x.stride[0], x.stride[2]}};
}

/// Columns [begin, begin + count) of a matrix.
template <class T>
View<T, 2> columns_of(View<T, 2> x, Index begin, Index count) {
  return {x.data + begin * x.stride[1], {x.dim[0], count}, x.stride};
}

/// The given rows of x, one below the other.
template <class T, class Real = std::remove_const_t<T>>
BasicTensor<Real> gather_rows(View<T, 2> x, std::span<const Index> rows) {
  const auto count = static_cast<Index>(rows.size());
  auto gathered = BasicTensor<Real>::uninitialised({count, x.dim[1]});
  for (Index i = 0; i < count; ++i)
    std::copy_n(x.row(rows[static_cast<std::size_t>(i)]).data(), x.dim[1], gathered.data() + i * x.dim[1]);
  return gathered;
}

}  // namespace kirchhoff::engine
