#include "io/pickle_stack.h"

#include <algorithm>  // for max

#include "io/utf8.h"

namespace kirchhoff::io {

PickleStack::PickleStack(const PickleReader& reader)
    // A value takes some 50 bytes here and as little as one in the file.
    : reader_(reader), values_left_(std::max<std::uint64_t>(std::uint64_t{1} << 20, reader.size() / 16)) {}

void PickleStack::charge(std::uint64_t values) {
  if (values > values_left_) reader_.malformed("more values than a model file has use for");
  values_left_ -= values;
}

PickleValue* PickleStack::pop() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) reader_.malformed("takes a value off an empty stack");
  PickleValue* value = stack_.back();
  stack_.pop_back();
  return value;
}

PickleValue* PickleStack::top() {
  PickleValue* value = pop();
  stack_.push_back(value);
  return value;
}

void PickleStack::duplicate() {
  charge(1);
  stack_.push_back(top());
}

void PickleStack::mark() {
  charge(1);
  marks_.push_back(stack_.size());
}

PickleStack::Items PickleStack::pop_to_mark() {
  if (marks_.empty()) reader_.malformed("takes values up to a mark that is not there");
  Items values(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
  stack_.resize(marks_.back());
  marks_.pop_back();
  return values;
}

void PickleStack::push_text(std::string text) {
  if (!is_utf8(text)) reader_.malformed("a text is not UTF-8");
  push(std::move(text));
}

void PickleStack::push_tuple_of(std::size_t count) {
  Items items(count);
  for (std::size_t i = count; i-- > 0;) items[i] = pop();
  push_tuple(std::move(items));
}

void PickleStack::push_dict(const Items& flat) {
  push(PickleDict{});
  set_items(flat);
}

void PickleStack::append(const Items& items) {
  auto* list = std::get_if<PickleSequence>(&top()->data);
  if (list == nullptr || list->is_tuple) reader_.malformed(fmt::format("appends to {}", top()->kind()));
  list->items.insert(list->items.end(), items.begin(), items.end());
}

void PickleStack::set_items(const Items& flat) {
  auto* dict = std::get_if<PickleDict>(&top()->data);
  if (dict == nullptr) reader_.malformed(fmt::format("sets items of {}", top()->kind()));
  if (flat.size() % 2 != 0) reader_.malformed("a dict with a key without a value");
  for (std::size_t i = 0; i < flat.size(); i += 2) dict->items.emplace_back(flat[i], flat[i + 1]);
}

void PickleStack::memo_put(std::uint64_t slot) {
  charge(1);
  memo_[slot] = top();
}

void PickleStack::memo_get(std::uint64_t slot) {
  const auto found = memo_.find(slot);
  if (found == memo_.end()) reader_.malformed(fmt::format("asks for memo {}, which is not set", slot));
  charge(1);
  stack_.push_back(found->second);
}

Pickle PickleStack::finish() {
  if (stack_.size() != 1 || !marks_.empty())
    reader_.malformed(fmt::format("ends with {} values on the stack, expected 1", stack_.size()));
  result_.top = stack_.back();
  result_.consumed = reader_.position();
  return std::move(result_);
}

}  // namespace kirchhoff::io
