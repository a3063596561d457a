#include "kirchhoff/kernels/branched_attention.h"

#include <memory>  // for make_unique
#include <string>  // for string

#include "kernels/testing.h"
#include "kirchhoff/kernels/attention.h"

namespace kirchhoff::kernels {
namespace {

struct Case {
  Index positions, heads, groups, d_head;
  bool causal = true;
  Index window = 0;
  double softcap = 0.0;
  bool alibi = false;

  std::string describe() const {
    return fmt::format("S {} H {} G {} d {} causal {} window {} cap {} alibi {}", positions, heads, groups, d_head,
                       causal, window, softcap, alibi);
  }
};

const Case kCases[] = {
    {1, 2, 1, 8},
    {5, 4, 2, 10},
    {16, 12, 12, 64},
    {40, 6, 3, 16},
    {130, 2, 1, 16},
    {90, 2, 2, 12, true, 7},
    {90, 2, 1, 12, true, 40, 1.5},
    {60, 3, 3, 16, true, 0, 0.0, true},
    {50, 2, 2, 16, false},
    {80, 2, 1, 16, false, 9, 0.0, true},
};

using Positions = std::vector<Index>;

Positions from_on(Index first, Index end) {
  Positions positions;
  for (Index s = first; s < end; ++s) positions.push_back(s);
  return positions;
}

Positions some_of(Index count, Random& random) {
  Positions positions;
  for (Index s = 0; s < count; ++s)
    if (random.uniform() < 0.4) positions.push_back(s);
  return positions;
}

/// Branches with random keys and queries at given positions.
struct Sweep {
  struct Rows {
    Positions queries, keys;
  };

  Sweep(const Case& c, const std::vector<Rows>& rows, Random& random)
      : settings(c), base_k({c.positions, c.groups, c.d_head}), base_v({c.positions, c.groups, c.d_head}) {
    for (const Rows& branch : rows) {
      branches.push_back({count(query_positions), count(branch.queries), count(key_positions), count(branch.keys)});
      query_positions.insert(query_positions.end(), branch.queries.begin(), branch.queries.end());
      key_positions.insert(key_positions.end(), branch.keys.begin(), branch.keys.end());
    }
    q = std::make_unique<Strided<float, 3>>(std::array{count(query_positions), c.heads, c.d_head});
    z = std::make_unique<Strided<float, 3>>(std::array{count(query_positions), c.heads, c.d_head});
    k = std::make_unique<Strided<float, 3>>(std::array{count(key_positions), c.groups, c.d_head});
    v = std::make_unique<Strided<float, 3>>(std::array{count(key_positions), c.groups, c.d_head});
    for (const auto& x : {base_k.view(), base_v.view(), q->view(), k->view(), v->view()}) fill_normal(x, random);
    for (Index h = 0; h < c.heads; ++h) slopes.push_back(0.5 / static_cast<double>(h + 1));
  }

  static Index count(const Positions& p) { return static_cast<Index>(p.size()); }

  template <class Real>
  BranchedAttentionProblem<Real> problem(View<const Real, 3> q_, View<const Real, 3> k_, View<const Real, 3> v_,
                                         View<Real, 3> z_, View<const Real, 3> base_k_,
                                         View<const Real, 3> base_v_) const {
    return {.q = q_,
            .k = k_,
            .v = v_,
            .z = z_,
            .base_k = base_k_,
            .base_v = base_v_,
            .query_positions = query_positions,
            .key_positions = key_positions,
            .branches = branches,
            .scale = 1.7 / std::sqrt(static_cast<double>(settings.d_head)),
            .softcap = settings.softcap,
            .window = settings.window,
            .causal = settings.causal,
            .slopes = settings.alibi ? slopes.data() : nullptr};
  }

  void run() const {
    const BranchedAttentionProblem<float> p =
        problem<float>(q->view(), k->view(), v->view(), z->view(), base_k.view(), base_v.view());
    attention(std::span(&p, 1));
  }

