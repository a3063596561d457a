#include "engine/weight_reader.h"

#include "kirchhoff/base/parallel.h"

namespace kirchhoff::engine {
namespace {

/// Rows [begin, begin + count) of the storage, expanded in parallel.
void expand(const WeightMatrix& weight, Index begin, Index count, float* out) {
  constexpr Index kGrain = 64;  // rows a task: some 10^5 values, a fraction of a millisecond
  parallel_for_blocks(count, kGrain, [&](Index first, Index last) {
    weight.rows(begin + first, begin + last, out + first * weight.d_in());
  });
}

}  // namespace

std::vector<ConstMatrix> WeightReader::matrices(std::initializer_list<const WeightMatrix*> weights) {
  Index floats = 0;
  for (const WeightMatrix* w : weights)
    if (w->packed()) floats += w->d_out() * w->d_in();
  float* next = scratch(floats);
  std::vector<ConstMatrix> result;
  for (const WeightMatrix* w : weights) {
    if (!w->packed()) {
      result.push_back(w->matrix());
      continue;
    }
    expand(*w, 0, w->d_out(), next);
    result.push_back(transposed(ConstMatrix(next, {w->d_out(), w->d_in()})));
    next += w->d_out() * w->d_in();
  }
  return result;
}

ConstMatrix WeightReader::rows(const WeightMatrix& weight, Index begin, Index count) {
  if (!weight.packed()) return weight.storage().rows(begin, count);
  float* out = scratch(count * weight.d_in());
  expand(weight, begin, count, out);
  return {out, {count, weight.d_in()}};
}

float* WeightReader::scratch(Index floats) {
  if (scratch_.size() < floats) {
    scratch_ = {};  // the old buffer goes before the new one comes
    scratch_ = Tensor::uninitialised({floats});
  }
  return scratch_.data();
}

}  // namespace kirchhoff::engine
