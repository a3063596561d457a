#pragma once
#include <cstdint>  // for int32_t
#include <span>     // for span

#include "kirchhoff/tensor/view.h"

namespace kirchhoff::kernels {

namespace reference {
void embed(ConstMatrix table, std::span<const std::int32_t> ids, double scale, View<double, 2> out);
void add(View<double, 2> x, View<const double, 2> y);
void add_rows(View<double, 2> x, ConstMatrix y);
void add_bias(View<double, 2> x, const double* bias);
void embed_backward(View<const double, 2> dout, std::span<const std::int32_t> ids, double scale,
                    View<double, 2> dtable);
void add_column_sums(View<const double, 2> x, double* sums);
}  // namespace reference

/// out(r, .) = scale * table(ids[r], .). table: [d_vocab, d], out: [ids.size(), d].
/// Error{usage} if an id is not in [0, d_vocab).
void embed(ConstMatrix table, std::span<const std::int32_t> ids, double scale, View<float, 2> out);
using reference::embed;

/// x += y, the same shape [rows, d]: a sublayer's write to the stream.
void add(View<float, 2> x, View<const float, 2> y);
using reference::add;

/// x += y where y is a float32 weight matrix [rows, d] in either precision: learned positions.
void add_rows(View<float, 2> x, ConstMatrix y);
using reference::add_rows;

/// x(r, .) += bias for each row. x: [rows, d], bias: [d] or null for none.
void add_bias(View<float, 2> x, const float* bias);
using reference::add_bias;

/// dtable(ids[r], .) += scale * dout(r, .), in the order of the rows: the gradient of embed. dout: [ids.size(), d],
/// dtable: [d_vocab, d]. Error{usage} if an id is not in [0, d_vocab).
void embed_backward(View<const float, 2> dout, std::span<const std::int32_t> ids, double scale, View<float, 2> dtable);
using reference::embed_backward;

/// sums[i] += sum over rows of x(r, i), in their order: the gradient of a bias. x: [rows, d], sums: [d] or null for
/// none.
void add_column_sums(View<const float, 2> x, float* sums);
using reference::add_column_sums;

}  // namespace kirchhoff::kernels
