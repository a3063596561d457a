#include "kirchhoff/kernels/embedding.h"

#include "kernels/testing.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::kernels {
namespace {

const std::vector<float> kTable = {1, 2, 3, 4, 5, 6};  // 3 tokens of 2

template <class Real>
void gathers_and_adds() {
  const std::vector<std::int32_t> ids = {2, 0};
  std::vector<Real> x(4);
  const View<Real, 2> view(x.data(), {2, 2});
  embed(ConstMatrix(kTable.data(), {3, 2}), ids, 0.5, view);
  EXPECT_EQ(x, (std::vector<Real>{2.5, 3, 0.5, 1}));
  add_rows(view, ConstMatrix(kTable.data(), {3, 2}).rows(1, 2));
  EXPECT_EQ(x, (std::vector<Real>{5.5, 7, 5.5, 7}));
  const std::vector<Real> bias = {1, -1};
  add_bias(view, bias.data());
  add_bias(view, static_cast<const Real*>(nullptr));
  EXPECT_EQ(x, (std::vector<Real>{6.5, 6, 6.5, 6}));
  const std::vector<Real> y = {1, 2, 3, 4};
  add(view, View<const Real, 2>(y.data(), {2, 2}));
  EXPECT_EQ(x, (std::vector<Real>{7.5, 8, 9.5, 10}));
}

TEST(Embedding, Float) { gathers_and_adds<float>(); }
TEST(Embedding, Double) { gathers_and_adds<double>(); }

template <class Real>
void scatters_and_sums() {
  const std::vector<Real> dout = {1, 2, 3, 4, 5, 6};  // 3 rows of 2; token 2 twice
  const View<const Real, 2> rows(dout.data(), {3, 2});
  const std::vector<std::int32_t> ids = {2, 0, 2};
  std::vector<Real> table = {1, 1, 1, 1, 1, 1}, sums = {10, 20};
  embed_backward(rows, ids, 0.5, View<Real, 2>(table.data(), {3, 2}));
  EXPECT_EQ(table, (std::vector<Real>{2.5, 3, 1, 1, 4, 5}));
  add_column_sums(rows, sums.data());
  add_column_sums(rows, static_cast<Real*>(nullptr));
  EXPECT_EQ(sums, (std::vector<Real>{19, 32}));
}

TEST(Embedding, BackwardFloat) { scatters_and_sums<float>(); }
TEST(Embedding, BackwardDouble) { scatters_and_sums<double>(); }

TEST(Embedding, RefusesTokensOutsideTheTable) {
  std::vector<float> x(2);
  for (const std::int32_t id : {-1, 3}) {
    try {
      embed(ConstMatrix(kTable.data(), {3, 2}), std::span(&id, 1), 1.0, Matrix(x.data(), {1, 2}));
      ADD_FAILURE() << "token " << id << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      EXPECT_NE(std::string(error.what()).find(std::to_string(id)), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace kirchhoff::kernels
