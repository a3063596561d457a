#include "model/rotary.h"

#include <cmath>    // for pow
#include <numbers>  // for pi

#include "model/support.h"

namespace kirchhoff {
namespace {

TEST(Rotary, PlainFrequencies) {
  const RotaryTable table = plain_rotary(10000.0, 8);
  ASSERT_EQ(table.inv_freq.size(), 4U);
  EXPECT_DOUBLE_EQ(table.inv_freq[0], 1.0);
  EXPECT_DOUBLE_EQ(table.inv_freq[1], 0.1);
  EXPECT_DOUBLE_EQ(table.inv_freq[2], 0.01);
  EXPECT_DOUBLE_EQ(table.inv_freq[3], 0.001);
}

TEST(Rotary, Llama3KeepsShortWavesAndStretchesLongOnes) {
  const double two_pi = 2.0 * std::numbers::pi;
  // Wavelengths 4, 16, 100 of a context of 32: below 32 / 4, between, above 32 / 1.
  RotaryTable table{{two_pi / 4.0, two_pi / 16.0, two_pi / 100.0}};
  scale_llama3(table, {.factor = 8.0, .low_freq_factor = 1.0, .high_freq_factor = 4.0, .original_context = 32.0});
  EXPECT_DOUBLE_EQ(table.inv_freq[0], two_pi / 4.0);
  const double keep = (32.0 / 16.0 - 1.0) / 3.0;
  EXPECT_NEAR(table.inv_freq[1], two_pi / 16.0 * (keep + (1.0 - keep) / 8.0), 1e-15);
  EXPECT_DOUBLE_EQ(table.inv_freq[2], two_pi / 800.0);
}

TEST(Rotary, LocalLayersHaveTheirOwnTable) {
  ModelConfig c;
  c.n_layers = 3;
  c.window_of_layer = {4, 0, 4};
  set_rotary(c, plain_rotary(1e6, 8), plain_rotary(1e4, 8));
  EXPECT_EQ(c.rotary_dim, 8);
  EXPECT_EQ(c.rotary_table_of_layer, (std::vector<Index>{1, 0, 1}));
}

TEST(Alibi, PowersOfTwo) {
  const std::vector<double> slopes = alibi_slopes(8);
  for (std::size_t h = 0; h < 8; ++h) EXPECT_DOUBLE_EQ(slopes[h], std::pow(2.0, -static_cast<double>(h + 1)));
  EXPECT_DOUBLE_EQ(alibi_slopes(16)[0], std::pow(2.0, -0.5));
  EXPECT_DOUBLE_EQ(alibi_slopes(2)[0], 0.0625);
}

TEST(Alibi, OtherCountsInterleaveTwoSequences) {
  // The paper's rule for 12 heads: the 8 slopes of 8 heads, then the 1st, 3rd, 5th, 7th of 16 heads.
  const std::vector<double> slopes = alibi_slopes(12);
  ASSERT_EQ(slopes.size(), 12U);
  EXPECT_DOUBLE_EQ(slopes[7], std::pow(2.0, -8.0));
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_DOUBLE_EQ(slopes[8 + i], std::pow(2.0, -0.5 * static_cast<double>(2 * i + 1)));
}

}  // namespace
}  // namespace kirchhoff
