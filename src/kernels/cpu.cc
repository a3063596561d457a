#include "kirchhoff/kernels/cpu.h"

#include <algorithm>  // for find
#include <cstdlib>    // for getenv

#include "kernels/cpu_probe.h"
#include "kernels/sgemm.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::kernels {
namespace {

constexpr Isa kIsas[] = {Isa::plain, Isa::avx2, Isa::avx512};

/// The instruction set that KIRCHHOFF_ISA names, which must work here.
Isa isa_by_name(std::string_view wanted, const std::vector<Isa>& working) {
  for (const Isa isa : kIsas) {
    if (name(isa) != wanted) continue;
    check(std::find(working.begin(), working.end(), isa) != working.end(), ErrorCode::device,
          "KIRCHHOFF_ISA={}: this processor does not execute it; it executes up to {}", wanted, name(working.back()));
    return isa;
  }
  fail(ErrorCode::usage, "KIRCHHOFF_ISA={}: expected plain, avx2 or avx512", wanted);
}

CpuReport make_report() {
  ProbedCpu probed = probe_cpu();
  CpuReport report;
  report.processor = std::move(probed.processor);
  report.features = std::move(probed.features);
  report.isa = probed.working.back();
  if (const char* wanted = std::getenv("KIRCHHOFF_ISA"); wanted != nullptr && *wanted != '\0') {
    report.isa = isa_by_name(wanted, probed.working);
    report.isa_forced = true;
  }
  const SgemmLibrary library = limit_sgemm(report.isa);
  report.gemm_library = library.name;
  report.gemm_isa = library.isa;
  return report;
}

}  // namespace

std::string_view name(Isa isa) {
  switch (isa) {
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::plain:
      break;
  }
  return "plain";
}

const CpuReport& cpu() {
  static const CpuReport report = make_report();
  return report;
}

}  // namespace kirchhoff::kernels
