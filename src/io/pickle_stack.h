#pragma once
#include <string>         // for string
#include <unordered_map>  // for unordered_map
#include <vector>         // for vector

#include "io/pickle.h"
#include "io/pickle_reader.h"

namespace kirchhoff::io {

/// The stack, the marks and the memo of Python's pickle machine. Whatever does not fit is `malformed`.
class PickleStack {
 public:
  using Items = std::vector<const PickleValue*>;

  explicit PickleStack(const PickleReader& reader);

  /// A few bytes of a pickle can ask for large copies again and again: whatever takes memory is counted, in values.
  void charge(std::uint64_t values);
  template <class T>
  void push(T&& data) {
    charge(1);
    stack_.push_back(&result_.arena.emplace_back(PickleValue{std::forward<T>(data)}));
  }
  PickleValue* pop();
  PickleValue* top();
  void duplicate();
  void mark();
  Items pop_to_mark();

  void push_text(std::string text);
  void push_tuple(Items items) { push(PickleSequence{std::move(items), true}); }
  /// Of the last `count` values.
  void push_tuple_of(std::size_t count);
  /// Of keys and values in turn.
  void push_dict(const Items& flat);
  void append(const Items& items);
  void set_items(const Items& flat);

  void memo_put(std::uint64_t slot);
  void memo_get(std::uint64_t slot);
  std::uint64_t memo_size() const { return memo_.size(); }

  /// The value as a T, or malformed: "found a list, expected a dtype".
  template <class T>
  const T& as(const PickleValue* value, std::string_view expected) const {
    const T* result = std::get_if<T>(&value->data);
    if (result == nullptr) reader_.malformed(fmt::format("found {}, expected {}", value->kind(), expected));
    return *result;
  }

  const PickleReader& reader() const { return reader_; }
  /// What is described, when STOP is reached: exactly one value must be left.
  Pickle finish();

 private:
  const PickleReader& reader_;
  std::uint64_t values_left_;
  Pickle result_;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PickleValue*> memo_;
};

}  // namespace kirchhoff::io
