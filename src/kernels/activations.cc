#include "kirchhoff/kernels/activations.h"

#include "kernels/rows.h"
#include "kernels/vector_kernels.h"

namespace kirchhoff::kernels {

void activate(Activation activation, View<const float, 2> x, View<float, 2> out) {
  assert(out.dim == x.dim);
  for_each_row(x.dim[0], x.dim[1], [&](Index row) {
    vector_kernels().activate(activation, row_data(x, row), x.dim[1], row_data(out, row));
  });
}

void activate_gated(Activation activation, View<const float, 2> gate, View<const float, 2> linear, View<float, 2> out) {
  assert(linear.dim == gate.dim && out.dim == gate.dim);
  for_each_row(gate.dim[0], gate.dim[1], [&](Index row) {
    vector_kernels().activate_gated(activation, row_data(gate, row), row_data(linear, row), gate.dim[1],
                                    row_data(out, row));
  });
}

void soft_cap(View<float, 2> x, double cap) {
  for_each_row(x.dim[0], x.dim[1],
               [&](Index row) { vector_kernels().soft_cap(row_data(x, row), x.dim[1], static_cast<float>(cap)); });
}

}  // namespace kirchhoff::kernels
