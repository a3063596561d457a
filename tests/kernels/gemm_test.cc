#include "kirchhoff/kernels/gemm.h"

#if defined(__unix__) || defined(__APPLE__)
#include <sys/time.h>  // for setitimer
#include <csignal>     // for sigaction
#endif

#include "kernels/testing.h"
#include "kirchhoff/kernels/reference.h"

namespace kirchhoff::kernels {
namespace {

/// How an operand lies in memory.
enum class Layout { rows, columns };

/// A random [m, n] matrix whose rows, or columns, are contiguous, with gaps.
class Operand {
 public:
  Operand(Index m, Index n, Layout layout, Random& random)
      : storage_(layout == Layout::rows ? std::array<Index, 2>{m, n} : std::array<Index, 2>{n, m}),
        view_(layout == Layout::rows ? storage_.view() : transposed(storage_.view())) {
    fill_normal(view_, random);
  }
  Matrix view() const { return view_; }

 private:
  Strided<float, 2> storage_;
  Matrix view_;
};

/// The largest error of c against the double product, in units of the sum of the products' magnitudes: what rounding is
/// proportional to.
double backward_error(const GemmProblem& g, ConstMatrix c_before) {
  double worst = 0;
  for (Index i = 0; i < g.c.dim[0]; ++i)
    for (Index j = 0; j < g.c.dim[1]; ++j) {
      double sum = g.bias == nullptr ? 0.0 : double{g.bias[j]}, size = std::abs(sum) + 1e-30;
      if (g.accumulate) sum += double{c_before(i, j)}, size += std::abs(double{c_before(i, j)});
      for (Index p = 0; p < g.a.dim[1]; ++p) {
        const double product = double{g.alpha} * double{g.a(i, p)} * double{g.b(p, j)};
        sum += product, size += std::abs(product);
      }
      const double error = std::abs(double{g.c(i, j)} - sum) / size;
      worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
    }
  return worst;
}

struct Case {
  Index m, n, k;
};
// Each path and its edges: one row, few rows, the 33rd row, more than one tile either way, one column, odd sizes.
const Case kCases[] = {{1, 1, 1},    {1, 7, 5},     {1, 130, 64},  {2, 3, 17},     {4, 96, 48},   {5, 97, 33},
                       {8, 40, 10},  {9, 64, 80},   {16, 50, 12},  {17, 101, 19},  {32, 33, 31},  {33, 33, 31},
                       {64, 64, 64}, {129, 30, 65}, {130, 400, 3}, {131, 385, 40}, {257, 1, 100}, {3, 200, 700}};

TEST(Gemm, MatchesDoubleForEveryLayoutAndOption) {
  Random random(1);
  for (const Case& shape : kCases)
    for (const Layout a_layout : {Layout::rows, Layout::columns})
      for (const Layout b_layout : {Layout::rows, Layout::columns})
        for (int option = 0; option < 4; ++option) {
          const Operand a(shape.m, shape.k, a_layout, random), b(shape.k, shape.n, b_layout, random);
          const Operand c(shape.m, shape.n, Layout::rows, random), bias(1, shape.n, Layout::rows, random);
          Tensor before({shape.m, shape.n});
          for_each_element([](float& to, const float& from) { to = from; }, before.view<2>(), c.view());
          const GemmProblem g = {.a = a.view(),
                                 .b = b.view(),
                                 .c = c.view(),
                                 .alpha = option % 2 == 0 ? 1.0F : -0.7F,
                                 .accumulate = option >= 2,
                                 .bias = option == 1 || option == 2 ? bias.view().data : nullptr};
          gemm(g);
          EXPECT_LT(backward_error(g, before.view<2>()), 4e-7)
              << "m " << shape.m << " n " << shape.n << " k " << shape.k << " option " << option << " A by "
              << (a_layout == Layout::rows ? "rows" : "columns") << " B by "
              << (b_layout == Layout::rows ? "rows" : "columns");
        }
}

TEST(Gemm, OverwritesWhatIsNotANumber) {
  Random random(2);
  for (const Index m : {1, 40}) {
    const Operand a(m, 8, Layout::rows, random), b(8, 20, Layout::columns, random);
    Strided<float, 2> c({m, 20});
    for_each_element([](float& v) { v = std::numeric_limits<float>::quiet_NaN(); }, c.view());
    gemm({.a = a.view(), .b = b.view(), .c = c});
    for_each_element([](const float& v) { EXPECT_FALSE(std::isnan(v)); }, c.view());
  }
}

TEST(Gemm, EmptySumIsTheBias) {
  const float bias[] = {1.5F, -2.0F, 0.25F};
  float c[] = {9, 9, 9, 9, 9, 9};
  gemm({.a = ConstMatrix(c, {2, 0}), .b = ConstMatrix(c, {0, 3}), .c = Matrix(c, {2, 3}), .bias = bias});
  EXPECT_EQ(std::vector<float>(c, c + 6), (std::vector<float>{1.5F, -2.0F, 0.25F, 1.5F, -2.0F, 0.25F}));
}

TEST(Gemm, HandWorked) {
  // [1 2; 3 4; 5 6] [7 8 9; 10 11 12]
  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {7, 8, 9, 10, 11, 12}, b_transposed[] = {7, 10, 8, 11, 9, 12};
  const std::vector<float> want = {27, 30, 33, 61, 68, 75, 95, 106, 117};
  std::vector<float> c(9);
  gemm({.a = ConstMatrix(a, {3, 2}), .b = ConstMatrix(b, {2, 3}), .c = Matrix(c.data(), {3, 3})});
  EXPECT_EQ(c, want);
  gemm(
      {.a = ConstMatrix(a, {3, 2}), .b = transposed(ConstMatrix(b_transposed, {3, 2})), .c = Matrix(c.data(), {3, 3})});
  EXPECT_EQ(c, want);
}

TEST(Gemm, SameBitsForAnyNumberOfThreads) {
  Random random(3);
  for (const Case& shape : {Case{300, 1000, 96}, Case{16, 1000, 96}, Case{1, 1000, 200}}) {
    const Operand a(shape.m, shape.k, Layout::rows, random), b(shape.k, shape.n, Layout::columns, random);
    std::vector<std::vector<std::uint32_t>> results;
    for (const Index threads : {1, 2, 5}) {
      const Threads scope(threads);
      Strided<float, 2> c({shape.m, shape.n});
      gemm({.a = a.view(), .b = b.view(), .c = c});
      results.push_back(bits(c.view()));
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
  }
}

TEST(Gemm, FewRowsAreIndependentOfEachOther) {
  Random random(4);
  const Operand a(32, 300, Layout::rows, random), b(300, 120, Layout::columns, random);
  Strided<float, 2> all({32, 120}), one({1, 120});
  gemm({.a = a.view(), .b = b.view(), .c = all});
  for (Index i = 0; i < 32; ++i) {
    gemm({.a = a.view().rows(i, 1), .b = b.view(), .c = one});
    EXPECT_EQ(bits(one.view()), bits(all.view().rows(i, 1))) << "row " << i;
  }
}

TEST(Gemm, SpanEqualsSingles) {
  Random random(5);
  const Operand x(50, 40, Layout::rows, random), y(3, 70, Layout::rows, random);
  const Operand w(40, 500, Layout::columns, random), u(70, 10, Layout::columns, random);
  Strided<float, 2> xw({50, 500}), yu({3, 10}), xw_alone({50, 500}), yu_alone({3, 10});
  const GemmProblem problems[] = {{.a = x.view(), .b = w.view(), .c = xw}, {.a = y.view(), .b = u.view(), .c = yu}};
  gemm(problems);
  gemm({.a = x.view(), .b = w.view(), .c = xw_alone});
  gemm({.a = y.view(), .b = u.view(), .c = yu_alone});
  EXPECT_EQ(bits(xw.view()), bits(xw_alone.view()));
  EXPECT_EQ(bits(yu.view()), bits(yu_alone.view()));
}

TEST(Gemm, TwinAgreesInDouble) {
  Random random(6);
  const Operand a(7, 9, Layout::rows, random), b(9, 5, Layout::columns, random), bias(1, 5, Layout::rows, random);
  Strided<float, 2> c({7, 5});
  gemm({.a = a.view(), .b = b.view(), .c = c, .alpha = 0.5F, .bias = bias.view().data});
  const TensorF64 a64 = widened(a.view()), bias64 = widened(bias.view()), b64 = widened(b.view());
  TensorF64 c64({7, 5}), product({7, 5});
  gemm({.a = a64.view<2>(), .b = b.view(), .c = c64.view<2>(), .alpha = 0.5, .bias = bias64.data()});
  EXPECT_LT(distance(c.view(), c64), 3e-7);
  reference::multiply(a64.view<2>(), b64.view<2>(), product.view<2>(), 0.5);
  for (Index i = 0; i < 7; ++i)
    for (Index j = 0; j < 5; ++j) EXPECT_DOUBLE_EQ(product.view<2>()(i, j) + bias64[j], c64.view<2>()(i, j));
}

#if defined(__unix__) || defined(__APPLE__)
volatile std::sig_atomic_t g_signals = 0;

extern "C" void count_signal(int) { g_signals = g_signals + 1; }

/// Signals at random moments of products, as long as it lives.
class Alarms {
 public:
  Alarms() {
    struct sigaction counting {};
    counting.sa_handler = count_signal;
    counting.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &counting, &before_);
    set(137);
  }
  ~Alarms() {
    set(0);
    sigaction(SIGALRM, &before_, nullptr);
  }
  Alarms(const Alarms&) = delete;
  Alarms& operator=(const Alarms&) = delete;

 private:
  static void set(int microseconds) {
    const itimerval every{{0, microseconds}, {0, microseconds}};
    setitimer(ITIMER_REAL, &every, nullptr);
  }
  struct sigaction before_ {};
};

/// oneDNN 2.6 alone is wrong in one of some thousand products here, or crashes (kernels/sgemm.h).
TEST(Gemm, SignalsChangeNothing) {
  Random random(7);
  const Operand a(85, 576, Layout::rows, random), b(576, 576, Layout::rows, random);
  Strided<float, 2> expected({85, 576}), c({85, 576});
  gemm({.a = a.view(), .b = b.view(), .c = expected.view()});
  const Alarms alarms;
  for (int i = 0; i < 2000; ++i) {
    gemm({.a = a.view(), .b = b.view(), .c = c.view()});
    ASSERT_EQ(bits(c.view()), bits(expected.view())) << i;
  }
  EXPECT_GT(g_signals, 0);
}
#endif

}  // namespace
}  // namespace kirchhoff::kernels
