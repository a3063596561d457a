#pragma once
#include <algorithm>  // for fill
#include <cstddef>    // for size_t
#include <memory>     // for unique_ptr
#include <string>     // for string
#include <vector>     // for vector

#include "kirchhoff/base/error.h"
#include "kirchhoff/tensor/view.h"

namespace kirchhoff {

/// Memory for an array, 64-byte aligned; large ones in huge pages where the system has them. Throws std::bad_alloc.
void* allocate_array(std::size_t bytes);
/// Gives back what `allocate_array` gave for so many bytes.
void free_array(void* memory, std::size_t bytes);
/// For programs that do the same work many times, as training does: from now on memory that is freed stays with the
/// process and is used again, instead of going back to the system, which would hand it out cleared, page by page (a
/// twentieth of a training step and more). Arrays of 256 KiB and more lie in huge pages of their own (a tenth to a
/// fifth of a step); those kept and those in use are together at most twice what was ever in use at once. For the whole
/// process; small memory only where the C library lets itself be told so (glibc).
void keep_freed_memory();

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
    std::size_t bytes = 0;
    void operator()(T* p) const { free_array(p, bytes); }
  };

  BasicTensor(Uninitialised, Shape shape, std::vector<std::string> axes)
      : shape_(std::move(shape)), axes_(std::move(axes)) {
    const std::size_t bytes = static_cast<std::size_t>(element_count(shape_)) * sizeof(T);
    data_ = {static_cast<T*>(allocate_array(bytes)), Free{bytes}};
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
