#include "kirchhoff/kernels/attention_backward.h"

#include "kernels/attention_case.h"
#include "kernels/testing.h"
#include "kirchhoff/kernels/attention.h"

namespace kirchhoff::kernels {
namespace {

using Case = AttentionCase;

/// sum over visible keys of a * b; hidden scores are -inf and count nothing.
double inner_finite(const TensorF64& a, const TensorF64& b) {
  double sum = 0;
  for (Index i = 0; i < a.size(); ++i) sum += std::isinf(a[i]) ? 0.0 : a[i] * b[i];
  return sum;
}

/// A problem in double: the function is sum(z * dz), plus the sums of scores and pattern times their seeds.
struct Twin {
  Twin(const Case& c_, Random& random, bool own_ = false)
      : c(c_),
        own(own_),
        q(normal_f64({c.queries, c.heads, c.d_head}, random)),
        k(normal_f64({c.keys, c.groups, c.d_head}, random)),
        v(normal_f64({c.keys, c.groups, c.d_head}, random)),
        dz(normal_f64({c.queries, c.heads, c.d_head}, random)),
        scores_seed(normal_f64({c.heads, c.queries, c.keys}, random)),
        pattern_seed(normal_f64({c.heads, c.queries, c.keys}, random)),
        z({c.queries, c.heads, c.d_head}),
        scores({c.heads, c.queries, c.keys}),
        pattern({c.heads, c.queries, c.keys}),
        dq({c.queries, c.heads, c.d_head}),
        dk({c.keys, own ? c.heads : c.groups, c.d_head}),
        dv({c.keys, own ? c.heads : c.groups, c.d_head}),
        dscores({c.heads, c.queries, c.keys}),
        dpattern({c.heads, c.queries, c.keys}) {
    for (Index h = 0; h < c.heads; ++h) slopes.push_back(0.5 / static_cast<double>(h + 1));
  }

  AttentionProblem<double> forward() {
    return {.q = q.view<3>(),
            .k = k.view<3>(),
            .v = v.view<3>(),
            .z = z.view<3>(),
            .first_query = c.keys - c.queries,
            .scale = 0.7,
            .softcap = c.softcap,
            .window = c.window,
            .causal = c.causal,
            .slopes = c.alibi ? slopes.data() : nullptr,
            .scores = scores.view<3>(),
            .pattern = pattern.view<3>()};
  }
  double value() {
    attention(forward());
    double sum = inner(z, dz);
    if (seeded) sum += inner_finite(scores, scores_seed) + inner(pattern, pattern_seed);
    return sum;
  }
  AttentionBackwardProblem<double> backward() {
    AttentionBackwardProblem<double> p{.q = q.view<3>(),
                                       .k = k.view<3>(),
                                       .v = v.view<3>(),
                                       .dz = dz.view<3>(),
                                       .dq = dq.view<3>(),
                                       .dk = dk.view<3>(),
                                       .dv = dv.view<3>(),
                                       .first_query = c.keys - c.queries,
                                       .scale = 0.7,
                                       .softcap = c.softcap,
                                       .window = c.window,
                                       .causal = c.causal,
                                       .slopes = c.alibi ? slopes.data() : nullptr,
                                       .dscores = dscores.view<3>(),
                                       .dpattern = dpattern.view<3>()};
    if (seeded) p.scores_seed = scores_seed.view<3>(), p.pattern_seed = pattern_seed.view<3>();
    return p;
  }

