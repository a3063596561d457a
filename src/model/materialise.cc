#include "model/materialise.h"

#include <sys/mman.h>  // for madvise

#include <algorithm>  // for count_if, max, min
#include <atomic>     // for atomic
#include <cmath>      // for isfinite

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/io/mapped_file.h"

namespace kirchhoff {
namespace {

/// What one task converts, and after how much of it the pages of the source are given back: about 1 MiB and 32 MiB of
/// float32.
constexpr Index kTaskValues = Index{1} << 18;
constexpr Index kTasksPerSlice = 32;

/// Fewer page faults on the way in, fewer misses of the address cache when products stream over the weights.
void prefer_huge_pages([[maybe_unused]] Tensor& tensor) {
#ifdef MADV_HUGEPAGE
  constexpr std::uintptr_t kHuge = std::uintptr_t{2} << 20;
  const auto first = reinterpret_cast<std::uintptr_t>(tensor.data());
  const std::uintptr_t begin = (first + kHuge - 1) / kHuge * kHuge;
  const std::uintptr_t end = (first + static_cast<std::size_t>(tensor.size()) * sizeof(float)) / kHuge * kHuge;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

void refuse_nonfinite(const io::StoredTensor& tensor, Index bad, const MaterialiseOptions& options) {
  if (bad == 0 || options.allow_nonfinite) return;
  throw Error(ErrorCode::numerical,
              fmt::format("'{}': tensor '{}' {} has {} values that are NaN or infinite", tensor.file, tensor.name,
                          bracketed(tensor.shape), bad),
              "the file is damaged, or training diverged; allow non-finite weights explicitly to go on");
}

/// Calls `rows(begin, end)` for blocks of rows in parallel; it returns how many of their values are not finite.
template <class Rows>
Index scan(const Gather& gather, const Rows& rows) {
  std::atomic<Index> bad = 0;
  parallel_for_blocks(gather.d_out, std::max<Index>(1, kTaskValues / gather.d_in),
                      [&](Index begin, Index end) { bad += rows(begin, end); });
  return bad;
}

/// The same for what is converted from the file, slice by slice.
template <class Rows>
Index scan_and_release(const io::StoredTensor& tensor, const Gather& gather, const Rows& rows) {
  const Index task = std::max<Index>(1, kTaskValues / gather.d_in);
  Index bad = 0;
  for (Index first = 0; first < gather.d_out; first += task * kTasksPerSlice) {
    const Index n = std::min(gather.d_out - first, task * kTasksPerSlice);
    std::atomic<Index> bad_here = 0;
    parallel_for_blocks(n, task, [&](Index begin, Index end) { bad_here += rows(first + begin, first + end); });
    bad += bad_here;
    io::release_pages(tensor.bytes);
  }
  return bad;
}

WeightMatrix borrowed(const io::StoredTensor& tensor, const Gather& gather, const MaterialiseOptions& options) {
  const auto* values = reinterpret_cast<const float*>(tensor.bytes.data());
  const Index bad = scan(gather, [&](Index begin, Index end) {
    return count_nonfinite({values + begin * gather.d_in, static_cast<std::size_t>((end - begin) * gather.d_in)});
  });
  refuse_nonfinite(tensor, bad, options);
  return {gather.d_out, gather.d_in, values, tensor.owner};
}

WeightMatrix packed(const io::StoredTensor& tensor, const Gather& gather, const MaterialiseOptions& options) {
  if (!options.allow_nonfinite) {
    const Index bad = scan_and_release(tensor, gather, [&](Index begin, Index end) {
      std::vector<float> rows(static_cast<std::size_t>((end - begin) * gather.d_in));
      gather_rows(tensor, gather, begin, end, rows.data());
      return count_nonfinite(rows);
    });
    refuse_nonfinite(tensor, bad, options);
  }
  // Its share of a tensor that several matrices come from.
  const auto share = static_cast<double>(gather.d_out) * static_cast<double>(gather.d_in) /
                     static_cast<double>(element_count(tensor.shape));
  return {gather.d_out, gather.d_in,
          [tensor, gather](Index begin, Index end, float* out) { gather_rows(tensor, gather, begin, end, out); },
          static_cast<Index>(share * static_cast<double>(tensor.bytes.size()))};
}

WeightMatrix expanded(const io::StoredTensor& tensor, const Gather& gather, const MaterialiseOptions& options) {
  auto matrix = std::make_shared<Tensor>(Tensor::uninitialised({gather.d_out, gather.d_in}));
  prefer_huge_pages(*matrix);
  const Index bad = scan_and_release(tensor, gather, [&](Index begin, Index end) {
    float* out = matrix->data() + begin * gather.d_in;
    gather_rows(tensor, gather, begin, end, out);
    return count_nonfinite({out, static_cast<std::size_t>((end - begin) * gather.d_in)});
  });
  refuse_nonfinite(tensor, bad, options);
  const float* values = matrix->data();
  return {gather.d_out, gather.d_in, values, std::move(matrix)};
}

}  // namespace

WeightMatrix materialise_matrix(const io::StoredTensor& tensor, const Gather& gather,
                                const MaterialiseOptions& options) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % alignof(float) == 0;
  if (tensor.dtype == DType::f32 && gather.identity() && aligned) return borrowed(tensor, gather, options);
  return options.packed ? packed(tensor, gather, options) : expanded(tensor, gather, options);
}

WeightVector materialise_vector(const io::StoredTensor& tensor, const Gather& gather, double plus,
                                const MaterialiseOptions& options) {
  std::vector<double> values = gather_vector(tensor, gather);
  refuse_nonfinite(tensor, std::count_if(values.begin(), values.end(), [](double v) { return !std::isfinite(v); }),
                   options);
  for (double& value : values) value += plus;
  return WeightVector(std::move(values));
}

}  // namespace kirchhoff
