#include "kirchhoff/study/tuned_lens_file.h"

#include <gtest/gtest.h>

#include <unistd.h>  // for getpid

#include <filesystem>  // for remove_all, temp_directory_path

#include "engine/support.h"
#include "kirchhoff/io/whole_file.h"
#include "kirchhoff/model/load.h"

namespace kirchhoff {
namespace {

class TunedLensFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() /
                 ("kirchhoff_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) +
                  std::to_string(::getpid()));
    model_ = load_model(KIRCHHOFF_TEST_DATA "/golden/llama-gqa");
    for (std::uint64_t i = 0; i < 6; ++i) windows_.push_back(test::random_tokens(8, model_.config.d_vocab, 50 + i));
    run_ = {{.steps = 6, .step_tokens = 16}, "weights", hash_windows(windows_)};
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path directory_;
  Model model_;
  std::vector<Tokens> windows_;
  TunedLensRun run_;
};

TEST_F(TunedLensFiles, AreReadAsTheyWereWritten) {
  TunedLensTrainer trainer(model_, windows_, run_.options);
  trainer.advance();
  TunedLens lens = zero_tuned_lens(model_.config);
  for (std::size_t l = 0; l < lens.W.size(); ++l) {
    lens.W[l] = trainer.lens().W[l].clone();
    lens.b[l] = trainer.lens().b[l].clone();
  }
  lens.model = "some/model";
  write_tuned_lens(directory_, lens);
  const TunedLens again = read_tuned_lens(directory_);
  EXPECT_EQ(again.model, "some/model");
  ASSERT_EQ(again.W.size(), lens.W.size());
  for (std::size_t l = 0; l < lens.W.size(); ++l) {
    EXPECT_TRUE(test::same_bits(again.W[l], lens.W[l]));
    EXPECT_TRUE(test::same_bits(again.b[l], lens.b[l]));
  }
}

TEST_F(TunedLensFiles, ATrainingGoesOnFromItsFileToTheSameBits) {
  TunedLensTrainer straight(model_, windows_, run_.options);
  while (!straight.done()) straight.advance();
  {
    TunedLensTrainer begun(model_, windows_, run_.options);
    begun.advance();
    begun.advance();
    write_training_state(directory_, begun, run_);
  }
  TunedLensTrainer resumed(model_, windows_, run_.options);
  ASSERT_TRUE(read_training_state(directory_, resumed, run_));
  EXPECT_EQ(resumed.step(), 2);
  while (!resumed.done()) resumed.advance();
  for (std::size_t l = 0; l < straight.lens().W.size(); ++l) {
    EXPECT_TRUE(test::same_bits(straight.lens().W[l], resumed.lens().W[l]));
    EXPECT_TRUE(test::same_bits(straight.lens().b[l], resumed.lens().b[l]));
  }
  TunedLensRun other = run_;
  other.options.weight_decay = 0.5;
  try {
    read_training_state(directory_, resumed, other);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_NE(std::string(error.what()).find("weight_decay = 0.001, not 0.5"), std::string::npos) << error.what();
  }
  other = run_;
  other.windows = hash_windows(std::span(windows_).first(3));
  EXPECT_THROW(read_training_state(directory_, resumed, other), Error);
  EXPECT_FALSE(read_training_state(directory_ / "nothing", resumed, run_));
}

TEST_F(TunedLensFiles, SayWhatIsWrong) {
  write_tuned_lens(directory_, zero_tuned_lens(model_.config));
  const auto message = [&](const std::string& config) {
    io::write_whole_file(directory_ / "config.json", config);
    try {
      read_tuned_lens(directory_);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(message("{}").find("'d_model'"), std::string::npos);
  EXPECT_NE(message(R"({"d_model": 7, "num_hidden_layers": 1})").find("expected [7, 7]"), std::string::npos);
  EXPECT_NE(message(fmt::format(R"({{"d_model": {}, "num_hidden_layers": 99}})", model_.config.d_model))
                .find("lacks the tensor"),
            std::string::npos);
  EXPECT_NE(message(R"({"d_model": 7, "num_hidden_layers": 1, "lens_type": "mlp"})").find("'mlp'"), std::string::npos);
  EXPECT_THROW(read_tuned_lens(directory_ / "nothing"), Error);
}

}  // namespace
}  // namespace kirchhoff
