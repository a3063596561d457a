#pragma once
#include <gtest/gtest.h>

#include <cmath>   // for isnan, abs
#include <vector>  // for vector

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/base/random.h"
#include "kirchhoff/tensor/tensor.h"

/// What the kernels' tests share: random float32 data, the same data in double for the twin, and how far two results
/// are from each other.
namespace kirchhoff::kernels {

/// A view of rank R on memory of its own, with gaps after each row and a start that is not aligned, as slices of fused
/// buffers have them. Gaps hold NaN, so that reading one shows.
template <class Real, std::size_t R>
class Strided {
 public:
  explicit Strided(std::array<Index, R> dims, Index gap = 3) {
    std::array<Index, R> stride{};
    Index step = 1;
    for (std::size_t a = R; a-- > 0;) {
      stride[a] = step;
      step = dims[a] * step + (a == R - 1 ? gap : 0);
    }
    storage_.assign(static_cast<std::size_t>(step + 1), std::numeric_limits<Real>::quiet_NaN());
    view_ = View<Real, int{R}>(storage_.data() + 1, dims, stride);
  }

  View<Real, int{R}> view() const { return view_; }
  operator View<Real, int{R}>() const { return view_; }
  operator View<const Real, int{R}>() const { return view_; }

 private:
  std::vector<Real> storage_;
  View<Real, int{R}> view_;
};

/// Calls f(element of x, element of y, ...) for views of one shape.
template <class F, class T, class... More>
void for_each_element(F f, View<T, 1> x, View<More, 1>... more) {
  for (Index i = 0; i < x.dim[0]; ++i) f(x(i), more(i)...);
}
template <class F, class T, int R, class... More>
requires(R > 1) void for_each_element(F f, View<T, R> x, View<More, R>... more) {
  for (Index i = 0; i < x.dim[0]; ++i) for_each_element(f, x.at(i), more.at(i)...);
}

template <int R>
void fill_normal(View<float, R> x, Random& random, double scale = 1.0) {
  for_each_element([&](float& v) { v = static_cast<float>(scale * random.normal()); }, x);
}

/// The same values in double, contiguous.
template <class T, int R>
BasicTensor<double> widened(View<T, R> x) {
  BasicTensor<double> out(Shape(x.dim.begin(), x.dim.end()));
  for_each_element([](double& to, const T& from) { to = static_cast<double>(from); }, out.template view<R>(), x);
  return out;
}

/// The largest difference, relative to the largest magnitude of `want`. Infinities must agree; NaN is infinitely far.
template <int R>
double distance(View<const float, R> got, View<const double, R> want) {
  double largest = 0, worst = 0;
  for_each_element([&](const double& w) { largest = std::isinf(w) ? largest : std::max(largest, std::abs(w)); }, want);
  for_each_element(
      [&](const float& g, const double& w) {
        const double difference = double{g} == w ? 0.0 : std::abs(double{g} - w);
        worst = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(worst, difference);
      },
      got, want);
  return worst == 0 ? 0 : worst / largest;
}
template <int R>
double distance(View<float, R> got, const TensorF64& want) {
  return distance<R>(View<const float, R>(got), want.view<R>());
}

/// The central difference of `f` with respect to `x`, which f reads. Its error is of the order of h^2 of the third
/// derivative plus the rounding of f by h: some 1e-9 of values around 1.
template <class F>
double central_difference(double& x, const F& f, double h = 1e-5) {
  const double at = x;
  x = at + h;
  const double above = f();
  x = at - h;
  const double below = f();
  x = at;
  return (above - below) / (2.0 * h);
}

/// The largest difference between `gradient` and the central differences of f along every element of x, relative to
/// the largest of these.
template <class F>
double gradient_error(const TensorF64& gradient, TensorF64& x, const F& f) {
  double largest = 0, worst = 0;
  for (Index i = 0; i < x.size(); ++i) {
    const double want = central_difference(x[i], f);
    largest = std::max(largest, std::abs(want));
    const double error = std::abs(gradient[i] - want);
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
  }
  return worst == 0 ? 0 : worst / largest;
}

/// Random values in double.
inline TensorF64 normal_f64(Shape shape, Random& random, double scale = 1.0) {
  TensorF64 x(std::move(shape));
  for (double& v : x.values()) v = scale * random.normal();
  return x;
}

/// sum of a * b.
inline double inner(const TensorF64& a, const TensorF64& b) {
  double sum = 0;
  for (Index i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// The bits of all elements in order, to compare results exactly.
template <int R>
std::vector<std::uint32_t> bits(View<float, R> x) {
  std::vector<std::uint32_t> out;
  for_each_element([&](const float& v) { out.push_back(std::bit_cast<std::uint32_t>(v)); }, x);
  return out;
}

/// Sets the number of threads for a scope.
class Threads {
 public:
  explicit Threads(Index n) : before_(thread_count()) { set_thread_count(n); }
  ~Threads() { set_thread_count(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  Index before_;
};

}  // namespace kirchhoff::kernels
