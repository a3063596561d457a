#include "kirchhoff/engine/kv_cache.h"

#include <gtest/gtest.h>

#include "engine/support.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff {
namespace {

using test::relative_error;

class Cached : public test::EveryFamily {};

TEST_P(Cached, EqualsUncachedHoweverThePromptIsCut) {
  if (!config().causal) GTEST_SKIP() << "earlier tokens see later ones";
  const Model m = model();
  const Tokens prompt = tokens(13);
  const Trace whole = run(m, prompt, {.capture = {"**"}});
  for (const std::vector<Index>& pieces :
       {std::vector<Index>{13}, {5, 1, 1, 6}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, {12, 1}}) {
    KvCache cache(config());
    for (const Index count : pieces) {
      const Index past = cache.length();
      const Tokens piece(prompt.begin() + past, prompt.begin() + past + count);
      const Trace part = run(m, piece, {.capture = {"blocks.2.attn.*"}, .cache = &cache});
      EXPECT_EQ(cache.length(), past + count);
      const auto logits = whole.logits_of(0).rows(past, count);
      EXPECT_LE(relative_error(part.logits.values(), std::span(&logits(0, 0), static_cast<std::size_t>(logits.size()))),
                1e-5);
      // the pattern of the new queries over all keys so far
      const auto pattern = part.at("blocks.2.attn.hook_pattern").view<4>().at(0);
      const auto want = whole.at("blocks.2.attn.hook_pattern").view<4>().at(0);
      ASSERT_EQ(pattern.dim[1], count);
      ASSERT_EQ(pattern.dim[2], past + count);
      for (Index h = 0; h < config().n_heads; ++h)
        for (Index t = 0; t < count; ++t)
          for (Index s = 0; s < past + count; ++s) ASSERT_NEAR(pattern(h, t, s), want(h, past + t, s), 1e-5);
      EXPECT_EQ(part.at("blocks.2.attn.hook_k").dim(1), count);
    }
  }
}

TEST_P(Cached, TruncatedCacheContinuesElsewhere) {
  if (!config().causal) GTEST_SKIP() << "earlier tokens see later ones";
  const Model m = model();
  KvCache cache(config());
  run(m, tokens(10, 3), {.logits = LogitPositions::none, .cache = &cache});
  cache.truncate(4);
  const Tokens other = tokens(5, 9);
  const Trace continued = run(m, other, {.logits = LogitPositions::last, .cache = &cache});
  Tokens whole = tokens(10, 3);
  whole.resize(4);
  whole.insert(whole.end(), other.begin(), other.end());
  EXPECT_LE(relative_error(continued.logits.values(), run(m, whole, {.logits = LogitPositions::last}).logits.values()),
            1e-5);
}

KIRCHHOFF_EVERY_FAMILY(Cached);

TEST(KvCacheErrors, AreNamed) {
  ModelConfig c = capability_shapes().front().config;
  c.n_ctx = 8;
  const Model m = random_model(c, 1);
  KvCache cache(c);
  const auto error_of = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of([&] { cache.truncate(1); }), "cannot keep 1 tokens of a key-value cache that holds 0");
  run(m, Tokens{1, 2, 3, 4, 5}, {.cache = &cache});
  EXPECT_EQ(error_of([&] {
              run(m, Tokens{1, 2, 3, 4}, {.cache = &cache});
            }),
            "the prompt has 9 tokens, the model's context holds 8");
  EXPECT_EQ(cache.length(), 5);
  EXPECT_EQ(error_of([&] {
              run(m, std::vector<Tokens>{{1}, {2}}, {.cache = &cache});
            }),
            "a key-value cache is one sequence's: the batch has 2");
  EXPECT_EQ(error_of([&] { run_f64(m, Tokens{1}, {.cache = &cache}); }),
            "a key-value cache holds float32: the double path takes none");
  ModelConfig other = c;
  other.n_layers = 1;
  KvCache foreign(other);
  EXPECT_EQ(error_of([&] { run(m, Tokens{1}, {.cache = &foreign}); }),
            "the key-value cache was made for another model");
}

TEST(KvCacheMemory, GrowsWithTheTokens) {
  const ModelConfig c = capability_shapes().front().config;
  KvCache cache(c);
  EXPECT_EQ(cache.bytes(), 0);
  cache.reserve(100);
  EXPECT_EQ(cache.bytes(), 2 * c.n_layers * 100 * c.n_kv_heads * c.d_head * 4);
}

}  // namespace
}  // namespace kirchhoff
