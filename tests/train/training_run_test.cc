// A run in a directory. What only a process can show (kill, interrupts, exit statuses) is in tests/cli/test_train.py.
#include "kirchhoff/train/training_run.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "kirchhoff/base/error.h"
#include "kirchhoff/model/load.h"
#include "train/support.h"

namespace kirchhoff::train {
namespace {

using test::TemporaryFolder;

TrainingConfig task_config() {
  Json model = test::lens_config(1, 16);
  model.erase("n_ctx");
  model.erase("d_vocab");
  return parse_training_config({{"model", model},
                                {"task", {{"name", "copy"}, {"length", 4}, {"symbols", 5}}},
                                {"training",
                                 {{"steps", 12},
                                  {"batch", 4},
                                  {"warmup", 2},
                                  {"checkpoints", {{"every", 5}}},
                                  {"evaluations", {{"every", 3}}}}}},
                               "test");
}

TrainingSetup setup_in(const std::string& directory) {
  return {.config = task_config(), .data = {}, .directory = directory, .command = "kirchhoff train", .licence = ""};
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

ErrorCode code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::internal;
}

TEST(TrainingRun, StoppedAfterEveryStepIsTheSame) {
  const TemporaryFolder folder("run");
  const std::string whole = folder / "whole", stopped = folder / "stopped";
  begin_run(setup_in(whole));
  Index steps = 0;
  EXPECT_TRUE(
      TrainingRun(whole).run({.save_every = 100}, [&](const StepReport& report) { EXPECT_EQ(report.step, ++steps); }));
  EXPECT_EQ(steps, 12);
  begin_run(setup_in(stopped));
  for (Index step = 1; step <= 12; ++step) {
    TrainingRun run(stopped);
    EXPECT_EQ(run.trainer().step(), step - 1);
    EXPECT_EQ(run.run({.until_step = step}), step == 12);
  }
  for (const char* name : {"training.json", "state.safetensors", "history.jsonl", "model.safetensors", "config.json",
                           "README.md", "checkpoints/00000005/model.safetensors",
                           "checkpoints/00000010/model.safetensors", "checkpoints/00000012/model.safetensors"})
    EXPECT_EQ(content(whole + "/" + name), content(stopped + "/" + name)) << name;
  // The vocabulary of the task (BOS, the mark, 5 symbols) and its context (BOS, list, mark, list) went into the model.
  const Model model = load_model(whole);
  EXPECT_EQ(model.config.d_vocab, 7);
  EXPECT_EQ(model.config.n_ctx, 10);
  EXPECT_TRUE(TrainingRun(whole).run());  // at its end: nothing more to do
}

TEST(TrainingRun, OneAtATime) {
  const TemporaryFolder folder("lock");
  const std::string directory = folder / "run";
  begin_run(setup_in(directory));
  {
    const TrainingRun run(directory);
    EXPECT_EQ(code_of([&] { TrainingRun other(directory); }), ErrorCode::usage);
    EXPECT_EQ(code_of([&] { begin_run(setup_in(directory)); }), ErrorCode::usage);
  }
  const TrainingRun again(directory);  // it has been let go
}

/// An attempt that failed holds nothing.
TEST(TrainingRun, ABrokenRunCanBeOpenedAgainWhenMended) {
  const TemporaryFolder folder("mended");
  const std::string directory = folder / "run";
  begin_run(setup_in(directory));
  TrainingRun(directory).run({.until_step = 6});
  const std::string history = content(directory + "/history.jsonl");
  std::ofstream(directory + "/history.jsonl") << "{}\n";
  EXPECT_EQ(code_of([&] { TrainingRun run(directory); }), ErrorCode::format);
  std::filesystem::remove(directory + "/history.jsonl");
  EXPECT_EQ(code_of([&] { TrainingRun run(directory); }), ErrorCode::not_found);
  std::ofstream(directory + "/history.jsonl") << history << "{\"step\":7,\"tok";  // killed while it wrote
  TrainingRun run(directory);
  EXPECT_EQ(content(directory + "/history.jsonl"), history);
  EXPECT_TRUE(run.run());
}

TEST(TrainingRun, BeginsInAnEmptyDirectoryOrWhereABeginningWasStopped) {
  const TemporaryFolder folder("begin");
  const std::string directory = folder / "run";
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/tokenizer.json") << "{";
  std::ofstream(directory + "/tokenizer_config.json.part") << "{";
  EXPECT_NO_THROW(begin_run(setup_in(directory)));
  EXPECT_EQ(code_of([&] { begin_run(setup_in(directory)); }), ErrorCode::usage);
  const std::string other = folder / "other";
  std::filesystem::create_directories(other);
  std::ofstream(other + "/notes.txt") << "mine";
  EXPECT_EQ(code_of([&] { begin_run(setup_in(other)); }), ErrorCode::usage);
  EXPECT_EQ(code_of([&] { TrainingRun run(folder / "absent"); }), ErrorCode::not_found);
}

TEST(TrainingRun, ModelsThatDoNotFitAreRefusedBeforeAnythingIsMade) {
  const TemporaryFolder folder("refused");
  const auto refused = [&](const std::function<void(TrainingConfig&)>& change) {
    TrainingSetup setup = setup_in(folder / "run");
    change(setup.config);
    const ErrorCode code = code_of([&] { begin_run(setup); });
    EXPECT_FALSE(std::filesystem::exists(folder / "run/training.json"));
    return code;
  };
  EXPECT_EQ(refused([](TrainingConfig& c) { c.model["n_layer"] = 2; }), ErrorCode::unsupported);
  EXPECT_EQ(
      refused([](TrainingConfig& c) { c.training.sinusoidal = true, c.model["positional_embedding_type"] = "none"; }),
      ErrorCode::usage);
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
  EXPECT_EQ(refused([](TrainingConfig& c) { c.model["d_vocab"] = 6; }), ErrorCode::format);
  EXPECT_EQ(refused([](TrainingConfig& c) { c.model["n_ctx"] = 9; }), ErrorCode::format);
}

}  // namespace
}  // namespace kirchhoff::train
