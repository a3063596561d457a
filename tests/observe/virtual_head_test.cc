#include "kirchhoff/observe/virtual_head.h"

#include <gtest/gtest.h>

#include <algorithm>  // for equal

#include "engine/support.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/observe/paths.h"

namespace kirchhoff {
namespace {

using Heads = std::vector<std::pair<Index, Index>>;

class VirtualHeadOf : public test::EveryFamily {};

/// The sum of all paths whose last heads are these, from a full expansion.
double sum_of_paths(const PathExpansion& expansion, const Heads& heads) {
  double sum = 0.0;
  for (const StreamPath& path : expansion.paths) {
    if (path.nodes.size() < heads.size()) continue;
    bool ends = true;
    for (std::size_t i = 0; i < heads.size(); ++i)
      ends = ends && path.nodes[path.nodes.size() - heads.size() + i] ==
                         fmt::format("a{}.h{}", heads[i].first, heads[i].second);
    if (ends) sum += path.value;
  }
  return sum;
}

TEST_P(VirtualHeadOf, IsTheSumOfItsPathsInDouble) {
  const Model m = model();
  const TraceF64 trace = run_f64(m, tokens(5), {.capture = path_sites(config())});
  const LogitTarget target{7, {}, -1};
  const PathExpansion all = expand_paths(m, trace, target, {.order = 3, .top = 10000000});
  for (const Heads& heads :
       {Heads{{1, 0}}, Heads{{0, 1}, {1, 0}}, Heads{{1, 1}, {2, 0}}, Heads{{0, 0}, {1, 1}, {2, 1}}}) {
    const VirtualHeadRun found = virtual_head_run(m, trace, heads, target);
    EXPECT_NEAR(found.sum, sum_of_paths(all, heads), 1e-12 * std::max(1.0, std::abs(found.sum)));
    ASSERT_EQ(found.by_source.size(), 5U);
  }
}

TEST_P(VirtualHeadOf, PatternIsTheProductInTheOrderOfActing) {
  const Model m = model();
  const Trace trace = run(m, tokens(5), {.capture = path_sites(config())});
  const VirtualHeadRun found = virtual_head_run(m, trace, {{0, 1}, {2, 0}}, {7, {}, 3});
  const Tensor &first = trace.at(site_name(Site::pattern, 0)), &second = trace.at(site_name(Site::pattern, 2));
  for (Index query = 0; query < 5; ++query) {
    double row = 0.0;
    for (Index source = 0; source < 5; ++source) {
      double want = 0.0;
      for (Index mid = 0; mid < 5; ++mid)
        want += static_cast<double>(second[query * 5 + mid]) * static_cast<double>(first[(5 + mid) * 5 + source]);
      EXPECT_NEAR(found.pattern[query * 5 + source], want, 1e-12);
      row += want;
    }
    EXPECT_NEAR(row, 1.0, 1e-5);
  }
  EXPECT_EQ(found.target.pos, 3);
}

KIRCHHOFF_EVERY_FAMILY(VirtualHeadOf);

TEST(VirtualHead, ChainsThatDoNotExistAreRefused) {
  const ModelConfig config = capability_shapes().front().config;
  const Model m = random_model(config, 1);
  const Trace trace = run(m, Tokens{1, 2}, {.capture = path_sites(config)});
  for (const Heads& heads : {Heads{}, Heads{{1, 0}, {0, 0}}, Heads{{1, 0}, {1, 1}}, Heads{{0, 99}}})
    EXPECT_THROW(virtual_head_run(m, trace, heads, {1, {}, -1}), Error);
}

}  // namespace
}  // namespace kirchhoff
