#include "kirchhoff/reproduce/chain.h"

#include <gtest/gtest.h>

#include "io/io_test_support.h"

namespace kirchhoff::reproduce {
namespace {

using io::error_of;
using io::TemporaryDirectory;

/// Stages that count how often they run: "one" gives `value`, "two" adds 1 to what "one" gave.
struct Counted {
  int one = 0, two = 0, stops = 0;
  Json value = 5;
  Json settings = {{"size", 1}};

  Chain chain() {
    return {.name = "test",
            .quick = false,
            .stages = {{.name = "one",
                        .summary = "first",
                        .settings = settings,
                        .outputs = {"file"},
                        .run = [this](const StageRun& run) -> std::optional<Json> {
                          ++one;
                          if (stops > 0) return --stops, std::nullopt;
                          std::ofstream(run.directory + "/file") << "made";
                          return Json{{"value", value}};
                        }},
                       {.name = "deep/two", .summary = "second", .inputs = {"one"}, .run = [this](const StageRun& run) {
                          ++two;
                          return Json{{"value", run.inputs.at("one").at("value").get<int>() + 1}};
                        }}}};
  }
};

std::vector<StageState> states(const ChainReport& report) {
  std::vector<StageState> list;
  for (const ChainReport::Entry& entry : report.stages) list.push_back(entry.state);
  return list;
}

TEST(RunChain, DoesEachStageOnce) {
  const TemporaryDirectory directory;
  Counted counted;
  const ChainReport first = run_chain(counted.chain(), {.directory = directory.path()});
  EXPECT_TRUE(first.finished);
  EXPECT_EQ(states(first), (std::vector{StageState::done, StageState::done}));
  const ChainReport second = run_chain(counted.chain(), {.directory = directory.path()});
  EXPECT_EQ(states(second), (std::vector{StageState::skipped, StageState::skipped}));
  EXPECT_EQ(counted.one, 1);
  EXPECT_EQ(counted.two, 1);
  const auto records = stage_records(counted.chain(), directory.path());
  EXPECT_EQ(records.at("deep/two").at("result").at("value"), 6);
  EXPECT_EQ(records.at("deep/two").at("inputs").at("one"), record_hash(records.at("one")));
  EXPECT_TRUE(chain_state(counted.chain(), directory.path()).finished);
}

TEST(RunChain, RepeatsWhatFollowsFromSomethingElse) {
  const TemporaryDirectory directory;
  Counted counted;
  run_chain(counted.chain(), {.directory = directory.path()});
  // Other settings, the same result: the second stage's input has another hash.
  counted.settings["size"] = 2;
  EXPECT_FALSE(chain_state(counted.chain(), directory.path()).finished);
  run_chain(counted.chain(), {.directory = directory.path()});
  EXPECT_EQ(counted.one, 2);
  EXPECT_EQ(counted.two, 2);
  // A lost output, and then the same result again: only the first stage is repeated.
  std::filesystem::remove(directory.path("file"));
  run_chain(counted.chain(), {.directory = directory.path()});
  EXPECT_EQ(counted.one, 3);
  EXPECT_EQ(counted.two, 2);
}

TEST(RunChain, GoesOnWithAStageThatWasStopped) {
  const TemporaryDirectory directory;
  Counted counted;
  counted.stops = 1;
  const ChainReport stopped = run_chain(counted.chain(), {.directory = directory.path()});
  EXPECT_FALSE(stopped.finished);
  EXPECT_EQ(states(stopped), (std::vector{StageState::stopped, StageState::waiting}));
  EXPECT_EQ(states(chain_state(counted.chain(), directory.path())),
            (std::vector{StageState::stopped, StageState::waiting}));
  const Error error = error_of([&] { stage_records(counted.chain(), directory.path()); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_NE(std::string(error.what()).find("stage 'one'"), std::string::npos);
  const ChainReport finished = run_chain(counted.chain(), {.directory = directory.path()});
  EXPECT_TRUE(finished.finished);
  EXPECT_GE(finished.stages[0].seconds, stopped.stages[0].seconds);
}

TEST(RunChain, StopsBetweenStagesWhenTheTimeIsUp) {
  const TemporaryDirectory directory;
  Counted counted;
  const ChainReport report = run_chain(counted.chain(), {.directory = directory.path(), .minutes = 1e-12});
  EXPECT_EQ(states(report), (std::vector{StageState::waiting, StageState::waiting}));
  EXPECT_EQ(counted.one, 0);
}

TEST(RunChain, AFailedStageIsNotDone) {
  const TemporaryDirectory directory;
  Counted counted;
  Chain chain = counted.chain();
  chain.stages[1].run = [](const StageRun&) -> std::optional<Json> { fail(ErrorCode::numerical, "no number"); };
  EXPECT_EQ(error_of([&] { run_chain(chain, {.directory = directory.path()}); }).code(), ErrorCode::numerical);
  EXPECT_EQ(states(chain_state(counted.chain(), directory.path())),
            (std::vector{StageState::skipped, StageState::stopped}));
  EXPECT_TRUE(run_chain(counted.chain(), {.directory = directory.path()}).finished);
  EXPECT_EQ(counted.one, 1);
}

TEST(RunChain, ChecksTheOrderOfStages) {
  const TemporaryDirectory directory;
  Counted counted;
  Chain chain = counted.chain();
  std::swap(chain.stages[0], chain.stages[1]);
  EXPECT_EQ(error_of([&] { run_chain(chain, {.directory = directory.path()}); }).code(), ErrorCode::internal);
}

}  // namespace
}  // namespace kirchhoff::reproduce
