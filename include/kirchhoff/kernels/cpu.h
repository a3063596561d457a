#pragma once
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

namespace kirchhoff::kernels {

/// The instruction sets that the vector kernels are compiled for.
enum class Isa {
  plain,   ///< what the compiler assumes: SSE2 on x86-64, NEON on ARM
  avx2,    ///< AVX2 and FMA
  avx512,  ///< AVX-512 F, BW, DQ, VL
};

std::string_view name(Isa isa);

/// One feature of the processor. Features are tried, not believed: one instruction is executed under a signal handler,
/// because there are machines that advertise AMX and trap on it.
struct CpuFeature {
  std::string name;         ///< "avx512f"
  bool advertised = false;  ///< by CPUID, and enabled by the operating system
  bool works = false;       ///< advertised, tried, and did not trap
};

/// What `kirchhoff doctor` prints.
struct CpuReport {
  std::string processor;             ///< its brand string; empty where unknown
  std::vector<CpuFeature> features;  ///< empty where nothing is tried (not x86)
  Isa isa = Isa::plain;              ///< what the vector kernels use
  bool isa_forced = false;           ///< chosen by the environment variable KIRCHHOFF_ISA
  std::string gemm_library;          ///< "oneDNN 2.6.3"
  std::string gemm_isa;              ///< the most that the GEMM library may use
};

/// Tries the features at the first call and fixes the choice for the process: the best instruction set that works, or
/// KIRCHHOFF_ISA=plain|avx2|avx512, which caps the GEMM library too. Error{usage} for another value of the variable,
/// Error{device} if what it asks for does not work here.
const CpuReport& cpu();

}  // namespace kirchhoff::kernels
