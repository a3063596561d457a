#pragma once
#include <algorithm>  // for fill
#include <cstdlib>    // for free
#include <memory>     // for unique_ptr
#include <string>     // for string
#include <vector>     // for vector

#include "kirchhoff/base/error.h"
#include "kirchhoff/tensor/view.h"

namespace kirchhoff {

/// Memory for an array, 64-byte aligned; large ones in huge pages where the system has them. For std::free. Throws
/// std::bad_alloc.
void* allocate_array(std::size_t bytes);

/// Sizes of the axes, outermost first. Empty: a scalar.
using Shape = std::vector<Index>;

/// The number of elements of a shape.
inline Index element_count(const Shape& shape) {
  Index n = 1;
  for (Index d : shape) n *= d;
  return n;
}

/// Owns a contiguous row-major array, 64-byte aligned, with optional axis names ("batch", "pos", "d_model", ...).
/// Movable; copies are explicit (`clone`).
template <class T>
class BasicTensor {
 public:
  BasicTensor() = default;
  /// Zero-filled.
  explicit BasicTensor(Shape shape, std::vector<std::string> axes = {}) : BasicTensor(Uninitialised{}, shape, axes) {
    std::fill(data(), data() + size(), T{});
  }
  /// Contents undefined: for buffers that are written whole before they are read.
  static BasicTensor uninitialised(Shape shape, std::vector<std::string> axes = {}) {
    return BasicTensor(Uninitialised{}, std::move(shape), std::move(axes));
  }
  BasicTensor clone() const {
    BasicTensor copy(Uninitialised{}, shape_, axes_);
    std::copy(data(), data() + size(), copy.data());
    return copy;
  }

  const Shape& shape() const { return shape_; }
  const std::vector<std::string>& axes() const { return axes_; }
  Index dim(Index axis) const { return shape_.at(static_cast<std::size_t>(axis < 0 ? axis + rank() : axis)); }
  Index rank() const { return static_cast<Index>(shape_.size()); }
  Index size() const { return data_ ? element_count(shape_) : 0; }
  bool empty() const { return size() == 0; }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  T& operator[](Index i) { return data_.get()[i]; }
  const T& operator[](Index i) const { return data_.get()[i]; }
  std::span<T> values() { return {data(), static_cast<std::size_t>(size())}; }
  std::span<const T> values() const { return {data(), static_cast<std::size_t>(size())}; }

  /// The whole tensor as a view of rank R; fails if it has another rank.
  template <int R>
  View<T, R> view() {
    return {data(), dims<R>()};
  }
  template <int R>
  View<const T, R> view() const {
    return {data(), dims<R>()};
  }

 private:
  struct Uninitialised {};
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };

  BasicTensor(Uninitialised, Shape shape, std::vector<std::string> axes)
      : shape_(std::move(shape)), axes_(std::move(axes)) {
    data_.reset(static_cast<T*>(allocate_array(static_cast<std::size_t>(element_count(shape_)) * sizeof(T))));
  }

  template <int R>
  typename View<T, R>::Dims dims() const {
    check(rank() == R, ErrorCode::internal, "tensor {} viewed with rank {}", bracketed(shape_), R);
    typename View<T, R>::Dims d{};
    std::copy(shape_.begin(), shape_.end(), d.begin());
    return d;
  }

  Shape shape_;
  std::vector<std::string> axes_;
  std::unique_ptr<T, Free> data_;
};

using Tensor = BasicTensor<float>;
using TensorF64 = BasicTensor<double>;

}  // namespace kirchhoff
