// For processors of which one instruction set is compiled: there is nothing to try.
#include "kernels/cpu_probe.h"
#include "kernels/vector_kernels.h"

namespace kirchhoff::kernels {

ProbedCpu probe_cpu() { return {{}, {}, {Isa::plain}}; }

const VectorKernels* avx2_kernels() { return nullptr; }
const VectorKernels* avx512_kernels() { return nullptr; }

}  // namespace kirchhoff::kernels
