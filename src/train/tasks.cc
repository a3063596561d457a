#include "kirchhoff/train/tasks.h"

#include <algorithm>  // for max, min, minmax, sort, swap
#include <numeric>    // for iota

#include "kirchhoff/base/error.h"
#include "kirchhoff/train/sequence_seed.h"

namespace kirchhoff::train {
namespace {

/// Reads the sizes of one task: each that it has, with default and range, and at last that no other was given.
class SizeReader {
 public:
  SizeReader(std::string_view task, const TaskOptions& given) : task_(task), given_(given) {}

  Index read(Index TaskOptions::*size, std::string_view name, Index standard, Index lowest, Index highest) {
    Index value = given_.*size;
    if (value == 0) value = standard;
    check(value >= lowest && value <= highest, ErrorCode::usage, "task {}: {} {}, expected {} to {}", task_, name,
          value, lowest, highest);
    given_.*size = 0;
    known_.*size = value;
    return value;
  }

  TaskOptions done() const {
    const auto none = [&](Index value, std::string_view name) {
      check(value == 0, ErrorCode::usage, "task {} has no {} (given: {})", task_, name, value);
    };
    none(given_.symbols, "symbols");
    none(given_.length, "length");
    none(given_.shortest, "shortest");
    none(given_.modulus, "modulus");
    none(given_.depth, "depth");
    none(given_.kinds, "kinds");
    return known_;
  }

 private:
  std::string_view task_;
  TaskOptions given_, known_;
};

constexpr Index kMostSymbols = 50000;
constexpr Index kLongest = 4096;

/// BOS, the marks, then letters if they suffice, and numbers otherwise: both sort as their tokens do.
std::vector<std::string> names_of(Index symbols, const std::vector<std::string>& marks = {}) {
  std::vector<std::string> names{"BOS"};
  names.insert(names.end(), marks.begin(), marks.end());
  for (Index i = 0; i < symbols; ++i)
    names.push_back(symbols <= 26 ? std::string(1, static_cast<char>('a' + i)) : std::to_string(i));
  return names;
}

std::vector<Index> positions(Index from, Index to) {
  std::vector<Index> list(static_cast<std::size_t>(std::max<Index>(0, to - from)));
  std::iota(list.begin(), list.end(), from);
  return list;
}

/// `count` random tokens of [first, first + symbols), with repetitions.
Tokens random_tokens(Random& random, Index count, Index first, Index symbols) {
  Tokens tokens;
  for (Index i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(first + random.below(symbols)));
  return tokens;
}

class RepeatedTokens final : public Task {
 public:
  static std::unique_ptr<const Task> make(std::string_view name, const TaskOptions& given) {
    SizeReader sizes(name, given);
    const Index length = sizes.read(&TaskOptions::length, "length", 24, 2, kLongest);
    sizes.read(&TaskOptions::shortest, "shortest", std::max<Index>(2, length / 2), 2, length);
    const Index symbols =
        sizes.read(&TaskOptions::symbols, "symbols", std::max<Index>(64, length), length, kMostSymbols);
    return std::unique_ptr<const Task>(new RepeatedTokens(std::string(name), sizes.done(), symbols));
  }

 private:
  RepeatedTokens(std::string name, const TaskOptions& options, Index symbols)
      : Task(std::move(name), options, 1 + 2 * options.length, names_of(symbols)) {}

  Example draw(Random& random) const override {
    const Index symbols = options().symbols;
    const Index period = options().shortest + random.below(options().length - options().shortest + 1);
    Tokens pool(static_cast<std::size_t>(symbols));
    std::iota(pool.begin(), pool.end(), TokenId{1});
    for (Index i = 0; i < period; ++i)  // the beginning of a shuffle: all different
      std::swap(pool[static_cast<std::size_t>(i)], pool[static_cast<std::size_t>(i + random.below(symbols - i))]);
    Example example{{kTaskBos}, positions(period + 2, context())};
    for (Index i = 0; i + 1 < context(); ++i) example.tokens.push_back(pool[static_cast<std::size_t>(i % period)]);
    return example;
  }
};

/// BOS, a list, "|", and what becomes of the list.
class ListTask : public Task {
 public:
  template <class Made>
  static std::unique_ptr<const Task> make(std::string_view name, const TaskOptions& given) {
    SizeReader sizes(name, given);
    sizes.read(&TaskOptions::length, "length", 12, 1, kLongest);
    sizes.read(&TaskOptions::symbols, "symbols", 26, 2, kMostSymbols);
    return std::unique_ptr<const Task>(new Made(std::string(name), sizes.done()));
  }

 protected:
  ListTask(std::string name, const TaskOptions& options)
      : Task(std::move(name), options, 2 + 2 * options.length, names_of(options.symbols, {"|"})) {}

 private:
  static constexpr TokenId kMark = 1;
  virtual void answer(Tokens& list) const = 0;

