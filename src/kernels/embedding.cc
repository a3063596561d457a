#include "kirchhoff/kernels/embedding.h"

#include "kernels/rows.h"
#include "kirchhoff/base/error.h"

// Sums of two numbers need no twin of their own: one template serves both precisions.
namespace kirchhoff::kernels {
namespace {

template <class Real>
void embed_rows(ConstMatrix table, std::span<const std::int32_t> ids, double scale, View<Real, 2> out) {
  assert(static_cast<Index>(ids.size()) == out.dim[0] && table.dim[1] == out.dim[1]);
  for (const std::int32_t id : ids)
    check(id >= 0 && id < table.dim[0], ErrorCode::usage, "token {} is not in [0, {})", id, table.dim[0]);
  const Real factor = static_cast<Real>(scale);
  for_each_row(out.dim[0], out.dim[1], [&](Index r) {
    const float* from = row_data(table, ids[static_cast<std::size_t>(r)]);
    Real* to = row_data(out, r);
    for (Index i = 0; i < out.dim[1]; ++i) to[i] = factor * static_cast<Real>(from[i]);
  });
}

template <class Real, class Term>
void add_matrix(View<Real, 2> x, View<const Term, 2> y) {
  assert(x.dim == y.dim);
  for_each_row(x.dim[0], x.dim[1], [&](Index r) {
    Real* sum = row_data(x, r);
    const Term* term = row_data(y, r);
    for (Index i = 0; i < x.dim[1]; ++i) sum[i] += static_cast<Real>(term[i]);
  });
}

template <class Real>
void add_vector(View<Real, 2> x, const Real* bias) {
  if (bias == nullptr) return;
  for_each_row(x.dim[0], x.dim[1], [&](Index r) {
    Real* sum = row_data(x, r);
    for (Index i = 0; i < x.dim[1]; ++i) sum[i] += bias[i];
  });
}

template <class Real>
void scatter_rows(View<const Real, 2> dout, std::span<const std::int32_t> ids, double scale, View<Real, 2> dtable) {
  assert(static_cast<Index>(ids.size()) == dout.dim[0] && dtable.dim[1] == dout.dim[1]);
  for (const std::int32_t id : ids)
    check(id >= 0 && id < dtable.dim[0], ErrorCode::usage, "token {} is not in [0, {})", id, dtable.dim[0]);
  const Real factor = static_cast<Real>(scale);
  for_column_blocks(dout.dim[0], dout.dim[1], [&](Index begin, Index end) {
    for (Index r = 0; r < dout.dim[0]; ++r) {
      const Real* from = row_data(dout, r);
      Real* to = row_data(dtable, ids[static_cast<std::size_t>(r)]);
      for (Index i = begin; i < end; ++i) to[i] += factor * from[i];
    }
  });
}

template <class Real>
void sum_columns(View<const Real, 2> x, Real* sums) {
  if (sums == nullptr) return;
  for_column_blocks(x.dim[0], x.dim[1], [&](Index begin, Index end) {
    for (Index r = 0; r < x.dim[0]; ++r) {
      const Real* row = row_data(x, r);
      for (Index i = begin; i < end; ++i) sums[i] += row[i];
    }
  });
}

}  // namespace

void embed(ConstMatrix table, std::span<const std::int32_t> ids, double scale, View<float, 2> out) {
  embed_rows(table, ids, scale, out);
}
void add(View<float, 2> x, View<const float, 2> y) { add_matrix(x, y); }
void add_rows(View<float, 2> x, ConstMatrix y) { add_matrix(x, y); }
void add_bias(View<float, 2> x, const float* bias) { add_vector(x, bias); }
void embed_backward(View<const float, 2> dout, std::span<const std::int32_t> ids, double scale, View<float, 2> dtable) {
  scatter_rows(dout, ids, scale, dtable);
}
void add_column_sums(View<const float, 2> x, float* sums) { sum_columns(x, sums); }

namespace reference {
void embed(ConstMatrix table, std::span<const std::int32_t> ids, double scale, View<double, 2> out) {
  embed_rows(table, ids, scale, out);
}
void add(View<double, 2> x, View<const double, 2> y) { add_matrix(x, y); }
void add_rows(View<double, 2> x, ConstMatrix y) { add_matrix(x, y); }
void add_bias(View<double, 2> x, const double* bias) { add_vector(x, bias); }
void embed_backward(View<const double, 2> dout, std::span<const std::int32_t> ids, double scale,
                    View<double, 2> dtable) {
  scatter_rows(dout, ids, scale, dtable);
}
void add_column_sums(View<const double, 2> x, double* sums) { sum_columns(x, sums); }
}  // namespace reference

}  // namespace kirchhoff::kernels
