#include "io/pickle_calls.h"

#include "io/pickle_names.h"

namespace kirchhoff::io {
namespace {

constexpr std::size_t kMostDims = 64;  // as in torch

const PickleStack::Items& arguments(const PickleStack& stack, const PickleValue* value, std::size_t least) {
  const PickleStack::Items& items = stack.as<PickleSequence>(value, "arguments").items;
  if (items.size() < least) stack.reader().malformed("a call with too few arguments");
  return items;
}

/// The items of a size or stride.
const PickleStack::Items& axes(const PickleStack& stack, const PickleValue* value, std::string_view what) {
  const PickleStack::Items& items = stack.as<PickleSequence>(value, what).items;
  if (items.size() > kMostDims) stack.reader().malformed(fmt::format("{} of {} axes", what, items.size()));
  return items;
}

Shape integers(const PickleStack& stack, const PickleValue* value, std::string_view what) {
  Shape result;
  for (const PickleValue* item : axes(stack, value, what)) result.push_back(stack.as<std::int64_t>(item, what));
  return result;
}

/// A short text, so that copies of it cost nothing.
const std::string& short_text(const PickleStack& stack, const PickleValue* value, std::string_view expected) {
  constexpr std::size_t kLongest = 256;
  const auto& text = stack.as<std::string>(value, expected);
  if (text.size() > kLongest) stack.reader().malformed(fmt::format("{} of {} bytes", expected, text.size()));
  return text;
}

/// _rebuild_tensor(storage, offset, size, stride), v2 with further arguments that do not matter, v3 with a dtype as the
/// seventh: the storage is untyped.
void push_tensor(PickleStack& stack, const PickleValue* tuple, PickleCallable which) {
  const bool has_dtype = which == PickleCallable::rebuild_tensor_v3;
  const auto& items = arguments(stack, tuple, has_dtype ? 7 : 4);
  auto tensor = std::make_unique<PickleTensor>();
  tensor->storage = stack.as<std::shared_ptr<const PickleStorage>>(items[0], "a storage");
  tensor->offset = stack.as<std::int64_t>(items[1], "a storage offset");
  tensor->shape = integers(stack, items[2], "a size");
  tensor->strides = integers(stack, items[3], "a stride");
  tensor->dtype = has_dtype ? stack.as<PickleTypeName>(items[6], "a dtype").dtype : tensor->storage->dtype;
  stack.push(std::move(tensor));
}

}  // namespace

void refuse_global(const PickleStack& stack, std::string_view module, std::string_view name) {
  const std::string& subject = stack.reader().subject();
  const std::string full = printable(fmt::format("{}.{}", module, name));
  if (module.starts_with("torch.nn."))
    fail(ErrorCode::unsupported, "{}: holds an object of {}, not a state_dict; save model.state_dict() instead",
         subject, full);
  fail(ErrorCode::unsupported,
       "{}: asks for {}, which is refused (nothing was executed): only tensors, dicts, lists, numbers and texts are "
       "read",
       subject, full);
}

void push_global(PickleStack& stack, std::string_view module, std::string_view name) {
  std::optional<PickleValue> value = pickle_global(module, name);
  if (!value) refuse_global(stack, module, name);
  stack.push(std::move(value->data));
}

void reduce(PickleStack& stack) {
  const PickleValue* tuple = stack.pop();
  const auto function = stack.as<PickleCallable>(stack.pop(), "a function that may be called");
  switch (function) {
    case PickleCallable::ordered_dict:
      if (!arguments(stack, tuple, 0).empty()) stack.reader().malformed("an OrderedDict made from arguments");
      stack.push(PickleDict{});
      return;
    case PickleCallable::rebuild_tensor:
    case PickleCallable::rebuild_tensor_v2:
    case PickleCallable::rebuild_tensor_v3:
      push_tensor(stack, tuple, function);
      return;
    case PickleCallable::rebuild_parameter:
      stack.push(std::make_unique<PickleTensor>(
          *stack.as<std::unique_ptr<PickleTensor>>(arguments(stack, tuple, 1)[0], "a tensor")));
      return;
    case PickleCallable::size:
      stack.push_tuple(axes(stack, arguments(stack, tuple, 1)[0], "a size"));
      return;
    case PickleCallable::device:
      stack.push(short_text(stack, arguments(stack, tuple, 1)[0], "the name of a device"));
      return;
    case PickleCallable::encode: {
      const auto& text = stack.as<std::string>(arguments(stack, tuple, 1)[0], "a text");
      stack.charge(text.size() / sizeof(PickleValue));
      stack.push(std::make_unique<PickleBytes>(PickleBytes{text}));
      return;
    }
  }
}

void push_storage(PickleStack& stack) {
  const auto& items = arguments(stack, stack.pop(), 5);
  if (stack.as<std::string>(items[0], "'storage'") != "storage") stack.reader().malformed("an unknown persistent id");
  PickleStorage storage{short_text(stack, items[2], "the key of a storage"),
                        stack.as<PickleTypeName>(items[1], "a storage class").dtype,
                        stack.as<std::int64_t>(items[4], "a count")};
  storage.is_view = items.size() > 5 && !std::holds_alternative<std::monostate>(items[5]->data);
  stack.push(std::make_shared<const PickleStorage>(std::move(storage)));
}

void build(PickleStack& stack) {
  stack.pop();
  const PickleValue* value = stack.top();
  if (!std::holds_alternative<PickleDict>(value->data))
    stack.reader().malformed(fmt::format("sets the state of {}", value->kind()));
}

}  // namespace kirchhoff::io
