#include "kirchhoff/study/tuned_lens_file.h"

#include <gtest/gtest.h>

#include <unistd.h>  // for getpid

#include <array>       // for array
#include <filesystem>  // for create_directories, remove_all, temp_directory_path

#include "engine/support.h"
#include "io/zip_writer.h"
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

/// What torch.save makes of a ModuleList's state_dict: an OrderedDict of tensors, here on one storage of 12 floats.
std::string pickled_state_dict() {
  const auto number = [](std::int32_t value) { return "J" + std::string(reinterpret_cast<const char*>(&value), 4); };
  const auto text = [](const std::string& value) {
    const auto length = static_cast<std::uint32_t>(value.size());
    return "X" + std::string(reinterpret_cast<const char*>(&length), 4) + value;
  };
  const auto tensor = [&](std::int32_t offset, const std::vector<std::int32_t>& shape) {
    std::string sizes = "(", strides = "(";
    for (const std::int32_t size : shape) sizes += number(size);
    for (std::size_t i = 0; i < shape.size(); ++i) strides += number(i + 1 == shape.size() ? 1 : shape.back());
    return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\nFloatStorage\n" + text("0") +
           text("cpu") + number(12) + "tQ" + number(offset) + sizes + "t" + strides + "t\x89}tR";
  };
  return "\x80\x02"
         "ccollections\nOrderedDict\n)R(" +
         text("0.weight") + tensor(0, {2, 2}) + text("0.bias") + tensor(4, {2}) + text("1.weight") + tensor(6, {2, 2}) +
         text("1.bias") + tensor(10, {2}) + "u.";
}

TEST_F(TunedLensFiles, ArePublicOnesToo) {
  std::filesystem::create_directories(directory_);
  std::array<float, 12> values;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  io::AtomicFile file(directory_ / "params.pt");
  io::ZipWriter zip(file);
  zip.add("params/data.pkl", pickled_state_dict(), {});
  zip.add("params/data/0", "", std::as_bytes(std::span(values)));
  zip.finish();
  file.commit();
  io::write_whole_file(directory_ / "config.json",
                       R"({"base_model_name_or_path": "gpt2", "d_model": 2, "num_hidden_layers": 2, "bias": true,)"
                       R"("base_model_revision": "e7da7f2", "unembed_hash": "1f4", "lens_type": "linear_tuned_lens"})");
  const TunedLens lens = read_tuned_lens(directory_);
  EXPECT_EQ(lens.model, "gpt2");
  ASSERT_EQ(lens.W.size(), 2U);
  EXPECT_EQ(std::vector<float>(lens.W[1].values().begin(), lens.W[1].values().end()), (std::vector<float>{6, 7, 8, 9}));
  EXPECT_EQ(std::vector<float>(lens.b[0].values().begin(), lens.b[0].values().end()), (std::vector<float>{4, 5}));
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
