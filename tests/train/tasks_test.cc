#include "kirchhoff/train/tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "kirchhoff/base/error.h"
#include "kirchhoff/text/word_level.h"
#include "kirchhoff/train/sequence_seed.h"

namespace kirchhoff::train {
namespace {

std::string text_of(const Task& task, const Example& example) {
  std::string text;
  for (const TokenId token : example.tokens)
    text += (text.empty() ? "" : " ") + task.token_names()[static_cast<std::size_t>(token)];
  return text;
}

Tokens part(const Example& example, Index from, Index to) {
  return {example.tokens.begin() + from, example.tokens.begin() + to};
}

std::string message_of(std::string_view name, const TaskOptions& options) {
  try {
    make_task(name, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    return error.what();
  }
  return "no error";
}

/// The answer that the task's rule gives for position `at`, from the tokens before it alone; -1 if there is none.
TokenId answer(const Task& task, const Tokens& before) {
  const auto at = static_cast<Index>(before.size());
  if (task.name() == "repeated-tokens") {
    const auto copy = std::find(before.begin(), before.end() - 1, before.back());
    return copy == before.end() - 1 ? -1 : *(copy + 1);
  }
  if (task.name() == "modular-addition")
    return at == 4 ? static_cast<TokenId>(2 + (before[1] - 2 + before[2] - 2) % task.options().modulus) : -1;
  if (task.name() == "bracket-matching") {
    std::vector<TokenId> open;
    for (const TokenId token : Tokens(before.begin() + 1, before.end()))
      if (token % 2 == 1)
        open.push_back(token);
      else
        open.pop_back();
    const auto depth = static_cast<Index>(open.size());
    return depth == task.options().depth || depth == task.context() - at ? open.back() + 1 : -1;
  }
  const auto mark = std::find(before.begin(), before.end(), 1);
  if (mark == before.end()) return -1;
  Tokens list(before.begin() + 1, mark);
  if (task.name() == "sorting") std::sort(list.begin(), list.end());
  return list[static_cast<std::size_t>(before.end() - mark) - 1];
}

TEST(Tasks, ScoredTokensAreThoseThatTheRuleGives) {
  for (const std::string& name : task_names()) {
    const auto task = make_task(name);
    for (Index index = 0; index < 50; ++index) {
      const Example example = task->example(7, 3, index);
      ASSERT_EQ(static_cast<Index>(example.tokens.size()), task->context()) << name;
      EXPECT_EQ(example.tokens[0], kTaskBos);
      std::vector<Index> determined;
      for (Index p = 1; p < task->context(); ++p) {
        const TokenId token = example.tokens[static_cast<std::size_t>(p)];
        ASSERT_TRUE(token >= 1 && token < task->vocabulary()) << name;
        const TokenId expected = answer(*task, part(example, 0, p));
        if (expected < 0) continue;
        EXPECT_EQ(token, expected) << name << " at " << p << ": " << text_of(*task, example);
        determined.push_back(p);
      }
      EXPECT_EQ(example.scored, determined) << name << ": " << text_of(*task, example);
      EXPECT_FALSE(example.scored.empty());
    }
  }
}

TEST(Tasks, ExamplesAreFunctionsOfSeedStepAndIndex) {
  for (const std::string& name : task_names()) {
    const auto task = make_task(name), other = make_task(name);
    std::set<Tokens> seen;
    for (const auto& [seed, step, index] :
         std::vector<std::tuple<std::uint64_t, Index, Index>>{{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {1, 0, 0}, {1, 1, 1}}) {
      EXPECT_EQ(task->example(seed, step, index).tokens, other->example(seed, step, index).tokens);
      EXPECT_EQ(task->example(seed, step, index).scored, other->example(seed, step, index).scored);
      seen.insert(task->example(seed, step, index).tokens);
    }
    EXPECT_EQ(seen.size(), 5U) << name;
  }
}

TEST(Tasks, SeedsOfNeighboursDiffer) {
  std::set<std::uint64_t> seeds;
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    for (Index step = 0; step < 10; ++step)
      for (Index index = 0; index < 10; ++index) seeds.insert(sequence_seed(seed, step, index));
  EXPECT_EQ(seeds.size(), 1000U);
}

TEST(Tasks, BlocksOfRepeatedTokensHaveEveryLengthAndNoTokenTwice) {
  const auto task = make_task("repeated-tokens", {.symbols = 30, .length = 8, .shortest = 5});
  EXPECT_EQ(task->context(), 17);
  EXPECT_EQ(task->vocabulary(), 31);
  std::map<Index, int> periods;
  std::map<TokenId, int> first;
  for (Index index = 0; index < 4000; ++index) {
    const Example example = task->example(1, 0, index);
    const Index period = example.scored.front() - 2;
    ++periods[period];
    ++first[example.tokens[1]];
    const Tokens block = part(example, 1, 1 + period);
    EXPECT_EQ(std::set<TokenId>(block.begin(), block.end()).size(), block.size());
    EXPECT_EQ(example.scored.size(), static_cast<std::size_t>(17 - period - 2));
  }
  ASSERT_EQ(periods.size(), 4U);
  for (Index period = 5; period <= 8; ++period) EXPECT_NEAR(periods[period], 1000, 120);  // 4 sigma: 110
  ASSERT_EQ(first.size(), 30U);
  for (const auto& [token, count] : first) EXPECT_NEAR(count, 4000.0 / 30, 55) << token;  // 4.8 sigma
}

TEST(Tasks, OfOneLengthTheSecondHalfIsTheFirst) {
  const auto task = make_task("repeated-tokens", {.symbols = 6, .length = 6, .shortest = 6});
  const Example example = task->example(0, 0, 0);
  EXPECT_EQ(part(example, 1, 7), part(example, 7, 13));
  EXPECT_EQ(example.scored, (std::vector<Index>{8, 9, 10, 11, 12}));
}

TEST(Tasks, ListsAreOfLettersOrNumbers) {
  const auto letters = make_task("sorting", {.symbols = 26, .length = 3}), numbers = make_task("copy", {.symbols = 27});
  EXPECT_EQ(letters->token_names()[1], "|");
  EXPECT_EQ(letters->token_names()[2], "a");
  EXPECT_EQ(letters->token_names()[27], "z");
  EXPECT_EQ(numbers->token_names()[28], "26");
  EXPECT_EQ(letters->context(), 8);
  EXPECT_EQ(letters->example(0, 0, 0).scored, (std::vector<Index>{5, 6, 7}));
}

TEST(Tasks, AdditionUsesAllPairsSomeForMeasuringAlone) {
  const auto task = make_task("modular-addition", {.modulus = 11});
  EXPECT_EQ(task->token_names()[12], "10");
  const auto small = make_task("modular-addition", {.modulus = 5});
  EXPECT_EQ(small->token_names(), (std::vector<std::string>{"BOS", "=", "0", "1", "2", "3", "4"}));
  std::set<std::string> texts;
  for (Index index = 0; index < 500; ++index)
    for (const Use use : {Use::training, Use::measuring})
      texts.insert(text_of(*small, small->example(0, 0, index, use)));
  EXPECT_EQ(texts.size(), 25U);
  EXPECT_TRUE(texts.contains("BOS 3 4 = 2"));
  std::set<std::pair<TokenId, TokenId>> trained, measured;
  const auto pair_of = [](const Example& example) { return std::pair{example.tokens[1], example.tokens[2]}; };
  for (Index index = 0; index < 3000; ++index) {
    const Example example = task->example(0, 0, index);
    EXPECT_EQ((example.tokens[1] + example.tokens[2] - 4) % 11, example.tokens[4] - 2);  // 0 is token 2
    trained.insert(pair_of(example));
    measured.insert(pair_of(task->example(0, 0, index, Use::measuring)));
  }
  EXPECT_EQ(trained.size() + measured.size(), 121U);  // every pair, and below: none for both
  for (const auto& [a, b] : measured) {
    EXPECT_FALSE(trained.contains({a, b}));
    EXPECT_TRUE(measured.contains({b, a}));
  }
  EXPECT_NEAR(static_cast<double>(measured.size()) / 121.0, 0.3, 0.15);
}

TEST(Tasks, BracketsReachTheirDepthAndEveryWalk) {
  // Of six brackets of one kind, at most two open: ()()(), ()(()), (())(), (()()).
  const auto task = make_task("bracket-matching", {.length = 6, .depth = 2, .kinds = 1});
  std::set<std::string> texts;
  for (Index index = 0; index < 200; ++index) texts.insert(text_of(*task, task->example(0, 0, index)));
  EXPECT_EQ(texts, (std::set<std::string>{"BOS ( ) ( ) ( )", "BOS ( ) ( ( ) )", "BOS ( ( ) ) ( )", "BOS ( ( ) ( ) )"}));
}

TEST(Tasks, SizesAreChecked) {
  EXPECT_EQ(message_of("adding", {}),
            "no task 'adding': there are repeated-tokens, copy, modular-addition, sorting, bracket-matching");
  EXPECT_EQ(message_of("copy", {.modulus = 7}), "task copy has no modulus (given: 7)");
  EXPECT_EQ(message_of("modular-addition", {.length = 7}), "task modular-addition has no length (given: 7)");
  EXPECT_EQ(message_of("copy", {.length = -1}), "task copy: length -1, expected 1 to 4096");
  EXPECT_EQ(message_of("repeated-tokens", {.symbols = 10, .length = 12}),
            "task repeated-tokens: symbols 10, expected 12 to 50000");
  EXPECT_EQ(message_of("repeated-tokens", {.length = 12, .shortest = 13}),
            "task repeated-tokens: shortest 13, expected 2 to 12");
  EXPECT_EQ(message_of("bracket-matching", {.length = 7}),
            "task bracket-matching: length 7, expected an even number: brackets come in pairs");
  EXPECT_EQ(message_of("bracket-matching", {.length = 8, .depth = 5}),
            "task bracket-matching: depth 5, expected 1 to 4");
  EXPECT_EQ(message_of("bracket-matching", {.kinds = 5}), "task bracket-matching: kinds 5, expected 1 to 4");
}

TEST(Tasks, TheirWordsAreAVocabulary) {
  for (const std::string& name : task_names()) {
    const auto task = make_task(name);
    const text::TokenizerFiles files = text::word_level_files(task->token_names(), kTaskBos);
    const auto tokenizer = text::make_tokenizer(files.tokenizer_json, "tokenizer.json",
                                                nlohmann::ordered_json::parse(files.tokenizer_config_json));
    const Example example = task->example(5, 0, 0);
    EXPECT_EQ(tokenizer->encode(text_of(*task, example)).ids, example.tokens) << name;
    EXPECT_EQ(tokenizer->decode(example.tokens), text_of(*task, example));
  }
}

}  // namespace
}  // namespace kirchhoff::train
