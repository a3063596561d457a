#include "kirchhoff/kernels/softmax.h"

#include "kernels/rows.h"
#include "kernels/vector_kernels.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::kernels {
namespace {

/// log_sum_exp of each row, less logits(row, target): one implementation for both precisions.
template <class Real>
void cross_entropy_of(View<const Real, 2> logits, std::span<const std::int32_t> targets, std::span<double> losses) {
  assert(static_cast<Index>(targets.size()) == logits.dim[0] && losses.size() == targets.size());
  for (const std::int32_t target : targets)
    check(target >= 0 && target < logits.dim[1], ErrorCode::usage, "target {} is not in [0, {})", target,
          logits.dim[1]);
  log_sum_exp(logits, losses);
  for (std::size_t r = 0; r < targets.size(); ++r)
    losses[r] -= static_cast<double>(logits(static_cast<Index>(r), Index{targets[r]}));
}

}  // namespace

void softmax(View<const float, 2> x, View<float, 2> out) {
  assert(out.dim == x.dim);
  for_each_row(x.dim[0], x.dim[1],
               [&](Index row) { vector_kernels().softmax(row_data(x, row), x.dim[1], row_data(out, row)); });
}

void scaled_softmax(View<const float, 2> x, float factor, View<float, 2> out, std::span<double> log_sums) {
  assert(out.dim == x.dim && static_cast<Index>(log_sums.size()) == x.dim[0]);
  for_each_row(x.dim[0], x.dim[1], [&](Index row) {
    log_sums[static_cast<std::size_t>(row)] =
        vector_kernels().scaled_softmax(row_data(x, row), x.dim[1], factor, row_data(out, row));
  });
}

void log_sum_exp(View<const float, 2> x, std::span<double> out) {
  assert(static_cast<Index>(out.size()) == x.dim[0]);
  for_each_row(x.dim[0], x.dim[1], [&](Index row) {
    out[static_cast<std::size_t>(row)] = vector_kernels().log_sum_exp(row_data(x, row), x.dim[1]);
  });
}

void cross_entropy(View<const float, 2> logits, std::span<const std::int32_t> targets, std::span<double> losses) {
  cross_entropy_of(logits, targets, losses);
}

void reference::cross_entropy(View<const double, 2> logits, std::span<const std::int32_t> targets,
                              std::span<double> losses) {
  cross_entropy_of(logits, targets, losses);
}

}  // namespace kirchhoff::kernels
