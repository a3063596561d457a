#include "kirchhoff/base/memory.h"

#if __has_include(<malloc.h>)
#include <malloc.h>  // for mallopt
#endif

namespace kirchhoff {

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);  // large arrays from the heap, too
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

}  // namespace kirchhoff
