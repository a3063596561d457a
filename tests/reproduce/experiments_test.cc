// Both chains end to end, on a text of a few kilobytes and models that learn nothing.
#include <gtest/gtest.h>

#include <chrono>  // for milliseconds
#include <cmath>   // for log
#include <map>     // for map
#include <thread>  // for sleep_for

#include "io/io_test_support.h"
#include "kirchhoff/base/random.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/train/token_file.h"
#include "reproduce/framework.h"
#include "reproduce/induction.h"

namespace kirchhoff::reproduce {
namespace {

using io::error_of;
using io::TemporaryDirectory;

/// Sentences of few words, so that there are bigrams to learn.
std::string small_text() {
  const char* const words[] = {"the", "cat", "saw", "a", "dog", "near", "old", "river", "and", "Ralph", "sang"};
  Random random(3);
  std::string text;
  for (int document = 0; document < 60; ++document) {
    for (int sentence = 0; sentence < 6; ++sentence) {
      for (int word = 0; word < 8; ++word) text += fmt::format("{} ", words[random.below(11)]);
      text += "again.\n";
    }
    text += "<|endoftext|>\n";
  }
  return text;
}

constexpr Scale kSmall = {.vocabulary = 280,
                          .d_model = 16,
                          .heads = 2,
                          .context = 32,
                          .batch = 8,
                          .learning_rate = 3e-3,
                          .document_stride = 1,
                          .held_out_every = 10};

FrameworkPlan small_framework() {
  return {.scale = kSmall,
          .tokens = {2048, 2048, 2048},
          .minutes = {0.1, 0.1, 0.1},
          .sizes = {.windows = 16, .text_windows = 4, .queries = 16, .context = 32}};
}

std::string text_of(const std::string& path) { return std::string(io::map_file(path).text()); }

TEST(FrameworkChain, FromATextToAPage) {
  const TemporaryDirectory directory;
  const std::string data = directory.write("small.txt", small_text()), work = directory.path("work");
  const Chain chain = framework_chain({data}, false, small_framework());
  ASSERT_TRUE(run_chain(chain, {.directory = work}).finished);
  const ChainReport again = run_chain(chain, {.directory = work});
  for (const ChainReport::Entry& entry : again.stages) EXPECT_EQ(entry.state, StageState::skipped) << entry.stage;

  // The text's bigrams, counted here.
  const train::TokenFile tokens(work + "/corpus/corpus.tokens");
  const auto ids = tokens.tokens(0, tokens.size());
  std::map<std::pair<int, int>, double> pairs;
  std::map<int, double> firsts;
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    pairs[{ids[i], ids[i + 1]}] += 1.0;
    firsts[ids[i]] += 1.0;
  }
  double entropy = 0.0;
  for (const auto& [pair, count] : pairs) entropy -= count * std::log(count / firsts[pair.first]);
  entropy /= static_cast<double>(ids.size() - 1);
  const auto records = stage_records(chain, work);
  const Json& zero = records.at("zero-layer").at("result");
  EXPECT_EQ(zero.at("pairs").get<std::size_t>(), ids.size() - 1);
  EXPECT_NEAR(zero.at("entropy").get<double>(), entropy, 1e-10);
  EXPECT_GT(zero.at("kl").get<double>(), 0.0);
  // Six documents of sixty are nobody's training text.
  EXPECT_EQ(records.at("corpus").at("result").at("held_out_documents"), 6);
  EXPECT_EQ(tokens.info().documents, 54);

  const Json& terms = records.at("terms").at("result");
  EXPECT_NEAR(terms.at("orders").back().at("loss").get<double>(), terms.at("full").get<double>(), 1e-5);
  EXPECT_EQ(records.at("composition").at("result").at("pairs").size(), 4U);
  EXPECT_EQ(records.at("positivity-plane").at("result").at("points").size(), 4U);

