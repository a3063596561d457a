#include "kirchhoff/observe/prediction.h"

#include <gtest/gtest.h>

#include "engine/support.h"
#include "kirchhoff/engine/loss.h"

namespace kirchhoff {
namespace {

class PredictionTest : public test::EveryFamily {
 protected:
  void expect_same_as_one_run(Index length) const {
    ModelConfig wide = config();
    wide.n_ctx = 512;
    const Model m = random_model(wide, 1);
    const Tokens prompt = tokens(length);
    const Trace trace = run(m, prompt);
    const Prediction with = predict(m, prompt, true), without = predict(m, prompt, false);
    EXPECT_LE(test::relative_error(with.losses, token_losses(trace)), 1e-5);
    const auto last = trace.logits_of(0).row(length - 1);
    EXPECT_LE(test::relative_error(with.logits, last), 1e-5);
    EXPECT_LE(test::relative_error(without.logits, last), 1e-5);
    EXPECT_TRUE(without.losses.empty());
  }
};

TEST_P(PredictionTest, EqualsOneRun) {
  expect_same_as_one_run(1);
  expect_same_as_one_run(20);
}

/// Longer than a piece, and one token longer, where the last piece predicts nothing.
TEST_P(PredictionTest, InPiecesEqualsOneRun) {
  expect_same_as_one_run(300);
  expect_same_as_one_run(257);
}

KIRCHHOFF_EVERY_FAMILY(PredictionTest);

TEST(Prediction, RefusesWhatDoesNotFit) {
  const Model m = random_model(capability_shapes().front().config, 1);
  EXPECT_THROW(predict(m, {}, true), Error);
  EXPECT_THROW(predict(m, Tokens(static_cast<std::size_t>(m.config.n_ctx + 1), 1), true), Error);
}

}  // namespace
}  // namespace kirchhoff