  /// The same by plain attention in double, on each branch's keys and values put together.
  TensorF64 expected() const {
    const Case& c = settings;
    TensorF64 out({count(query_positions), c.heads, c.d_head});
    for (const Branch& b : branches) {
      TensorF64 keys = widened(base_k.view()), values = widened(base_v.view());
      for (Index row = b.first_key; row < b.first_key + b.n_keys; ++row) {
        const Index s = key_positions[static_cast<std::size_t>(row)];
        for (Index g = 0; g < c.groups; ++g)
          for (Index i = 0; i < c.d_head; ++i) {
            keys.view<3>()(s, g, i) = double{k->view()(row, g, i)};
            values.view<3>()(s, g, i) = double{v->view()(row, g, i)};
          }
      }
      const TensorF64 queries = widened(q->view());
      for (Index row = b.first_query; row < b.first_query + b.n_queries; ++row)
        attention(AttentionProblem<double>{.q = queries.view<3>().rows(row, 1),
                                           .k = keys.view<3>(),
                                           .v = values.view<3>(),
                                           .z = out.view<3>().rows(row, 1),
                                           .first_query = query_positions[static_cast<std::size_t>(row)],
                                           .scale = 1.7 / std::sqrt(static_cast<double>(c.d_head)),
                                           .softcap = c.softcap,
                                           .window = c.window,
                                           .causal = c.causal,
                                           .slopes = c.alibi ? slopes.data() : nullptr});
    }
    return out;
  }

  Case settings;
  Strided<float, 3> base_k, base_v;
  std::unique_ptr<Strided<float, 3>> q, k, v, z;
  Positions query_positions, key_positions;
  std::vector<Branch> branches;
  std::vector<double> slopes;
};

/// Branches that own everything from a position on, and branches with holes anywhere.
std::vector<Sweep::Rows> rows_of(const Case& c, Random& random) {
  std::vector<Sweep::Rows> rows;
  for (Index p = 0; p < c.positions; p += 1 + c.positions / 9)
    rows.push_back({from_on(p, c.positions), from_on(p, c.positions)});
  for (int i = 0; i < 4; ++i) rows.push_back({some_of(c.positions, random), some_of(c.positions, random)});
  rows.push_back({{c.positions - 1}, from_on(c.positions / 2, c.positions)});
  rows.push_back({from_on(0, c.positions), {}});
  return rows;
}

TEST(BranchedAttention, EqualsAttentionOnKeysPutTogether) {
  Random random(1);
  for (const Case& c : kCases) {
    const Sweep sweep(c, rows_of(c, random), random);
    sweep.run();
    EXPECT_LT(distance(sweep.z->view(), sweep.expected()), 2e-6) << c.describe();
  }
}

TEST(BranchedAttention, TwinEqualsAttentionOnKeysPutTogether) {
  Random random(2);
  for (const Case& c : kCases) {
    const Sweep s(c, rows_of(c, random), random);
    const TensorF64 q = widened(s.q->view()), k = widened(s.k->view()), v = widened(s.v->view()),
                    base_k = widened(s.base_k.view()), base_v = widened(s.base_v.view());
    TensorF64 z(q.shape());
    const BranchedAttentionProblem<double> p =
        s.problem<double>(q.view<3>(), k.view<3>(), v.view<3>(), z.view<3>(), base_k.view<3>(), base_v.view<3>());
    attention(std::span(&p, 1));
    const TensorF64 want = s.expected();
    for (Index i = 0; i < z.size(); ++i) EXPECT_EQ(z[i], want[i]) << c.describe();
  }
}

TEST(BranchedAttention, ThreadsChangeNoBit) {
  Random random(3);
  for (const Case& c : kCases) {
    const Sweep sweep(c, rows_of(c, random), random);
    std::vector<std::uint32_t> first;
    for (const Index threads : {1, 2, 3}) {
      const Threads scope(threads);
      for_each_element([](float& x) { x = -1.0F; }, sweep.z->view());
      sweep.run();
      if (threads == 1) first = bits(sweep.z->view());
      EXPECT_EQ(bits(sweep.z->view()), first) << c.describe() << " threads " << threads;
    }
  }
}

TEST(BranchedAttention, KeysBeyondTheWindowAreNotRead) {
  Random random(4);
  const Sweep sweep({6, 1, 1, 8, true, 2}, {{{5}, {0, 1}}, {{4}, {4}}}, random);
  sweep.run();  // the first branch's own keys lie before its window, so it reads the base's alone
  EXPECT_LT(distance(sweep.z->view(), sweep.expected()), 2e-6);
}

}  // namespace
}  // namespace kirchhoff::kernels
