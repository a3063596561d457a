#include "kirchhoff/kernels/attention.h"

#include "kernels/attention_case.h"
#include "kernels/testing.h"
#include "kirchhoff/kernels/reference.h"

namespace kirchhoff::kernels {
namespace {

using Case = AttentionCase;

/// A random problem in both precisions, with outputs.
struct Both {
  Both(const Case& c, Random& random)
      : q({c.queries, c.heads, c.d_head}),
        k({c.keys, c.groups, c.d_head}),
        v({c.keys, c.groups, c.d_head}),
        z({c.queries, c.heads, c.d_head}),
        scores({c.heads, c.queries, c.keys}),
        pattern({c.heads, c.queries, c.keys}),
        z64({c.queries, c.heads, c.d_head}),
        scores64({c.heads, c.queries, c.keys}),
        pattern64({c.heads, c.queries, c.keys}) {
    for (const auto& x : {q.view(), k.view(), v.view()}) fill_normal(x, random);
    for (Index h = 0; h < c.heads; ++h) slopes.push_back(0.5 / static_cast<double>(h + 1));
    q64 = widened(q.view()), k64 = widened(k.view()), v64 = widened(v.view());
    fast = {.q = q,
            .k = k,
            .v = v,
            .z = z,
            .first_query = c.keys - c.queries,
            .scale = 1.7 / std::sqrt(static_cast<double>(c.d_head)),
            .softcap = c.softcap,
            .window = c.window,
            .causal = c.causal,
            .slopes = c.alibi ? slopes.data() : nullptr,
            .scores = scores,
            .pattern = pattern};
    twin = {.q = q64.view<3>(),
            .k = k64.view<3>(),
            .v = v64.view<3>(),
            .z = z64.view<3>(),
            .first_query = fast.first_query,
            .scale = fast.scale,
            .softcap = fast.softcap,
            .window = fast.window,
            .causal = fast.causal,
            .slopes = fast.slopes,
            .scores = scores64.view<3>(),
            .pattern = pattern64.view<3>()};
  }

