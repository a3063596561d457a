#include "kirchhoff/model/model.h"

#include <algorithm>  // for copy

namespace kirchhoff {

WeightMatrix::WeightMatrix(Index d_out, Index d_in, const float* data, std::shared_ptr<const void> owner)
    : d_out_(d_out), d_in_(d_in), data_(data), owner_(std::move(owner)) {}

WeightMatrix::WeightMatrix(Index d_out, Index d_in, Expand expand, Index packed_bytes)
    : d_out_(d_out), d_in_(d_in), expand_(std::move(expand)), packed_bytes_(packed_bytes) {}

ConstMatrix WeightMatrix::storage() const {
  check(!packed(), ErrorCode::internal, "a packed weight matrix has no float32 storage");
  return {data_, {d_out_, d_in_}};
}

void WeightMatrix::rows(Index begin, Index end, float* out) const {
  assert(begin >= 0 && begin <= end && end <= d_out_);
  if (packed()) {
    expand_(begin, end, out);
  } else {
    std::copy(data_ + begin * d_in_, data_ + end * d_in_, out);
  }
}

Index WeightMatrix::bytes() const {
  return packed() ? packed_bytes_ : d_out_ * d_in_ * static_cast<Index>(sizeof(float));
}

WeightVector::WeightVector(std::vector<double> values) : f64_(std::move(values)), f32_(f64_.begin(), f64_.end()) {}

}  // namespace kirchhoff
