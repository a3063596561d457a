#include "kirchhoff/observe/ov_logits.h"

#include <gtest/gtest.h>

#include <numeric>  // for accumulate

#include "engine/support.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/observe/attribution.h"
#include "observe/support.h"

namespace kirchhoff {
namespace {

class EveryFamilysLinks : public test::EveryFamily {};

/// Differences of tokens times the attention are the attribution by sources, which goes backwards from the unembedding.
TEST_P(EveryFamilysLinks, AreTheAttributionBySources) {
  const Model m = model();
  const Tokens prompt = tokens(6);
  const Index layer = m.config.n_layers - 1, head = m.config.n_heads - 1, pos = 4, key = 2;
  std::vector<std::string> sites = attribution_sites(m.config);
  for (const std::string& site : ov_logit_sites(m.config, layer)) sites.push_back(site);
  sites.push_back(site_name(Site::pattern, layer));
  const TraceF64 trace = run_f64(m, prompt, {.capture = sites});
  const std::vector<double> logits = ov_logits(m, trace, {layer, head, pos, key});
  ASSERT_EQ(static_cast<Index>(logits.size()), m.config.d_vocab_out);
  EXPECT_NEAR(std::accumulate(logits.begin(), logits.end(), 0.0), 0.0, 1e-11);
  const double attention = trace.at(site_name(Site::pattern, layer)).view<4>().at(0)(head, pos, key);
  for (const auto& [token, foil] : {std::pair<TokenId, TokenId>{3, 11}, {40, 0}}) {
    const double expected =
        attribute_sources(m, trace, {.token = token, .foil = foil, .pos = pos}, layer, head)[std::size_t(key)];
    EXPECT_NEAR(attention * (logits[std::size_t(token)] - logits[std::size_t(foil)]), expected,
                1e-12 * (1.0 + std::abs(expected)));
  }
}

KIRCHHOFF_EVERY_FAMILY(EveryFamilysLinks);

TEST(OvLogits, PackedWeightsAreTheSame) {
  const Model model = test::load_golden("llama-gqa");
  const Trace trace = run(model, Tokens{5, 9, 2, 7}, {.capture = {"**"}});
  EXPECT_EQ(ov_logits(model, trace, {1, 1, 3, 1}), ov_logits(test::packed(model), trace, {1, 1, 3, 1}));
  EXPECT_THROW(ov_logits(model, trace, {model.config.n_layers, 0, 3, 1}), Error);
  EXPECT_THROW(ov_logits(model, trace, {0, 0, 3, 4}), Error);
}

}  // namespace
}  // namespace kirchhoff