  Strided<float, 3> q, k, v, z, scores, pattern;
  TensorF64 q64, k64, v64, z64, scores64, pattern64;
  std::vector<double> slopes;
  AttentionProblem<float> fast;
  AttentionProblem<double> twin;
};

const Case kCases[] = {
    {1, 1, 1, 1, 4},
    {1, 1, 6, 2, 10},
    {1, 40, 6, 2, 12},
    {1, 300, 4, 4, 64},
    {1, 300, 8, 1, 80, true, 7},
    {5, 5, 2, 2, 10},
    {7, 7, 3, 1, 12},
    {16, 16, 4, 2, 64},
    {33, 50, 2, 1, 10},
    {64, 64, 2, 2, 80},
    {65, 65, 2, 1, 12},
    {130, 130, 3, 3, 16},
    {70, 200, 2, 2, 64},
    {50, 50, 2, 2, 16, true, 1},
    {130, 130, 2, 1, 10, true, 5},
    {100, 150, 2, 2, 16, true, 64},
    {40, 40, 2, 2, 12, false},
    {100, 100, 2, 2, 10, false, 9},
    {130, 130, 2, 1, 16, true, 0, 2.0},
    {1, 60, 4, 2, 16, true, 0, 2.0},
    {130, 130, 3, 3, 16, true, 0, 0.0, true},
    {1, 60, 4, 2, 16, true, 0, 0.0, true},
    {90, 120, 4, 2, 16, true, 20, 1.5, true},
    {90, 90, 4, 2, 16, false, 0, 1.5, true},
};

TEST(Attention, MatchesTheTwin) {
  Random random(1);
  for (const Case& c : kCases) {
    Both both(c, random);
    attention(both.fast);
    attention(both.twin);
    EXPECT_LT(distance(both.z.view(), both.z64), 2e-6) << c.describe();
    EXPECT_LT(distance(both.scores.view(), both.scores64), 2e-6) << c.describe();
    EXPECT_LT(distance(both.pattern.view(), both.pattern64), 2e-6) << c.describe();
  }
}

// framework-math 22.7: the softmax is over keys.
TEST(Attention, PatternRowsSumToOneAndMakeZ) {
  Random random(2);
  Both both({70, 90, 4, 2, 16, true, 30, 1.5, true}, random);
  attention(both.fast);
  for (Index h = 0; h < 4; ++h)
    for (Index t = 0; t < 70; ++t) {
      double sum = 0;
      for (Index s = 0; s < 90; ++s) sum += double{both.pattern.view()(h, t, s)};
      EXPECT_NEAR(sum, 1.0, 1e-6);
      for (Index i = 0; i < 16; ++i) {
        double z = 0;
        for (Index s = 0; s < 90; ++s) z += double{both.pattern.view()(h, t, s)} * double{both.v.view()(s, h / 2, i)};
        EXPECT_NEAR(both.z.view()(t, h, i), z, 2e-6);
      }
    }
}

TEST(Attention, RecordingChangesNoBitAndThreadsNeither) {
  Random random(3);
  for (const Case& c : kCases) {
    Both both(c, random);
    const Threads two(2);
    attention(both.fast);
    const auto recorded = bits(both.z.view());
    AttentionProblem<float> plain = both.fast;
    plain.scores = {};
    plain.pattern = {};
    for (const Index threads : {1, 2, 3}) {
      const Threads scope(threads);
      for_each_element([](float& v) { v = -1.0F; }, both.z.view());
      attention(plain);
      EXPECT_EQ(bits(both.z.view()), recorded) << c.describe() << " threads " << threads;
    }
  }
}

TEST(Attention, BatchEqualsSingles) {
  Random random(4);
  Both a({20, 20, 2, 1, 16}, random), b({1, 50, 2, 1, 16}, random), c({130, 130, 2, 1, 16}, random);
  attention(a.fast);
  attention(b.fast);
  attention(c.fast);
  const auto za = bits(a.z.view()), zb = bits(b.z.view()), zc = bits(c.z.view());
  for (Both* both : {&a, &b, &c}) for_each_element([](float& v) { v = -1.0F; }, both->z.view());
  const AttentionProblem<float> batch[] = {a.fast, b.fast, c.fast};
  attention(batch);
  EXPECT_EQ(bits(a.z.view()), za);
  EXPECT_EQ(bits(b.z.view()), zb);
  EXPECT_EQ(bits(c.z.view()), zc);
}

// framework-math 22.7: what is hidden is -inf before the softmax, not 0.
TEST(Attention, MasksByDefinition) {
  // Position p = t + 2 of 6 keys. Visible: causal s <= p; window 3: s > p - 3; both sided: s < p + 3.
  struct Expectation {
    bool causal;
    Index window;
    std::vector<std::string> rows;  // per query, a letter per key: x seen, . hidden
  };
  const Expectation expectations[] = {
      {true, 0, {"xxx...", "xxxx..", "xxxxx.", "xxxxxx"}},  {true, 3, {"xxx...", ".xxx..", "..xxx.", "...xxx"}},
      {true, 1, {"..x...", "...x..", "....x.", ".....x"}},  {false, 0, {"xxxxxx", "xxxxxx", "xxxxxx", "xxxxxx"}},
      {false, 3, {"xxxxx.", ".xxxxx", "..xxxx", "...xxx"}},
  };
  Random random(5);
  for (const Expectation& want : expectations) {
    Both both({4, 6, 1, 1, 8, want.causal, want.window}, random);
    attention(both.fast);
    attention(both.twin);
    for (Index t = 0; t < 4; ++t) {
      std::string fast, twin;
      for (Index s = 0; s < 6; ++s) {
        fast += std::isinf(both.scores.view()(0, t, s)) ? '.' : 'x';
        twin += both.pattern64.view<3>()(0, t, s) == 0.0 ? '.' : 'x';
      }
      EXPECT_EQ(fast, want.rows[static_cast<std::size_t>(t)]) << "window " << want.window;
      EXPECT_EQ(twin, want.rows[static_cast<std::size_t>(t)]) << "window " << want.window;
    }
  }
}

TEST(Attention, QueryThatSeesNothingIsZero) {
  Random random(6);
  // Queries at positions -2 ... 1 of 2 keys: the first two see nothing.
  Both both({4, 2, 2, 2, 8}, random);
  attention(both.fast);
  attention(both.twin);
  for (Index t = 0; t < 2; ++t)
    for (Index h = 0; h < 2; ++h)
      for (Index i = 0; i < 8; ++i) EXPECT_EQ(both.z.view()(t, h, i), 0.0F);
  EXPECT_LT(distance(both.z.view(), both.z64), 2e-6);
  EXPECT_EQ(distance(both.pattern.view(), both.pattern64) < 2e-6, true);
}

TEST(Attention, HandWorked) {
  // One query at position 1, two keys: scores 0 and ln 3, so weights 1/4 and 3/4.
  const float q[] = {1, 0}, k[] = {0, 9, std::log(3.0F), 9}, v[] = {4, 0, 0, 8};
  float z[2], pattern[2];
  attention({.q = View<const float, 3>(q, {1, 1, 2}),
             .k = View<const float, 3>(k, {2, 1, 2}),
             .v = View<const float, 3>(v, {2, 1, 2}),
             .z = View<float, 3>(z, {1, 1, 2}),
             .first_query = 1,
             .pattern = View<float, 3>(pattern, {1, 1, 2})});
  EXPECT_FLOAT_EQ(pattern[0], 0.25F);
  EXPECT_FLOAT_EQ(pattern[1], 0.75F);
  EXPECT_FLOAT_EQ(z[0], 1.0F);
  EXPECT_FLOAT_EQ(z[1], 6.0F);
}

}  // namespace
}  // namespace kirchhoff::kernels
