#pragma once
#include <cstdint>      // for uint64_t
#include <memory>       // for unique_ptr
#include <optional>     // for optional
#include <string>       // for string
#include <string_view>  // for string_view
#include <utility>      // for move
#include <vector>       // for vector

#include "kirchhoff/base/random.h"
#include "kirchhoff/engine/run.h"

// Synthetic tasks: sequences without end, in which some tokens follow from those before them.

namespace kirchhoff::train {

/// Sizes of a task. 0 is the task's own default; one that the task does not have must stay 0.
struct TaskOptions {
  Index symbols = 0;   ///< different tokens that sequences are drawn from: repeated-tokens, copy, sorting
  Index length = 0;    ///< of a block (repeated-tokens: of the longest), of the list, or of the bracket sequence
  Index shortest = 0;  ///< repeated-tokens: the shortest block
  Index modulus = 0;   ///< modular-addition
  Index depth = 0;     ///< bracket-matching: how many brackets are open at once
  Index kinds = 0;     ///< bracket-matching: of brackets, at most 4
  friend bool operator==(const TaskOptions&, const TaskOptions&) = default;
};

/// One sequence of a task.
struct Example {
  Tokens tokens;              ///< context() of them, BOS first
  std::vector<Index> scored;  ///< positions p >= 1, ascending, whose token follows from tokens 0 .. p - 1
};

/// What an example is for. Of a task with so few examples that training sees them all, some are for measuring alone.
enum class Use { training, measuring };

/// A generator of sequences. Immutable; safe to use from several threads.
class Task {
 public:
  virtual ~Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  const std::string& name() const { return name_; }
  const TaskOptions& options() const { return options_; }  ///< with the defaults filled in
  Index context() const { return context_; }               ///< tokens of every example, BOS included
  /// Entry i is the word of token i, without white space; BOS is token 0.
  const std::vector<std::string>& token_names() const { return names_; }
  Index vocabulary() const { return static_cast<Index>(names_.size()); }

  /// A function of its arguments alone (train/sequence_seed.h).
  Example example(std::uint64_t seed, Index step, Index index, Use use = Use::training) const;

 protected:
  Task(std::string name, const TaskOptions& options, Index context, std::vector<std::string> names)
      : name_(std::move(name)), options_(options), context_(context), names_(std::move(names)) {}

 private:
  virtual Example draw(Random& random) const = 0;
  /// What this one must be used for; nothing: for both.
  virtual std::optional<Use> only_for(const Example&) const { return std::nullopt; }
  std::string name_;
  TaskOptions options_;
  Index context_;
  std::vector<std::string> names_;
};

/// The token that every example begins with.
inline constexpr TokenId kTaskBos = 0;

/// - "repeated-tokens": BOS, a block of different random tokens, and the same block again and again until 1 + 2 length
///   tokens are there. The block has between `shortest` and `length` tokens, so that the position does not say where
///   the copy of a token is: finding it takes two layers. Scored: every token of the copies but the first of the first
///   one, which nothing announces.
/// - "copy": BOS, `length` random tokens, "|", the same tokens. Scored: what is behind the mark.
/// - "modular-addition": BOS a b = c, c = (a + b) mod `modulus`. Scored: c. Three in ten of
///   the pairs {a, b}, in both orders, are for measuring alone: a model that knows them has learnt to add.
/// - "sorting": BOS, `length` random tokens, "|", the same in ascending order. Scored: what is behind the mark.
/// - "bracket-matching": BOS and a sequence of `length` brackets that close each other, of `kinds` kinds, at most
/// `depth`
///   open at once. Scored: the brackets that had to be closed, because no other could be opened: `depth` were open, or
///   all tokens that are left are needed.
/// Errors (usage): an unknown name, listing the known ones; a size that the task does not have, or out of its range.
std::unique_ptr<const Task> make_task(std::string_view name, const TaskOptions& options = {});
std::vector<std::string> task_names();

}  // namespace kirchhoff::train