  const std::string page = directory.path("page");
  write_report(chain, work, page);
  const std::string readme = text_of(page + "/README.md");
  EXPECT_NE(readme.find(fmt::format("{:.3f}", zero.at("kl").get<double>())), std::string::npos);
  EXPECT_NE(readme.find("10 of 12"), std::string::npos);
  for (const char* figure : {"losses", "one-layer-positivity", "terms", "random-repeats", "positivity-plane",
                             "keys-by-token", "composition", "composition-erratum"}) {
    EXPECT_NE(readme.find(fmt::format("({}.svg)", figure)), std::string::npos) << figure;
    EXPECT_NE(text_of(fmt::format("{}/{}.svg", page, figure)).find("</svg>"), std::string::npos) << figure;
  }
  EXPECT_EQ(io::read_json_file(page + "/results/terms.json"), records.at("terms"));
}

TEST(InductionChain, FromATextToAPage) {
  const TemporaryDirectory directory;
  const std::string data = directory.write("small.txt", small_text()), work = directory.path("work");
  InductionPlan plan{.scale = kSmall,
                     .tokens = 1536,
                     .seeds = 2,
                     .minutes_of_layer = 0.0,
                     .minutes_of_rest = 0.1,
                     .sizes = {.windows = 12, .ablation_windows = 4, .context = 32}};
  const Chain chain = induction_chain({data}, false, plan);
  ASSERT_TRUE(run_chain(chain, {.directory = work}).finished);
  const auto records = stage_records(chain, work);
  const Json& losses = records.at("losses/3l-s1").at("result");
  EXPECT_EQ(losses.at("losses").size(), losses.at("steps").size());
  EXPECT_EQ(losses.at("steps").back(), 6);
  const Json& curves = records.at("curves").at("result");
  ASSERT_EQ(curves.at("kinds").size(), 4U);
  EXPECT_EQ(curves.at("kinds").at(3).at("runs"), (Json{"1l-smeared-s0", "1l-smeared-s1"}));
  EXPECT_EQ(curves.at("heads").size(), 2U * (2 + 4 + 6 + 2));
  EXPECT_EQ(curves.at("points").front().at("step"), 0);
  EXPECT_EQ(curves.at("points").back().at("step"), 6);
  for (const Json& run : curves.at("runs")) EXPECT_TRUE(run.at("phase_change").is_null());
  const Json& plane = records.at("loss-plane").at("result");
  EXPECT_EQ(plane.at("runs").at("3l-s1").at("points").size(), losses.at("steps").size());
  const Json& ablations = records.at("ablations/3l-s1").at("result");
  EXPECT_EQ(ablations.at("ablations").size(), 6U);
  EXPECT_EQ(ablations.at("ablation").at("mode"), "patterns kept");

  const std::string page = directory.path("page");
  write_report(chain, work, page);
  const std::string readme = text_of(page + "/README.md");
  for (const char* figure : {"loss", "icl", "prefix-matching", "trajectory-1l-smeared", "ablations", "training-2l"})
    EXPECT_NE(readme.find(fmt::format("({}.svg)", figure)), std::string::npos) << figure;
  const Json& held_out = curves.at("points").back().at("held_out");
  EXPECT_NE(readme.find(fmt::format("{:.3f} ({:.3f} to {:.3f})", held_out.at("mean").get<double>(),
                                    held_out.at("low").get<double>(), held_out.at("high").get<double>())),
            std::string::npos);
}

TEST(TrainingStage, GoesOnToTheSameModel) {
  const TemporaryDirectory directory;
  const std::string data = directory.write("small.txt", small_text());
  const auto chain = [&](Index tokens) {
    return Chain{.name = "test",
                 .quick = true,
                 .stages = {corpus_stage({data}, kSmall),
                            training_stage("1l", text_model(kSmall, {.layers = 1}, tokens, 0), 0.1)}};
  };
  const std::string straight = directory.path("straight"), halting = directory.path("halting");
  ASSERT_TRUE(run_chain(chain(2048), {.directory = straight}).finished);
  ChainOptions slow{.directory = halting, .minutes = 0.0};
  slow.on_step = [](const train::StepReport&) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
  Chain corpus_alone = chain(2048);
  corpus_alone.stages.pop_back();
  ASSERT_TRUE(run_chain(corpus_alone, {.directory = halting}).finished);
  slow.minutes = 0.15 / 60.0;
  int calls = 0;
  ChainReport report;
  do {
    report = run_chain(chain(2048), slow);
    ++calls;
  } while (!report.finished && calls < 100);
  EXPECT_TRUE(report.finished);
  EXPECT_GT(calls, 1);
  const auto sha = [&](const std::string& work) {
    return stage_records(chain(2048), work).at("train/1l").at("result").at("sha256");
  };
  EXPECT_EQ(sha(straight), sha(halting));

  // Another course is another training: what is there is not thrown away.
  const Error error = error_of([&] { run_chain(chain(4096), {.directory = straight}); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_NE(std::string(error.what()).find("other data or settings"), std::string::npos);
}

TEST(Experiment, NamesWhatThereIs) {
  const TemporaryDirectory directory;
  const std::string data = directory.write("small.txt", "one document");
  const Error error = error_of([&] { experiment("frame", {.data = {data}}); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_NE(std::string(error.what()).find("framework or induction"), std::string::npos);
  EXPECT_EQ(error_of([&] { experiment("framework", {.data = {directory.path("none")}}); }).code(),
            ErrorCode::not_found);
  for (const std::string& name : experiment_names()) {
    const Chain quick = experiment(name, {.data = {data}, .quick = true}), full = experiment(name, {.data = {data}});
    EXPECT_LT(quick.minutes(), 10.0) << name;
    EXPECT_GT(full.minutes(), 3.0 * quick.minutes()) << name;
    for (const Stage& stage : full.stages) EXPECT_LE(stage.minutes, 30.0) << stage.name;
  }
  // A text without anything to hold out.
  const Chain chain = experiment("framework", {.data = {data}, .quick = true});
  EXPECT_EQ(error_of([&] { run_chain(chain, {.directory = directory.path("work")}); }).code(), ErrorCode::usage);
}

}  // namespace
}  // namespace kirchhoff::reproduce