  Case c;
  bool own, seeded = true;
  TensorF64 q, k, v, dz, scores_seed, pattern_seed, z, scores, pattern, dq, dk, dv, dscores, dpattern;
  std::vector<double> slopes;
};

const Case kTiny[] = {
    {1, 1, 1, 1, 3},
    {4, 4, 2, 2, 3},
    {3, 5, 4, 2, 3},
    {5, 5, 2, 1, 3, true, 2},
    {5, 5, 2, 1, 3, false, 2},
    {4, 4, 2, 2, 3, false},
    {4, 4, 2, 2, 3, true, 0, 1.5},
    {4, 4, 2, 2, 3, true, 0, 0.0, true},
    {4, 6, 4, 2, 3, true, 3, 1.2, true},
};

TEST(AttentionBackward, TwinIsTheDerivative) {
  Random random(1);
  for (const Case& c : kTiny) {
    Twin twin(c, random);
    attention_backward(twin.backward());
    const auto value = [&] { return twin.value(); };
    EXPECT_LT(gradient_error(twin.dv, twin.v, value), 1e-8) << c.describe();
    if (c.keys == 1) continue;  // one key: the pattern is 1 whatever q and k are; only the seed of the score counts
    EXPECT_LT(gradient_error(twin.dq, twin.q, value), 1e-8) << c.describe();
    EXPECT_LT(gradient_error(twin.dk, twin.k, value), 1e-8) << c.describe();
  }
}

TEST(AttentionBackward, HeadsOwnPartsAddUpToTheirGroups) {
  Random random(2), same(2);
  const Case c{4, 6, 4, 2, 3, true, 3, 1.2, true};
  Twin whole(c, random), parts(c, same, true);
  attention_backward(whole.backward());
  attention_backward(parts.backward());
  for (Index s = 0; s < c.keys; ++s)
    for (Index g = 0; g < 2; ++g)
      for (Index i = 0; i < 3; ++i) {
        EXPECT_NEAR(whole.dk.view<3>()(s, g, i), parts.dk.view<3>()(s, 2 * g, i) + parts.dk.view<3>()(s, 2 * g + 1, i),
                    1e-13);
        EXPECT_NEAR(whole.dv.view<3>()(s, g, i), parts.dv.view<3>()(s, 2 * g, i) + parts.dv.view<3>()(s, 2 * g + 1, i),
                    1e-13);
      }
}

// What hooks record: the gradients of z with respect to a pattern that is given, and to scores that are given.
TEST(AttentionBackward, HooksAreTheChainRule) {
  Random random(3);
  Twin twin({3, 4, 2, 1, 3}, random);
  twin.seeded = false;
  attention_backward(twin.backward());
  twin.value();
  for (Index h = 0; h < 2; ++h)
    for (Index t = 0; t < 3; ++t) {
      const auto z_of_scores = [&] {  // sum over keys of softmax(scores)(s) v(s).dz
        double total = 0, sum = 0;
        for (Index s = 0; s <= t + 1; ++s) {
          const double weight = std::exp(twin.scores.view<3>()(h, t, s));
          total += weight;
          for (Index i = 0; i < 3; ++i) sum += weight * twin.v.view<3>()(s, 0, i) * twin.dz.view<3>()(t, h, i);
        }
        return sum / total;
      };
      for (Index s = 0; s < 4; ++s) {
        double dpattern = 0, dscore = 0;
        if (s <= t + 1) {
          for (Index i = 0; i < 3; ++i) dpattern += twin.v.view<3>()(s, 0, i) * twin.dz.view<3>()(t, h, i);
          dscore = central_difference(twin.scores.view<3>()(h, t, s), z_of_scores);
        }
        EXPECT_NEAR(twin.dpattern.view<3>()(h, t, s), dpattern, 1e-13);
        EXPECT_NEAR(twin.dscores.view<3>()(h, t, s), dscore, 1e-8);
      }
    }
}

TEST(AttentionBackward, DetachedPatternReachesOnlyValues) {
  Random random(4), same(4);
  const Case c{5, 5, 2, 1, 3, true, 0, 1.2};
  Twin whole(c, random), detached(c, same);
  whole.seeded = detached.seeded = false;
  AttentionBackwardProblem<double> problem = detached.backward();
  problem.detach_pattern = true;
  attention_backward(problem);
  attention_backward(whole.backward());
  for (Index i = 0; i < whole.dv.size(); ++i) EXPECT_EQ(detached.dv[i], whole.dv[i]);
  for (Index i = 0; i < whole.dpattern.size(); ++i) EXPECT_EQ(detached.dpattern[i], whole.dpattern[i]);
  for (const TensorF64* gradient : {&detached.dq, &detached.dk, &detached.dscores})
    for (const double value : gradient->values()) EXPECT_EQ(value, 0.0);
}

/// The same problem in float32, strided as the engine's buffers are.
struct Fast {
  explicit Fast(Twin& twin)
      : c(twin.c),
        q({c.queries, c.heads, c.d_head}),
        k({c.keys, c.groups, c.d_head}),
        v({c.keys, c.groups, c.d_head}),
        dz({c.queries, c.heads, c.d_head}),
        dq({c.queries, c.heads, c.d_head}),
        dk({c.keys, twin.own ? c.heads : c.groups, c.d_head}),
        dv({c.keys, twin.own ? c.heads : c.groups, c.d_head}),
        dscores({c.heads, c.queries, c.keys}),
        dpattern({c.heads, c.queries, c.keys}),
        scores_seed({c.heads, c.queries, c.keys}),
        pattern_seed({c.heads, c.queries, c.keys}) {
    const auto round_both = [](const Strided<float, 3>& to, TensorF64& from) {
      for_each_element(
          [](float& f, double& d) {
            f = static_cast<float>(d);
            d = double{f};
          },
          to.view(), from.view<3>());
    };
    round_both(q, twin.q), round_both(k, twin.k), round_both(v, twin.v), round_both(dz, twin.dz);
    round_both(scores_seed, twin.scores_seed), round_both(pattern_seed, twin.pattern_seed);
    const AttentionBackwardProblem<double> p = twin.backward();
    problem = {.q = q,
               .k = k,
               .v = v,
               .dz = dz,
               .dq = dq,
               .dk = dk,
               .dv = dv,
               .first_query = p.first_query,
               .scale = p.scale,
               .softcap = p.softcap,
               .window = p.window,
               .causal = p.causal,
               .slopes = p.slopes,
               .dscores = dscores,
               .dpattern = dpattern};
    if (twin.seeded) problem.scores_seed = scores_seed, problem.pattern_seed = pattern_seed;
  }

