#include "kirchhoff/model/model.h"

#include "model/support.h"

namespace kirchhoff {
namespace {

TEST(WeightMatrix, ExpandedBorrowsItsStorage) {
  auto values = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4, 5, 6});
  const WeightMatrix w(2, 3, values->data(), values);
  EXPECT_TRUE(w.present());
  EXPECT_FALSE(w.packed());
  EXPECT_EQ(w.bytes(), 24);
  EXPECT_EQ(w.storage()(1, 0), 4.0F);
  EXPECT_EQ(w.matrix()(2, 1), 6.0F);  // y = x W: row 2 of W is input 2
  float row[3];
  w.rows(1, 2, row);
  EXPECT_EQ(row[2], 6.0F);
}

TEST(WeightMatrix, PackedExpandsOnDemand) {
  const WeightMatrix w(
      4, 2,
      [](Index begin, Index end, float* out) {
        for (Index i = 2 * begin; i < 2 * end; ++i) *out++ = static_cast<float>(i);
      },
      5);
  EXPECT_TRUE(w.packed());
  EXPECT_EQ(w.bytes(), 5);
  EXPECT_EQ(test::values_of(w), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(test::error_of([&] { (void)w.matrix(); }).code(), ErrorCode::internal);
}

TEST(WeightMatrix, AbsentByDefault) { EXPECT_FALSE(WeightMatrix().present()); }

TEST(WeightVector, KeepsDoublesAndRoundsOnce) {
  const WeightVector v({1.0 + 1e-12, 0.1});
  EXPECT_EQ(v.f64()[0], 1.0 + 1e-12);
  EXPECT_EQ(v.f32()[1], 0.1F);
  EXPECT_EQ(WeightVector().f32_or_null(), nullptr);
  EXPECT_EQ(v.f64_or_null(), v.f64().data());
}

}  // namespace
}  // namespace kirchhoff
