#include "kernels/cpu_probe.h"

#include <cpuid.h>
#include <csetjmp>
#include <csignal>
#include <cstdint>  // for uint64_t, uint32_t, uint8_t
#include <cstring>  // for memcpy
#include <mutex>    // for mutex, lock_guard
#include <string_view>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace kirchhoff::kernels {
namespace {

struct CpuidLeaf {
  std::uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuidLeaf cpuid(std::uint32_t leaf, std::uint32_t subleaf = 0) {
  CpuidLeaf r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

/// The register state that the operating system saves, XCR0; 0 if it saves none beyond SSE.
std::uint64_t enabled_state() {
  constexpr std::uint32_t kOsxsave = 1U << 27;
  if ((cpuid(1).ecx & kOsxsave) == 0) return 0;
  std::uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

std::string brand() {
  std::string text;
  if (cpuid(0x80000000U).eax < 0x80000004U) return text;
  for (std::uint32_t leaf = 0x80000002U; leaf <= 0x80000004U; ++leaf) {
    const CpuidLeaf r = cpuid(leaf);
    char part[16];
    std::memcpy(part, &r, sizeof part);
    text.append(part, sizeof part);
  }
  text.resize(std::string_view(text.c_str()).find_last_not_of(' ') + 1);
  return text;
}

sigjmp_buf g_escape;
thread_local volatile std::sig_atomic_t t_trying = 0;

extern "C" void escape(int signal) {
  if (t_trying != 0) siglongjmp(g_escape, 1);
  std::signal(signal, SIG_DFL);  // another thread's own fault: let it happen
}

/// Whether `attempt` returns without a fault: an invalid instruction is SIGILL, a refused tile configuration SIGSEGV.
/// Handlers belong to the whole process, so one try at a time.
bool survives(void (*attempt)()) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  struct sigaction catcher = {}, before_ill = {}, before_segv = {};
  catcher.sa_handler = escape;
  sigemptyset(&catcher.sa_mask);
  sigaction(SIGILL, &catcher, &before_ill);
  sigaction(SIGSEGV, &catcher, &before_segv);
  volatile bool survived = false;
  if (sigsetjmp(g_escape, 1) == 0) {
    t_trying = 1;
    attempt();
    survived = true;
  }
  t_trying = 0;
  sigaction(SIGILL, &before_ill, nullptr);
  sigaction(SIGSEGV, &before_segv, nullptr);
  return survived;
}

void try_avx2() { asm volatile("vpaddd %%ymm0, %%ymm0, %%ymm1\n\tvzeroupper" ::: "xmm1"); }
void try_fma() { asm volatile("vfmadd213ps %%ymm0, %%ymm0, %%ymm1\n\tvzeroupper" ::: "xmm1"); }
void try_avx512f() { asm volatile("vfmadd213ps %%zmm0, %%zmm0, %%zmm1\n\tvzeroupper" ::: "xmm1"); }
void try_avx512bw() { asm volatile("vpaddw %%zmm0, %%zmm0, %%zmm1\n\tvzeroupper" ::: "xmm1"); }
void try_avx512dq() { asm volatile("vandps %%zmm0, %%zmm0, %%zmm1\n\tvzeroupper" ::: "xmm1"); }
void try_avx512vl() { asm volatile("vpandd %%ymm0, %%ymm0, %%ymm1\n\tvzeroupper" ::: "xmm1"); }

/// Linux grants the tile registers to those who ask (Documentation/arch/x86/xstate.rst).
bool tiles_granted() {
#if defined(__linux__) && defined(SYS_arch_prctl)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

void try_amx_tile() {
  // One tile of one row of 4 bytes: palette 1, colsb[0] = 4, rows[0] = 1.
  alignas(64) std::uint8_t config[64] = {};
  config[0] = 1;
  config[16] = 4;
  config[48] = 1;
  asm volatile("ldtilecfg %0\n\ttilezero %%tmm0\n\ttilerelease" ::"m"(config));
}

}  // namespace

ProbedCpu probe_cpu() {
  constexpr std::uint64_t kYmm = 0x6, kZmm = 0xE6, kTiles = 0x60000;  // XCR0 components
  const std::uint64_t state = enabled_state();
  const auto saves = [state](std::uint64_t components) { return (state & components) == components; };
  const CpuidLeaf one = cpuid(1), seven = cpuid(7);
  const auto bit = [](std::uint32_t word, int n) { return ((word >> n) & 1U) != 0; };

  struct Candidate {
    const char* name;
    bool advertised;
    void (*attempt)();
  };
  const Candidate candidates[] = {
      {"avx2", bit(seven.ebx, 5) && saves(kYmm), try_avx2},
      {"fma", bit(one.ecx, 12) && saves(kYmm), try_fma},
      {"avx512f", bit(seven.ebx, 16) && saves(kZmm), try_avx512f},
      {"avx512bw", bit(seven.ebx, 30) && saves(kZmm), try_avx512bw},
      {"avx512dq", bit(seven.ebx, 17) && saves(kZmm), try_avx512dq},
      {"avx512vl", bit(seven.ebx, 31) && saves(kZmm), try_avx512vl},
      {"amx_tile", bit(seven.edx, 24) && saves(kTiles), try_amx_tile},
  };

  ProbedCpu probed;
  probed.processor = brand();
  for (const Candidate& c : candidates) {
    const bool is_tile = c.attempt == try_amx_tile;
    const bool works = c.advertised && (!is_tile || tiles_granted()) && survives(c.attempt);
    probed.features.push_back({c.name, c.advertised, works});
  }
  const auto works = [&](std::string_view wanted) {
    for (const CpuFeature& f : probed.features)
      if (f.name == wanted) return f.works;
    return false;
  };
  probed.working.push_back(Isa::plain);
  if (works("avx2") && works("fma")) {
    probed.working.push_back(Isa::avx2);
    if (works("avx512f") && works("avx512bw") && works("avx512dq") && works("avx512vl"))
      probed.working.push_back(Isa::avx512);
  }
  return probed;
}

}  // namespace kirchhoff::kernels