  Case c;
  Strided<float, 3> q, k, v, dz, dq, dk, dv, dscores, dpattern, scores_seed, pattern_seed;
  AttentionBackwardProblem<float> problem;
};

const Case kCases[] = {
    {1, 1, 1, 1, 4},
    {1, 40, 6, 2, 12},
    {5, 5, 2, 2, 10},
    {33, 50, 2, 1, 10},
    {64, 64, 2, 2, 80},
    {65, 65, 2, 1, 12},
    {130, 130, 3, 3, 16},
    {50, 50, 2, 2, 16, true, 1},
    {130, 130, 2, 1, 10, true, 5},
    {100, 100, 2, 2, 10, false, 9},
    {40, 40, 2, 2, 12, false},
    {130, 130, 2, 1, 16, true, 0, 2.0},
    {130, 130, 3, 3, 16, true, 0, 0.0, true},
    {90, 120, 4, 2, 16, true, 20, 1.5, true},
    {70, 3, 2, 2, 8},
};

TEST(AttentionBackward, MatchesTheTwin) {
  Random random(5);
  for (const Case& c : kCases)
    for (const bool own : {false, true})
      for (const bool seeded : {false, true}) {
        Twin twin(c, random, own);
        twin.seeded = seeded;
        Fast fast(twin);
        attention_backward(fast.problem);
        attention_backward(twin.backward());
        const std::string what = c.describe() + (own ? " own" : "") + (seeded ? " seeded" : "");
        EXPECT_LT(distance(fast.dv.view(), twin.dv), 3e-6) << what;
        EXPECT_LT(distance(fast.dpattern.view(), twin.dpattern), 3e-6) << what;
        if (c.keys == 1 && !seeded) continue;  // exactly zero up to rounding
        EXPECT_LT(distance(fast.dq.view(), twin.dq), 5e-6) << what;
        EXPECT_LT(distance(fast.dk.view(), twin.dk), 5e-6) << what;
        EXPECT_LT(distance(fast.dscores.view(), twin.dscores), 3e-6) << what;
      }
}

TEST(AttentionBackward, DetachedMatchesTheTwin) {
  Random random(6);
  for (const bool hooks : {false, true}) {
    Twin twin({70, 90, 4, 2, 16, true, 30}, random);
    twin.seeded = false;
    Fast fast(twin);
    fast.problem.detach_pattern = true;
    if (!hooks) fast.problem.dscores = fast.problem.dpattern = {};
    attention_backward(fast.problem);
    AttentionBackwardProblem<double> problem = twin.backward();
    problem.detach_pattern = true;
    attention_backward(problem);
    EXPECT_LT(distance(fast.dv.view(), twin.dv), 3e-6);
    for_each_element([](float& v) { EXPECT_EQ(v, 0.0F); }, fast.dq.view());
    for_each_element([](float& v) { EXPECT_EQ(v, 0.0F); }, fast.dk.view());
    if (!hooks) continue;
    EXPECT_LT(distance(fast.dpattern.view(), twin.dpattern), 3e-6);
    for_each_element([](float& v) { EXPECT_EQ(v, 0.0F); }, fast.dscores.view());
  }
}

TEST(AttentionBackward, SameBitsForAnyThreadsAndHooksAndInABatch) {
  Random random(7);
  Twin first({130, 130, 4, 2, 16}, random), second({37, 37, 4, 2, 16}, random);
  first.seeded = second.seeded = false;
  Fast a(first), b(second);
  {
    const Threads one(1);
    attention_backward(a.problem);
    attention_backward(b.problem);
  }
  const auto all = [](const Fast& f) {
    std::vector<std::uint32_t> values = bits(f.dq.view());
    for (const auto& more : {bits(f.dk.view()), bits(f.dv.view())})
      values.insert(values.end(), more.begin(), more.end());
    return values;
  };
  const auto want_a = all(a), want_b = all(b);
  const Threads two(2);
  AttentionBackwardProblem<float> batch[] = {a.problem, b.problem};
  batch[0].dscores = batch[0].dpattern = {};
  attention_backward(batch);
  EXPECT_EQ(all(a), want_a);
  EXPECT_EQ(all(b), want_b);
}

}  // namespace
}  // namespace kirchhoff::kernels
