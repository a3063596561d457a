#include "kirchhoff/train/history.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "kirchhoff/base/error.h"

namespace kirchhoff::train {
namespace {

class HistoryFile : public testing::Test {
 protected:
  HistoryFile()
      : folder_(std::filesystem::path(testing::TempDir()) /
                (std::string("history_") + testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~HistoryFile() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return (folder_ / "history.jsonl").string(); }
  std::string content() const {
    std::ifstream file(path(), std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  void write(const std::string& text) const { std::ofstream(path(), std::ios::binary) << text; }
  std::string complaint() const {
    try {
      read_history(path());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::format);
      std::string message = error.what();
      const std::size_t at = message.find(path());
      return at == std::string::npos ? message : message.replace(at, path().size(), "FILE");
    }
    return "no error";
  }

 private:
  std::filesystem::path folder_;
};

Evaluation some_evaluation() {
  Evaluation evaluation{.windows = 64, .context = 256, .loss = {3.5, 0.25}, .by_position = {}};
  evaluation.by_position = {{.from = 1, .to = 2, .loss = 6.0}, {.from = 2, .to = 4, .loss = 0.1}};
  evaluation.icl = BandedIclScore{{16, 32}, {224, 256}, {-0.4, 0.01}, 4.0, 3.6, 64};
  evaluation.heads = {{0, 0, 0.125, 0.9, -0.5}, {0, 1, 0.0, 0.2, std::nullopt}, {1, 0, 0.75, 0.1, 1.0}};
  evaluation.task = TaskEvaluation{0.5, 0.96875, 1234};
  return evaluation;
}

const char kFirst[] =
    R"({"step":0,"tokens":0,"held_out":{"windows":64,"context":256,"loss":3.5,"error":0.25,)"
    R"("by_position":{"ends":[1,2,4],"loss":[6.0,0.1]},)"
    R"("icl":{"early":[16,32],"late":[224,256],"early_loss":4.0,"late_loss":3.6,"score":-0.4,"error":0.01},)"
    R"("task":{"loss":0.5,"accuracy":0.96875,"tokens":1234},)"
    R"("heads":{"prefix_matching":[[0.125,0.0],[0.75]],"previous_token":[[0.9,0.2],[0.1]],)"
    R"("copying":[[-0.5,null],[1.0]]}}})"
    "\n";
const char kSecond[] =
    R"({"step":10,"tokens":81920,"loss":5.25,"learning_rate":0.001,"gradient_norm":0.3333333333333333})"
    "\n";

TEST_F(HistoryFile, LinesHoldEveryNumber) {
  append_history(path(), {.step = 0, .tokens = 0, .evaluation = some_evaluation()});
  append_history(path(), {.step = 10, .tokens = 81920, .loss = 5.25, .learning_rate = 1e-3, .gradient_norm = 1.0 / 3});
  EXPECT_EQ(content(), std::string(kFirst) + kSecond);
  const History history = read_history(path());
  EXPECT_FALSE(history.unfinished);
  ASSERT_EQ(history.records.size(), 2U);
  EXPECT_FALSE(history.records[0].loss);
  EXPECT_EQ(history.records[1].gradient_norm, 1.0 / 3);
  EXPECT_FALSE(history.records[1].evaluation);
  const Evaluation& read = history.records[0].evaluation.value();
  EXPECT_EQ(read.loss.value, 3.5);
  EXPECT_EQ(read.by_position[1].to, 4);
  EXPECT_NEAR(read.by_position[0].slope, (0.1 - 6.0) / (0.5 * std::log(2.0) + 0.5 * std::log(3.0)), 1e-12);
  EXPECT_EQ(read.icl->late, (PositionBand{224, 256}));
  EXPECT_EQ(read.icl->score.value, -0.4);
  EXPECT_EQ(read.heads[2].layer, 1);
  EXPECT_EQ(read.heads[2].head, 0);
  EXPECT_EQ(read.heads[2].prefix_matching, 0.75);
  EXPECT_FALSE(read.heads[1].copying);
  EXPECT_EQ(read.task->tokens, 1234);
  // What was read is written with the same bytes.
  EXPECT_EQ(history_line(history.records[0]) + history_line(history.records[1]), content());
}

TEST_F(HistoryFile, ALineWithoutEndIsLeftOut) {
  write(std::string(kFirst) + R"({"step":10,"tok)");
  const History history = read_history(path());
  EXPECT_TRUE(history.unfinished);
  ASSERT_EQ(history.records.size(), 1U);
  write("");
  EXPECT_TRUE(read_history(path()).records.empty());
}

TEST_F(HistoryFile, ResumingRemovesWhatIsWrittenAgain) {
  truncate_history(path(), 5);
  EXPECT_FALSE(std::filesystem::exists(path()));
  const std::string third = R"({"step":20,"tokens":163840,"loss":5.0})"
                            "\n";
  const std::string all = std::string(kFirst) + kSecond + third;
  for (const auto& [step, kept] : std::vector<std::pair<Index, std::string>>{{25, all},
                                                                             {20, all},
                                                                             {19, std::string(kFirst) + kSecond},
                                                                             {10, std::string(kFirst) + kSecond},
                                                                             {0, kFirst}}) {
    write(all + R"({"step":30)");
    truncate_history(path(), step);
    EXPECT_EQ(content(), kept) << step;
  }
}

TEST_F(HistoryFile, ComplaintsNameTheLine) {
  const auto second = [&](const std::string& line) {
    write(std::string(kFirst) + line + "\n");
    return complaint();
  };
  EXPECT_EQ(second(R"({"step":1})"), "'FILE:2' has no 'tokens'");
  EXPECT_EQ(second(R"({"step":-1,"tokens":3})"),
            "'FILE:2': 'step' is -1, expected a whole number that is not negative");
  EXPECT_EQ(second(R"({"step":1,"tokens":3,"loss":"5"})"), "'FILE:2': 'loss' is string, expected a number");
  EXPECT_EQ(second(R"({"step":1,"tokens":3,"lost":5})"), "'FILE:2' has the unknown key 'lost'");
  EXPECT_EQ(second(R"({"step":0,"tokens":3})"), "'FILE:2': step 0 is not behind step 0 of the line before");
  EXPECT_EQ(second("[]"), "'FILE:2' is array, expected an object");
  EXPECT_NE(second(R"({"step":1,)").find("'FILE:2'"), std::string::npos);
  EXPECT_EQ(second(R"({"step":1,"tokens":3,"held_out":{"windows":1,"context":8,"loss":1,"error":0,)"
                   R"("by_position":{"ends":[1,2],"loss":[1,2]}}})"),
            "'FILE:2': 'held_out': 'by_position' has 2 losses between 2 ends");
  EXPECT_EQ(second(R"({"step":1,"tokens":3,"held_out":{"windows":1,"context":8,"loss":1,"error":0,)"
                   R"("by_position":{"ends":[],"loss":[]},)"
                   R"("heads":{"prefix_matching":[[1]],"previous_token":[[1,1]],"copying":[[1]]}}})"),
            "'FILE:2': 'held_out': 'heads': scores of 1, 2 and 1 heads in layer 0");
}

TEST_F(HistoryFile, OnlyFiniteNumbersAreWritten) {
  EXPECT_THROW(append_history(path(), {.step = 1, .tokens = 8, .loss = std::nan("")}), Error);
  EXPECT_FALSE(std::filesystem::exists(path()));
  EXPECT_THROW(append_history(path() + "/none/history.jsonl", {.step = 1, .tokens = 8}), Error);
  EXPECT_THROW(read_history(path()), Error);
}

}  // namespace
}  // namespace kirchhoff::train
