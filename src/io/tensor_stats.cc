#include <algorithm>  // for min, max
#include <cmath>      // for isnan, isinf
#include <limits>     // for numeric_limits

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/io/checkpoint.h"
#include "kirchhoff/io/inspect.h"

namespace kirchhoff::io {
namespace {

struct Sums {
  double min = std::numeric_limits<double>::infinity(), max = -min, total = 0;
  Index finite = 0, nans = 0, infinities = 0;

  void add(double value) {
    if (std::isnan(value)) {
      ++nans;
    } else if (std::isinf(value)) {
      ++infinities;
    } else {
      min = std::min(min, value);
      max = std::max(max, value);
      total += value;
      ++finite;
    }
  }
  void add(const Sums& other) {
    min = std::min(min, other.min);
    max = std::max(max, other.max);
    total += other.total;
    finite += other.finite;
    nans += other.nans;
    infinities += other.infinities;
  }
};

/// Values [begin, end) of the tensor as one of its own.
StoredTensor slice(const StoredTensor& tensor, Index begin, Index end) {
  StoredTensor part = tensor;
  part.shape = {end - begin};
  part.bytes = tensor.bytes.subspan(static_cast<std::size_t>(stored_bytes(tensor.dtype, begin)),
                                    static_cast<std::size_t>(stored_bytes(tensor.dtype, end - begin)));
  return part;
}

}  // namespace

TensorStats tensor_stats(const StoredTensor& tensor) {
  constexpr Index kGrain = 1 << 16;  // a multiple of every block; summed in its order, so that threads do not show
  const Index count = element_count(tensor.shape);
  std::vector<Sums> parts(static_cast<std::size_t>((count + kGrain - 1) / kGrain));
  parallel_for_blocks(count, kGrain, [&](Index begin, Index end) {
    Sums& sums = parts[static_cast<std::size_t>(begin / kGrain)];
    const TensorF64 values = decode_f64(slice(tensor, begin, end));
    for (const double value : values.values()) sums.add(value);
  });
  Sums all;
  for (const Sums& part : parts) all.add(part);
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (all.finite == 0) return {kNone, kNone, kNone, all.nans, all.infinities};
  return {all.min, all.max, all.total / static_cast<double>(all.finite), all.nans, all.infinities};
}

}  // namespace kirchhoff::io
