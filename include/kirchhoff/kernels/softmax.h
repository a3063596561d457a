#pragma once
#include <cstdint>  // for int32_t
#include <span>     // for span

#include "kirchhoff/tensor/view.h"

namespace kirchhoff::kernels {

namespace reference {
void softmax(View<const double, 2> x, View<double, 2> out);
void scaled_softmax(View<const double, 2> x, double factor, View<double, 2> out, std::span<double> log_sums);
void log_sum_exp(View<const double, 2> x, std::span<double> out);
void cross_entropy(View<const double, 2> logits, std::span<const std::int32_t> targets, std::span<double> losses);
}  // namespace reference

/// out = exp(x - max) / sum of the same, along each row. x, out: [rows, d], each row contiguous; out may be x. -inf
/// gives exactly 0; a row of nothing but -inf gives zeros.
void softmax(View<const float, 2> x, View<float, 2> out);
using reference::softmax;

/// out = factor * softmax(x) as above, and log_sums as log_sum_exp gives them, in one reading of x: what a loss and its
/// gradient need. factor > 0; log_sums: [rows].
void scaled_softmax(View<const float, 2> x, float factor, View<float, 2> out, std::span<double> log_sums);
using reference::scaled_softmax;

/// out[r] = log(sum over j of exp(x(r, j))), summed in double. out: [rows]. A row of nothing but -inf gives -inf.
void log_sum_exp(View<const float, 2> x, std::span<double> out);
using reference::log_sum_exp;

/// losses[r] = log_sum_exp(logits(r, .)) - logits(r, targets[r]), in nats. targets, losses: [rows].
/// Error{usage} if a target is not in [0, d).
void cross_entropy(View<const float, 2> logits, std::span<const std::int32_t> targets, std::span<double> losses);
using reference::cross_entropy;

}  // namespace kirchhoff::kernels
