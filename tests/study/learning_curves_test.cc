#include "kirchhoff/study/learning_curves.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "kirchhoff/base/error.h"

namespace kirchhoff {
namespace {

using train::Evaluation;
using train::History;
using train::HistoryRecord;

/// One evaluation: the ICL score, and the prefix matching of heads 0.0 and 1.0 (1.1 has half of it).
HistoryRecord record(Index step, double icl, double first, double second) {
  Evaluation evaluation{.windows = 1, .context = 64, .loss = {5.0 + icl, 0.0}, .by_position = {}};
  evaluation.icl = BandedIclScore{.early = {4, 8}, .late = {56, 64}, .score = {icl, 0.0}};
  evaluation.heads = {{0, 0, first, 0.9, {}}, {1, 0, second, 0.1, {}}, {1, 1, second / 2, 0.2, 0.5}};
  return {.step = step, .tokens = 100 * step, .loss = 5.0, .evaluation = evaluation};
}

/// The score falls from 0 to -0.4 along a logistic curve with its middle at step 500: half of it between
/// 500 -+ 40 ln 3 = 456 and 544. Head 1.0 rises with it, from 0.02 to 0.9.
History with_phase_change() {
  History history;
  for (Index step = 0; step <= 1000; step += 10) {
    const double share = 1.0 / (1.0 + std::exp(-(static_cast<double>(step) - 500.0) / 40.0));
    history.records.push_back(record(step, -0.4 * share, 0.05, 0.02 + 0.88 * share));
  }
  return history;
}

TEST(PhaseChange, IsWhereTheHeadForms) {
  const PhaseFinding phase = find_phase_change(with_phase_change());
  ASSERT_TRUE(phase.change) << phase.why_not;
  // The shortest stretch of tens that holds half of the rise: 450 .. 540 and 460 .. 550 do (it lies within 88 steps).
  EXPECT_EQ(phase.change->to_step - phase.change->from_step, 90);
  EXPECT_TRUE(phase.change->from_step == 450 || phase.change->from_step == 460);
  EXPECT_EQ(phase.change->to_tokens, 100 * phase.change->to_step);
  EXPECT_GE(phase.change->prefix_after - phase.change->prefix_before, 0.44);
  // Means of -0.4 / (1 + exp((500 - step) / 40)) over some 225 .. 455 and 545 .. 1000 (steps end there).
  EXPECT_NEAR(phase.change->before, -0.0220, 0.004);
  EXPECT_NEAR(phase.change->after, -0.3890, 0.004);
  // 0.02 + 0.88 s >= 0.4 where s >= 0.4318: behind step 500 - 40 ln(0.5682 / 0.4318) = 489.
  EXPECT_EQ(phase.change->head_step, 490);
  EXPECT_EQ(head_name(phase.change->layer, phase.change->head), "1.0");
}

TEST(PhaseChange, IsNotMovedByScoresThatJumpElsewhere) {
  History history = with_phase_change();
  history.records[2].evaluation->icl->score.value = -0.3;  // step 20
  history.records[3].evaluation->icl->score.value = 0.3;
  const PhaseFinding phase = find_phase_change(history), plain = find_phase_change(with_phase_change());
  ASSERT_TRUE(phase.change);
  EXPECT_EQ(phase.change->from_step, plain.change->from_step);
  EXPECT_EQ(phase.change->before, plain.change->before);
}

TEST(PhaseChange, NeedsAFallAndAHead) {
  History flat = with_phase_change(), headless = flat, born = flat, rising = flat, few;
  for (HistoryRecord& at : flat.records) at.evaluation->icl->score.value *= 0.13;  // 0.13 * 0.367 = 0.048
  EXPECT_NE(find_phase_change(flat).why_not.find("a fall of 0.05 nats is needed"), std::string::npos);
  for (HistoryRecord& at : rising.records) at.evaluation->icl->score.value *= -1.0;
  EXPECT_FALSE(find_phase_change(rising).change);
  for (HistoryRecord& at : headless.records)
    for (train::HeadEvaluation& head : at.evaluation->heads) head.prefix_matching *= 0.4;
  EXPECT_EQ(find_phase_change(headless).why_not, "no head's prefix matching rises to 0.4 (the highest: 0.36)");
  born.records.front().evaluation->heads[0].prefix_matching = 0.5;
  EXPECT_EQ(find_phase_change(born).why_not, "a head's prefix matching is 0.50 from the first evaluation on");
  few.records = {record(0, 0.0, 0.0, 0.0), record(1, -0.4, 0.0, 0.9)};
  EXPECT_EQ(find_phase_change(few).why_not, "in-context learning and heads were measured 2 times, three are needed");
}

class TrainingFolders : public testing::Test {
 protected:
  TrainingFolders() {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  ~TrainingFolders() override { std::filesystem::remove_all(root_); }

  /// `shift` is added to the scores.
  std::string run(const std::string& name, const std::string& config, Index records, double shift) const {
    const std::filesystem::path folder = root_ / name;
    std::filesystem::create_directories(folder);
    if (!config.empty()) std::ofstream(folder / "training.json") << config;
    for (Index i = 0; i < records; ++i)
      train::append_history((folder / "history.jsonl").string(),
                            record(10 * i, -0.1 * static_cast<double>(i) + shift, 0.05 * static_cast<double>(i), 0.3));
    return folder.string();
  }

  std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) / ("learning_curves-" + std::to_string(::getpid()));
};

const char kSeed0[] = R"({"model": {"n_layers": 2}, "training": {"steps": 5, "seed": 0}, "command": "a"})";
const char kSeed7[] = R"({"model": {"n_layers": 2}, "training": {"steps": 5, "seed": 7}, "command": "b"})";
const char kOther[] = R"({"model": {"n_layers": 1}, "training": {"steps": 5, "seed": 7}})";

TEST_F(TrainingFolders, RunsThatDifferInTheSeedAreOneGroup) {
  std::vector<TrainingRun> runs;
  runs.push_back(read_training_run(run("two-layers-s0", kSeed0, 4, 0.0)));
  runs.push_back(read_training_run(run("one-layer", kOther, 4, 0.0)));
  runs.push_back(read_training_run(run("two-layers-s7", kSeed7, 3, 0.5) + "/"));
  runs.push_back(read_training_run(run("unknown", "", 4, 0.0) + "/history.jsonl"));
  runs.push_back(read_training_run(run("unknown2", "", 4, 0.0)));
  EXPECT_EQ(runs[2].name, "two-layers-s7");
  EXPECT_EQ(runs[2].seed, 7U);
  EXPECT_EQ(runs[3].name, "unknown");
  const std::vector<RunGroup> groups = group_runs(runs);
  ASSERT_EQ(groups.size(), 4U);
  EXPECT_EQ(groups[0].name, "two-layers");
  EXPECT_EQ(groups[0].runs, (std::vector<const TrainingRun*>{&runs[0], &runs[2]}));
  EXPECT_EQ(groups[1].name, "one-layer");
  EXPECT_EQ(groups[2].runs.size(), 1U);
  ASSERT_EQ(groups[0].points.size(), 3U) << "the steps that both have";
  const CurvePoint& last = groups[0].points.back();
  EXPECT_EQ(last.step, 20);
  EXPECT_EQ(last.tokens, 2000);
  EXPECT_NEAR(last.icl->mean, 0.05, 1e-15);
  EXPECT_NEAR(last.icl->low, -0.2, 1e-15);
  EXPECT_NEAR(last.icl->high, 0.3, 1e-15);
  EXPECT_NEAR(last.held_out->mean, 5.05, 1e-15);
  EXPECT_EQ(last.loss->low, 5.0);
  EXPECT_FALSE(last.accuracy);
  ASSERT_EQ(last.prefix_matching.size(), 2U);
  EXPECT_NEAR(last.prefix_matching[0].mean, 0.1, 1e-15);
  EXPECT_EQ(last.prefix_matching[1].mean, 0.3) << "the better of both heads";
  EXPECT_EQ(last.previous_token[1].high, 0.2);
}

TEST_F(TrainingFolders, JsonHasRunsPointsAndHeads) {
  const std::vector<TrainingRun> runs = {read_training_run(run("a-seed1", kSeed0, 3, 0.0)),
                                         read_training_run(run("a-seed2", kSeed7, 3, 0.1))};
  const std::vector<RunGroup> groups = group_runs(runs);
  const Json json = to_json(groups);
  EXPECT_EQ(json["runs"].size(), 2U);
  EXPECT_EQ(json["runs"][1]["group"], "a");
  EXPECT_EQ(json["runs"][1]["seed"], 7);
  EXPECT_EQ(json["runs"][1]["step"], 20);
  EXPECT_TRUE(json["runs"][1]["phase_change"].is_null());
  EXPECT_FALSE(json["runs"][1]["no_phase_change"].is_null());
  EXPECT_EQ(json["points"].size(), 3U);
  EXPECT_NEAR(json["points"][2]["icl"]["high"].get<double>(), -0.1, 1e-15);
  EXPECT_EQ(json["points"][2]["prefix_matching"]["1"]["mean"], 0.3);
  EXPECT_TRUE(json["points"][2]["accuracy"].is_null());
  EXPECT_EQ(json["heads"].size(), 18U);
  EXPECT_EQ(json["heads"][17]["run"], "a-seed2");
  EXPECT_EQ(json["heads"][17]["head"], "1.1");
  EXPECT_EQ(json["heads"][17]["copying"], 0.5);
  EXPECT_TRUE(json["heads"][16]["copying"].is_null());
}

TEST_F(TrainingFolders, WhatIsNoTrainingIsRefused) {
  try {
    read_training_run(root_.string());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_NE(std::string(error.what()).find("history.jsonl"), std::string::npos);
  }
}

}  // namespace
}  // namespace kirchhoff
