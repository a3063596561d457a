#include <dnnl.h>
#include <fmt/format.h>

#include "kernels/sgemm.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/base/signal_block.h"

// Debian's oneDNN runs on libgomp. These two are its stable C interface; declared here because <omp.h> and -fopenmp
// would bring clang's other OpenMP runtime into the process.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int);
}

namespace kirchhoff::kernels {
namespace {

/// Fixes how many threads the library uses while it lives. The setting belongs to the calling thread, and is given
/// back: the thread may be the host application's.
class LibraryThreads {
 public:
  explicit LibraryThreads(int count) : before_(omp_get_max_threads()), count_(count) {
    if (before_ != count_) omp_set_num_threads(count_);
  }
  ~LibraryThreads() {
    if (before_ != count_) omp_set_num_threads(before_);
  }
  LibraryThreads(const LibraryThreads&) = delete;
  LibraryThreads& operator=(const LibraryThreads&) = delete;

 private:
  int before_, count_;
};

}  // namespace

void sgemm(Index m, Index n, Index k, float alpha, const SgemmOperand& a, const SgemmOperand& b, float beta, float* c,
           Index c_stride, Index threads) {
  cpu();  // sets the limit below before the library looks at the processor
  const LibraryThreads limit(static_cast<int>(threads));
  const SignalBlock block;
  const dnnl_status_t status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, alpha, a.data,
                                          a.stride, b.data, b.stride, beta, c, c_stride);
  check(status == dnnl_success, ErrorCode::internal, "dnnl_sgemm m {} n {} k {}: status {}", m, n, k,
        static_cast<int>(status));
}

SgemmLibrary limit_sgemm(Isa isa) {
  // Never more than AVX-512: a float32 product gains nothing from what lies above it, and AMX traps on some machines.
  const auto limit = isa == Isa::avx512 ? dnnl_cpu_isa_avx512_core
                     : isa == Isa::avx2 ? dnnl_cpu_isa_avx2
                                        : dnnl_cpu_isa_sse41;
  const bool limited = dnnl_set_max_cpu_isa(limit) == dnnl_success;
  const dnnl_version_t* version = dnnl_version();
  const char* used = isa == Isa::avx512 ? "avx512_core" : isa == Isa::avx2 ? "avx2" : "sse41";
  return {fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch),
          limited ? used : "the library's own choice"};
}

}  // namespace kirchhoff::kernels
