#include <algorithm>      // for find_if, max
#include <cstdint>        // for uintptr_t
#include <cstdlib>        // for free, posix_memalign
#include <list>           // for list
#include <mutex>          // for lock_guard, mutex
#include <new>            // for bad_alloc
#include <unordered_set>  // for unordered_set

#include "kirchhoff/tensor/tensor.h"

#if __has_include(<malloc.h>)
#include <malloc.h>  // for mallopt
#endif
#if __has_include(<sys/mman.h>)
#include <sys/mman.h>  // for madvise, mmap, munmap
#endif

namespace kirchhoff {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kWorthKeeping = std::size_t{256} << 10;

// Pages of 2 MiB instead of 4 KiB: 512 times fewer faults when memory is first touched (8 % of a forward of 1024
// tokens, most of it in the logits), and far fewer misses where a kernel strides through rows (attention: up to twice
// as fast). The last part of an array that fills no huge page lies in small ones.
void* allocate_anew(std::size_t bytes) {
  const bool large = bytes >= kHugePage;
  void* memory = nullptr;
  if (posix_memalign(&memory, large ? kHugePage : kCacheLine, bytes + kCacheLine) != 0) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (large) madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);  // advice: never mind what becomes of it
#endif
  return memory;
}

/// Huge pages of an array's own, `bytes` being a multiple of theirs. Memory that malloc gives may have been touched
/// before, and then stays in small pages whatever is advised: the products and the attention of a training step that
/// met such arrays took up to twice as long. Null where the system has no such call.
void* map_anew([[maybe_unused]] std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  const std::size_t room = bytes + kHugePage;
  void* const begin = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (begin == MAP_FAILED) throw std::bad_alloc();
  auto* const first = static_cast<std::byte*>(begin);
  const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(first) % kHugePage) % kHugePage;
  if (before > 0) munmap(first, before);
  munmap(first + before + bytes, room - before - bytes);
  madvise(first + before, bytes, MADV_HUGEPAGE);
  return first + before;
#else
  return nullptr;
#endif
}

void unmap([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  munmap(memory, bytes);
#endif
}

/// Keeps freed arrays in huge pages, the last freed first.
class Shelf {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
  }

  /// Null where the shelf does not serve.
  void* take(std::size_t bytes) {
    bytes = in_huge_pages(bytes);
    {
      const std::lock_guard lock(mutex_);
      if (!open_) return nullptr;
      in_use_ += bytes;
      most_in_use_ = std::max(most_in_use_, in_use_);
      const auto fitting = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& k) { return k.bytes == bytes; });
      if (fitting != kept_.end()) {
        void* const memory = fitting->memory;
        kept_bytes_ -= bytes;
        kept_.erase(fitting);
        return memory;
      }
    }
    void* const memory = map_anew(bytes);
    const std::lock_guard lock(mutex_);
    if (memory != nullptr)
      own_.insert(memory);
    else
      in_use_ -= bytes;
    return memory;
  }

  /// Whether the array was the shelf's.
  bool put(void* memory, std::size_t bytes) {
    bytes = in_huge_pages(bytes);
    std::list<Kept> too_many;
    {
      const std::lock_guard lock(mutex_);
      if (!own_.contains(memory)) return false;
      in_use_ -= bytes;
      kept_.push_front({memory, bytes});
      kept_bytes_ += bytes;
      while (in_use_ + kept_bytes_ > 2 * most_in_use_) {
        kept_bytes_ -= kept_.back().bytes;
        own_.erase(kept_.back().memory);
        too_many.splice(too_many.begin(), kept_, std::prev(kept_.end()));
      }
    }
    for (const Kept& kept : too_many) unmap(kept.memory, kept.bytes);
    return true;
  }

 private:
  struct Kept {
    void* memory;
    std::size_t bytes;
  };

  static std::size_t in_huge_pages(std::size_t bytes) { return (bytes + kHugePage - 1) / kHugePage * kHugePage; }

  std::mutex mutex_;
  bool open_ = false;
  std::list<Kept> kept_;
  std::unordered_set<void*> own_;  // in use or kept
  std::size_t kept_bytes_ = 0, in_use_ = 0, most_in_use_ = 0;
};

/// Never destroyed: arrays of static storage are freed after it would be.
Shelf& shelf() {
  static Shelf& shelf = *new Shelf;
  return shelf;
}

}  // namespace

void* allocate_array(std::size_t bytes) {
  void* const memory = bytes >= kWorthKeeping ? shelf().take(bytes) : nullptr;
  return memory != nullptr ? memory : allocate_anew(bytes);
}

void free_array(void* memory, std::size_t bytes) {
  if (memory == nullptr) return;
  if (bytes < kWorthKeeping || !shelf().put(memory, bytes)) std::free(memory);
}

void keep_freed_memory() {
  shelf().open();
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);  // all of it from the heap
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

}  // namespace kirchhoff
