#include "kernels/vector_kernels.h"

namespace kirchhoff::kernels {

const VectorKernels* vector_kernels(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return avx512_kernels();
    case Isa::avx2:
      return avx2_kernels();
    case Isa::plain:
      break;
  }
  return plain_kernels();
}

const VectorKernels& vector_kernels() {
  static const VectorKernels* const chosen = vector_kernels(cpu().isa);
  return *chosen;
}

}  // namespace kirchhoff::kernels
