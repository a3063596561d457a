// Losses of windows without their logits, against those of run().
#include "kirchhoff/engine/corpus_loss.h"

#include <gtest/gtest.h>

#include "engine/support.h"
#include "kirchhoff/engine/loss.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff {
namespace {

class EveryFamilysCorpusLoss : public test::EveryFamily {};

TEST_P(EveryFamilysCorpusLoss, IsTheLossOfEachRun) {
  const Model m = model();
  if (!config().causal) {
    const Tokens window = tokens(4);
    EXPECT_THROW(corpus_losses(m, std::span(&window, 1)), Error);
    return;
  }
  std::vector<Tokens> windows;
  for (const Index length : {8, 8, 8, 5}) windows.push_back(tokens(length, 10 + windows.size()));
  for (const Index memory : {Index{1}, Index{1} << 30}) {  // one window at a time; all of one length together
    const auto losses = corpus_losses(m, windows, {.memory = memory});
    ASSERT_EQ(losses.size(), windows.size());
    for (std::size_t w = 0; w < windows.size(); ++w)
      EXPECT_LE(test::relative_error(losses[w], token_losses(run(m, windows[w]))), 1e-5);
  }
  const TraceF64 exact = run_f64(m, windows[0], {.capture = {site_name(Site::unembed_in)}});
  EXPECT_LE(test::relative_error(unembed_losses(m, exact.at(site_name(Site::unembed_in)).view<3>().at(0).rows(0, 7),
                                                std::span(windows[0]).subspan(1)),
                                 token_losses(exact)),
            1e-13);
}

KIRCHHOFF_EVERY_FAMILY(EveryFamilysCorpusLoss);

// A vocabulary of several slices, the last one short, with targets at their edges.
TEST(CorpusLoss, SlicesOfTheVocabulary) {
  ModelConfig config = capability_shapes().front().config;
  config.d_vocab = config.d_vocab_out = 2 * 2048 + 17;
  const Model m = random_model(config, 3);
  const Tokens tokens = {0, 2047, 2048, 4095, 4096, 4112, 5};
  const auto losses = corpus_losses(m, std::span(&tokens, 1));
  EXPECT_LE(test::relative_error(losses.front(), token_losses(run(m, tokens))), 1e-6);
}

TEST(CorpusLoss, BatchesAreOfOneLengthAndFit) {
  const std::vector<Tokens> windows = {Tokens(4), Tokens(4), Tokens(4), Tokens(3)};
  EXPECT_EQ(batch_of(windows, 0, 10, 1000), 3);
  EXPECT_EQ(batch_of(windows, 0, 10, 85), 2);
  EXPECT_EQ(batch_of(windows, 0, 10, 1), 1);
  EXPECT_EQ(batch_of(windows, 2, 10, 1000), 1);
  EXPECT_EQ(batch_of(windows, 3, 10, 1000), 1);
}

TEST(CorpusLoss, SaysWhereThereIsNone) {
  ModelConfig config = capability_shapes().front().config;
  const auto code = [&] {
    try {
      check_predicts_next(config, "this");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(code(), "");
  config.d_vocab_out = config.d_vocab - 1;
  EXPECT_NE(code().find("this is not defined here, because the model predicts other tokens"), std::string::npos);
  config.causal = false;
  EXPECT_NE(code().find("because the model sees later tokens"), std::string::npos);
}

}  // namespace
}  // namespace kirchhoff