  Example draw(Random& random) const override {
    Tokens list = random_tokens(random, options().length, kMark + 1, options().symbols);
    Example example{{kTaskBos}, positions(options().length + 2, context())};
    example.tokens.insert(example.tokens.end(), list.begin(), list.end());
    example.tokens.push_back(kMark);
    answer(list);
    example.tokens.insert(example.tokens.end(), list.begin(), list.end());
    return example;
  }
};

class Copy final : public ListTask {
 public:
  Copy(std::string name, const TaskOptions& options) : ListTask(std::move(name), options) {}

 private:
  void answer(Tokens&) const override {}
};

class Sorting final : public ListTask {
 public:
  Sorting(std::string name, const TaskOptions& options) : ListTask(std::move(name), options) {}

 private:
  void answer(Tokens& list) const override { std::sort(list.begin(), list.end()); }
};

class ModularAddition final : public Task {
 public:
  static std::unique_ptr<const Task> make(std::string_view name, const TaskOptions& given) {
    SizeReader sizes(name, given);
    const Index modulus = sizes.read(&TaskOptions::modulus, "modulus", 113, 2, kMostSymbols);
    std::vector<std::string> names{"BOS", "="};
    for (Index i = 0; i < modulus; ++i) names.push_back(std::to_string(i));
    return std::unique_ptr<const Task>(new ModularAddition(std::string(name), sizes.done(), std::move(names)));
  }

 private:
  static constexpr TokenId kEquals = 1, kZero = 2;
  ModularAddition(std::string name, const TaskOptions& options, std::vector<std::string> names)
      : Task(std::move(name), options, 5, std::move(names)) {}

  Example draw(Random& random) const override {
    const Index modulus = options().modulus, a = random.below(modulus), b = random.below(modulus);
    const auto number = [](Index n) { return static_cast<TokenId>(kZero + n); };
    return {{kTaskBos, number(a), number(b), kEquals, number((a + b) % modulus)}, {4}};
  }

  std::optional<Use> only_for(const Example& example) const override {
    const auto [low, high] = std::minmax(example.tokens[1], example.tokens[2]);
    return Random(static_cast<std::uint64_t>(low) << 32U | static_cast<std::uint64_t>(high)).below(10) < 3
               ? Use::measuring
               : Use::training;
  }
};

class BracketMatching final : public Task {
 public:
  static std::unique_ptr<const Task> make(std::string_view name, const TaskOptions& given) {
    SizeReader sizes(name, given);
    const Index length = sizes.read(&TaskOptions::length, "length", 32, 2, kLongest);
    check(length % 2 == 0, ErrorCode::usage, "task {}: length {}, expected an even number: brackets come in pairs",
          name, length);
    sizes.read(&TaskOptions::depth, "depth", std::min<Index>(4, length / 2), 1, length / 2);
    const Index kinds = sizes.read(&TaskOptions::kinds, "kinds", 3, 1, 4);
    const std::vector<std::string> brackets{"(", ")", "[", "]", "{", "}", "<", ">"};
    std::vector<std::string> names{"BOS"};
    names.insert(names.end(), brackets.begin(), brackets.begin() + 2 * kinds);
    return std::unique_ptr<const Task>(new BracketMatching(std::string(name), sizes.done(), std::move(names)));
  }

 private:
  BracketMatching(std::string name, const TaskOptions& options, std::vector<std::string> names)
      : Task(std::move(name), options, 1 + options.length, std::move(names)) {}

  Example draw(Random& random) const override {
    Example example{{kTaskBos}, {}};
    std::vector<Index> open;
    for (Index left = options().length; left > 0; --left) {
      const auto depth = static_cast<Index>(open.size());
      const bool must_close = depth == options().depth || depth == left;
      if (must_close) example.scored.push_back(static_cast<Index>(example.tokens.size()));
      if (must_close || (depth > 0 && random.below(2) == 0)) {
        example.tokens.push_back(static_cast<TokenId>(2 + 2 * open.back()));
        open.pop_back();
      } else {
        open.push_back(random.below(options().kinds));
        example.tokens.push_back(static_cast<TokenId>(1 + 2 * open.back()));
      }
    }
    return example;
  }
};

struct NamedTask {
  const char* name;
  std::unique_ptr<const Task> (*make)(std::string_view, const TaskOptions&);
};
constexpr NamedTask kTasks[] = {
    {"repeated-tokens", &RepeatedTokens::make},   {"copy", &ListTask::make<Copy>},
    {"modular-addition", &ModularAddition::make}, {"sorting", &ListTask::make<Sorting>},
    {"bracket-matching", &BracketMatching::make},
};

}  // namespace

Example Task::example(std::uint64_t seed, Index step, Index index, Use use) const {
  Random random(sequence_seed(seed, step, index));
  Example example = draw(random);
  constexpr int kDraws = 1000;  // a task of a few examples may have none for one of the uses
  for (int i = 0; i < kDraws && only_for(example).value_or(use) != use; ++i) example = draw(random);
  return example;
}

std::unique_ptr<const Task> make_task(std::string_view name, const TaskOptions& options) {
  for (const NamedTask& task : kTasks)
    if (name == task.name) return task.make(name, options);
  fail(ErrorCode::usage, "no task '{}': there are {}", name, fmt::join(task_names(), ", "));
}

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const NamedTask& task : kTasks) names.emplace_back(task.name);
  return names;
}

}  // namespace kirchhoff::train
