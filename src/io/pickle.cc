#include "io/pickle.h"

#include <algorithm>      // for max, reverse
#include <bit>            // for bit_cast
#include <charconv>       // for from_chars
#include <unordered_map>  // for unordered_map

#include "io/bytes.h"
#include "io/pickle_names.h"
#include "io/printable.h"
#include "io/utf8.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::io {
namespace {

/// Opcodes of Python's pickletools, those that build data.
enum class Op : unsigned char {
  mark = '(',
  stop = '.',
  pop = '0',
  pop_mark = '1',
  dup = '2',
  float_text = 'F',
  int_text = 'I',
  binint = 'J',
  binint1 = 'K',
  long_text = 'L',
  binint2 = 'M',
  none = 'N',
  persid = 'P',
  binpersid = 'Q',
  reduce = 'R',
  string = 'S',
  binstring = 'T',
  short_binstring = 'U',
  unicode = 'V',
  binunicode = 'X',
  append = 'a',
  build = 'b',
  global = 'c',
  dict = 'd',
  empty_dict = '}',
  appends = 'e',
  get = 'g',
  binget = 'h',
  inst = 'i',
  long_binget = 'j',
  list = 'l',
  empty_list = ']',
  obj = 'o',
  put = 'p',
  binput = 'q',
  long_binput = 'r',
  setitem = 's',
  tuple = 't',
  empty_tuple = ')',
  setitems = 'u',
  binfloat = 'G',
  proto = 0x80,
  newobj = 0x81,
  ext1 = 0x82,
  ext2 = 0x83,
  ext4 = 0x84,
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  newtrue = 0x88,
  newfalse = 0x89,
  long1 = 0x8a,
  long4 = 0x8b,
  binbytes = 'B',
  short_binbytes = 'C',
  short_binunicode = 0x8c,
  binunicode8 = 0x8d,
  binbytes8 = 0x8e,
  empty_set = 0x8f,
  additems = 0x90,
  frozenset = 0x91,
  newobj_ex = 0x92,
  stack_global = 0x93,
  memoize = 0x94,
  frame = 0x95,
  bytearray8 = 0x96,
  next_buffer = 0x97,
  readonly_buffer = 0x98,
};

constexpr std::size_t kMostDims = 64;  // as in torch

class Unpickler {
 public:
  Unpickler(const FileBytes& file, const std::string& member)
      : file_(file),
        subject_(member.empty() ? fmt::format("'{}': pickle", file.path)
                                : fmt::format("'{}': {}", file.path, printable(member))) {
    // A value takes 48 bytes here and as little as one in the file.
    values_left_ = std::max<std::uint64_t>(std::uint64_t{1} << 20, file.size() / 32 * 2);
  }

  Pickle run() {
    while (step(number<Op>("an opcode"))) {
    }
    check(stack_.size() == 1 && marks_.empty(), ErrorCode::format, "{}: ends with {} values on the stack, expected 1",
          subject_, stack_.size());
    result_.top = stack_.back();
    result_.consumed = position_;
    return std::move(result_);
  }

 private:
  // --- reading
  // ---------------------------------------------------------------------------------------------------------

  [[noreturn]] void malformed(std::string_view what) const {
    fail(ErrorCode::format, "{}: {} (byte {} of {})", subject_, what, position_, file_.size());
  }
  void need(std::uint64_t bytes, std::string_view what) const {
    if (bytes > file_.size() - position_) malformed(fmt::format("truncated inside {}", what));
  }
  template <class T>
  T number(std::string_view what) {
    need(sizeof(T), what);
    const T value = load<T>(file_.bytes.data() + position_);
    position_ += sizeof(T);
    return value;
  }
  template <class Length>
  std::string counted(std::string_view what) {
    const auto length = static_cast<std::uint64_t>(number<Length>(what));
    need(length, what);
    std::string result(file_.text().substr(position_, length));
    position_ += length;
    return result;
  }
  std::string_view line(std::string_view what) {
    const std::size_t end = file_.text().find('\n', position_);
    if (end == std::string_view::npos) malformed(fmt::format("truncated inside {}", what));
    const std::string_view result = file_.text().substr(position_, end - position_);
    position_ = end + 1;
    return result;
  }
  template <class T>
  T line_number(std::string_view text) const {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
      malformed(fmt::format("{} is no number", printable(text)));
    return value;
  }

  // --- the stack
  // -------------------------------------------------------------------------------------------------------

  /// A few bytes of a pickle can ask for large copies again and again: whatever takes memory is counted.
  void charge(std::uint64_t values) {
    if (values > values_left_) malformed("more values than a model file has use for");
    values_left_ -= values;
  }
  template <class T>
  PickleValue* push(T&& data) {
    charge(1);
    stack_.push_back(&result_.arena.emplace_back(PickleValue{std::forward<T>(data)}));
    return stack_.back();
  }
  PickleValue* pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) malformed("takes a value off an empty stack");
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }
  PickleValue* top() {
    PickleValue* value = pop();
    stack_.push_back(value);
    return value;
  }
  std::vector<const PickleValue*> pop_to_mark() {
    if (marks_.empty()) malformed("takes values up to a mark that is not there");
    std::vector<const PickleValue*> values(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return values;
  }
  void push_tuple(std::vector<const PickleValue*> items) { push(PickleSequence{std::move(items), true}); }
  void push_tuple_of(std::size_t count) {
    std::vector<const PickleValue*> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push_tuple(std::move(items));
  }
  void push_text(std::string text) {
    if (!is_utf8(text)) malformed("a text is not UTF-8");
    push(std::move(text));
  }
  void push_bytes(std::string bytes) { push(std::make_unique<PickleBytes>(PickleBytes{std::move(bytes)})); }

  // --- containers
  // ------------------------------------------------------------------------------------------------------

  void append(const std::vector<const PickleValue*>& items) {
    auto* list = std::get_if<PickleSequence>(&top()->data);
    if (list == nullptr || list->is_tuple) malformed(fmt::format("appends to {}", top()->kind()));
    list->items.insert(list->items.end(), items.begin(), items.end());
  }
  static PickleDict dict_of(const std::vector<const PickleValue*>& flat) {
    PickleDict dict;
    for (std::size_t i = 0; i + 1 < flat.size(); i += 2) dict.items.emplace_back(flat[i], flat[i + 1]);
    return dict;
  }
  void set_items(const std::vector<const PickleValue*>& flat) {
    auto* dict = std::get_if<PickleDict>(&top()->data);
    if (dict == nullptr) malformed(fmt::format("sets items of {}", top()->kind()));
    if (flat.size() % 2 != 0) malformed("a dict with a key without a value");
    const PickleDict added = dict_of(flat);
    dict->items.insert(dict->items.end(), added.items.begin(), added.items.end());
  }

  // --- the memo
  // --------------------------------------------------------------------------------------------------------

  void put(std::uint64_t slot) {
    PickleValue* value = top();
    memo_[slot] = value;
  }
  void get(std::uint64_t slot) {
    const auto found = memo_.find(slot);
    if (found == memo_.end()) malformed(fmt::format("asks for memo {}, which is not set", slot));
    stack_.push_back(found->second);
    charge(1);
  }

  // --- numbers and texts
  // -----------------------------------------------------------------------------------------------

  void push_integer(std::string_view little_endian) {
    if (little_endian.size() > sizeof(std::int64_t)) {
      push(std::make_unique<PickleBytes>(PickleBytes{std::string(little_endian), true}));
      return;
    }
    std::uint64_t bits = 0;
    for (std::size_t i = little_endian.size(); i-- > 0;)
      bits = bits << 8 | static_cast<unsigned char>(little_endian[i]);
    if (const std::size_t size = little_endian.size(); size > 0 && size < 8 && (little_endian.back() & 0x80) != 0)
      bits |= ~std::uint64_t{0} << (8 * size);
    push(std::bit_cast<std::int64_t>(bits));
  }
  void push_integer_text() {
    const std::string_view text = line("an integer");
    if (text == "00" || text == "01")  // protocol 0 writes booleans so
      push(text == "01");
    else
      push(line_number<std::int64_t>(text.ends_with('L') ? text.substr(0, text.size() - 1) : text));
  }
  void push_big_endian_float() {
    auto bits = number<std::array<std::byte, 8>>("a number");
    std::reverse(bits.begin(), bits.end());
    push(std::bit_cast<double>(bits));
  }
  /// 'text' without escapes; torch never writes others.
  void push_quoted_text() {
    const std::string_view text = line("a text");
    if (text.size() < 2 || text.front() != text.back()) malformed(fmt::format("{} has no quotes", printable(text)));
    push_plain_text(text.substr(1, text.size() - 2));
  }
  void push_plain_text(std::string_view text) {
    if (text.find('\\') != std::string_view::npos) malformed(fmt::format("{} has escapes", printable(text)));
    push_text(std::string(text));
  }

  // --- names and calls
  // -------------------------------------------------------------------------------------------------

  [[noreturn]] void refuse(std::string_view name) const {
    if (name.starts_with("torch.nn."))
      fail(ErrorCode::unsupported, "{}: holds an object of '{}', not a state_dict; save model.state_dict() instead",
           subject_, name);
    fail(ErrorCode::unsupported,
         "{}: asks for {}, which is refused (nothing was executed): only tensors, dicts, lists, numbers "
         "and texts are read",
         subject_, printable(name));
  }
  void global(std::string_view module, std::string_view name) {
    std::optional<PickleValue> value = pickle_global(module, name);
    if (!value) refuse(fmt::format("{}.{}", module, name));
    push(std::move(value->data));
  }

  const std::vector<const PickleValue*>& arguments(const PickleValue* value, std::size_t least) const {
    const auto* tuple = std::get_if<PickleSequence>(&value->data);
    if (tuple == nullptr || tuple->items.size() < least) malformed("a call with too few arguments");
    return tuple->items;
  }
  template <class T>
  const T& as(const PickleValue* value, std::string_view expected) const {
    const T* result = std::get_if<T>(&value->data);
    if (result == nullptr) malformed(fmt::format("found {}, expected {}", value->kind(), expected));
    return *result;
  }
  Shape integers(const PickleValue* value, std::string_view what) const {
    const std::vector<const PickleValue*>& items = as<PickleSequence>(value, what).items;
    if (items.size() > kMostDims) malformed(fmt::format("{} of {} axes", what, items.size()));
    Shape result;
    for (const PickleValue* item : items) result.push_back(as<std::int64_t>(item, what));
    return result;
  }

  const std::string& name_argument(const PickleValue* value, std::string_view expected) const {
    constexpr std::size_t kLongest = 256;
    const auto& name = as<std::string>(value, expected);
    if (name.size() > kLongest) malformed(fmt::format("{} of {} bytes", expected, name.size()));
    return name;
  }

  /// _rebuild_tensor(storage, offset, size, stride), v2 with further arguments that do not matter, v3 with a dtype as
  /// the seventh: the storage is untyped.
  void push_tensor(const PickleValue* tuple, PickleCallable which) {
    const auto& items = arguments(tuple, which == PickleCallable::rebuild_tensor_v3 ? 7 : 4);
    auto tensor = std::make_unique<PickleTensor>();
    tensor->storage = as<std::shared_ptr<const PickleStorage>>(items[0], "a storage");
    tensor->offset = as<std::int64_t>(items[1], "a storage offset");
    tensor->shape = integers(items[2], "a size");
    tensor->strides = integers(items[3], "a stride");
    tensor->dtype = which == PickleCallable::rebuild_tensor_v3 ? as<PickleTypeName>(items[6], "a dtype").dtype
                                                               : tensor->storage->dtype;
    push(std::move(tensor));
  }

  void reduce() {
    const PickleValue* tuple = pop();
    const PickleValue* function = pop();
    switch (as<PickleCallable>(function, "a function that may be called")) {
      case PickleCallable::ordered_dict:
        if (!arguments(tuple, 0).empty()) malformed("an OrderedDict made from arguments");
        push(PickleDict{});
        return;
      case PickleCallable::rebuild_tensor:
      case PickleCallable::rebuild_tensor_v2:
      case PickleCallable::rebuild_tensor_v3:
        return push_tensor(tuple, as<PickleCallable>(function, ""));
      case PickleCallable::rebuild_parameter: {
        const PickleTensor& tensor = *as<std::unique_ptr<PickleTensor>>(arguments(tuple, 1)[0], "a tensor");
        push(std::make_unique<PickleTensor>(tensor));
        return;
      }
      case PickleCallable::size: {
        const auto& items = as<PickleSequence>(arguments(tuple, 1)[0], "a size").items;
        if (items.size() > kMostDims) malformed(fmt::format("a size of {} axes", items.size()));
        return push_tuple(items);
      }
      case PickleCallable::device:
        push(name_argument(arguments(tuple, 1)[0], "the name of a device"));
        return;
      case PickleCallable::encode: {
        const auto& text = as<std::string>(arguments(tuple, 1)[0], "a text");
        charge(text.size() / sizeof(PickleValue));
        return push_bytes(text);
      }
    }
  }

  /// ('storage', class, key, location, count[, view]).
  void push_storage() {
    const auto& items = arguments(pop(), 5);
    if (as<std::string>(items[0], "'storage'") != "storage") malformed("an unknown persistent id");
    const auto& type = as<PickleTypeName>(items[1], "a storage class");
    PickleStorage storage{name_argument(items[2], "the key of a storage"), type.dtype,
                          as<std::int64_t>(items[4], "a count")};
    storage.is_view = items.size() > 5 && !std::holds_alternative<std::monostate>(items[5]->data);
    push(std::make_shared<const PickleStorage>(std::move(storage)));
  }

  /// The state of an OrderedDict (its _metadata) is of no use here; nothing else here has one.
  void build() {
    pop();
    if (!std::holds_alternative<PickleDict>(top()->data)) malformed(fmt::format("sets the state of {}", top()->kind()));
  }

  bool step(Op op);

  const FileBytes& file_;
  std::string subject_;
  std::uint64_t position_ = 0, values_left_ = 0;
  Pickle result_;
  std::vector<PickleValue*> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PickleValue*> memo_;
};

/// Executes one opcode; false after STOP.
bool Unpickler::step(Op op) {
  switch (op) {
    case Op::proto:
      if (const int protocol = number<std::uint8_t>("the protocol"); protocol > 5)
        fail(ErrorCode::unsupported, "{}: pickle protocol {} (0 to 5 are read)", subject_, protocol);
      return true;
    case Op::frame:
      number<std::uint64_t>("a frame");
      return true;
    case Op::stop:
      return false;
    case Op::mark:
      marks_.push_back(stack_.size());
      charge(1);
      return true;
    case Op::pop:
      pop();
      return true;
    case Op::pop_mark:
      pop_to_mark();
      return true;
    case Op::dup:
      stack_.push_back(top());
      charge(1);
      return true;

    case Op::none:
      push(std::monostate{});
      return true;
    case Op::newtrue:
    case Op::newfalse:
      push(op == Op::newtrue);
      return true;
    case Op::int_text:
    case Op::long_text:
      push_integer_text();
      return true;
    case Op::binint:
      push(std::int64_t{number<std::int32_t>("an integer")});
      return true;
    case Op::binint1:
      push(std::int64_t{number<std::uint8_t>("an integer")});
      return true;
    case Op::binint2:
      push(std::int64_t{number<std::uint16_t>("an integer")});
      return true;
    case Op::long1:
      push_integer(counted<std::uint8_t>("an integer"));
      return true;
    case Op::long4:
      push_integer(counted<std::uint32_t>("an integer"));
      return true;
    case Op::float_text:
      push(line_number<double>(line("a number")));
      return true;
    case Op::binfloat:
      push_big_endian_float();
      return true;

    case Op::string:
      push_quoted_text();
      return true;
    case Op::binstring:
      push_text(counted<std::uint32_t>("a text"));
      return true;
    case Op::short_binstring:
    case Op::short_binunicode:
      push_text(counted<std::uint8_t>("a text"));
      return true;
    case Op::unicode:
      push_plain_text(line("a text"));
      return true;
    case Op::binunicode:
      push_text(counted<std::uint32_t>("a text"));
      return true;
    case Op::binunicode8:
      push_text(counted<std::uint64_t>("a text"));
      return true;
    case Op::short_binbytes:
      push_bytes(counted<std::uint8_t>("bytes"));
      return true;
    case Op::binbytes:
      push_bytes(counted<std::uint32_t>("bytes"));
      return true;
    case Op::binbytes8:
    case Op::bytearray8:
      push_bytes(counted<std::uint64_t>("bytes"));
      return true;

    case Op::empty_list:
      push(PickleSequence{});
      return true;
    case Op::list:
      push(PickleSequence{pop_to_mark()});
      return true;
    case Op::append:
      append({pop()});
      return true;
    case Op::appends: {
      const auto items = pop_to_mark();
      append(items);
      return true;
    }
    case Op::empty_tuple:
      push_tuple({});
      return true;
    case Op::tuple:
      push_tuple(pop_to_mark());
      return true;
    case Op::tuple1:
    case Op::tuple2:
    case Op::tuple3:
      push_tuple_of(static_cast<std::size_t>(op) - static_cast<std::size_t>(Op::tuple1) + 1);
      return true;
    case Op::empty_dict:
      push(PickleDict{});
      return true;
    case Op::dict: {
      const auto flat = pop_to_mark();
      if (flat.size() % 2 != 0) malformed("a dict with a key without a value");
      push(dict_of(flat));
      return true;
    }
    case Op::setitem: {
      const PickleValue* value = pop();
      const PickleValue* key = pop();
      set_items({key, value});
      return true;
    }
    case Op::setitems: {
      const auto flat = pop_to_mark();
      set_items(flat);
      return true;
    }

    case Op::put:
      put(line_number<std::uint64_t>(line("a memo slot")));
      return true;
    case Op::binput:
      put(number<std::uint8_t>("a memo slot"));
      return true;
    case Op::long_binput:
      put(number<std::uint32_t>("a memo slot"));
      return true;
    case Op::memoize:
      put(memo_.size());
      return true;
    case Op::get:
      get(line_number<std::uint64_t>(line("a memo slot")));
      return true;
    case Op::binget:
      get(number<std::uint8_t>("a memo slot"));
      return true;
    case Op::long_binget:
      get(number<std::uint32_t>("a memo slot"));
      return true;

    case Op::global: {
      const std::string_view module = line("a global name"), name = line("a global name");
      global(module, name);
      return true;
    }
    case Op::stack_global: {
      const std::string name = as<std::string>(pop(), "a global name"), module = as<std::string>(pop(), "a module");
      global(module, name);
      return true;
    }
    case Op::inst: {
      const std::string_view module = line("a global name"), name = line("a global name");
      refuse(fmt::format("{}.{}", module, name));
    }
    case Op::reduce:
      reduce();
      return true;
    case Op::build:
      build();
      return true;
    case Op::binpersid:
      push_storage();
      return true;

    case Op::persid:
    case Op::obj:
    case Op::newobj:
    case Op::newobj_ex:
    case Op::ext1:
    case Op::ext2:
    case Op::ext4:
    case Op::empty_set:
    case Op::additems:
    case Op::frozenset:
    case Op::next_buffer:
    case Op::readonly_buffer:
      fail(ErrorCode::unsupported, "{}: opcode 0x{:02x} (objects, sets, extensions) at byte {} is refused", subject_,
           static_cast<unsigned>(op), position_ - 1);
  }
  malformed(fmt::format("unknown opcode 0x{:02x}", static_cast<unsigned>(op)));
}

}  // namespace

std::string_view PickleValue::kind() const {
  constexpr std::array<std::string_view, 12> kKinds{"None",       "a boolean", "an integer", "a number",
                                                    "a text",     "bytes",     "a list",     "a dict",
                                                    "a function", "a type",    "a storage",  "a tensor"};
  if (const auto* sequence = std::get_if<PickleSequence>(&data); sequence != nullptr && sequence->is_tuple)
    return "a tuple";
  return kKinds[data.index()];
}

Pickle parse_pickle(const FileBytes& bytes, const std::string& member) { return Unpickler(bytes, member).run(); }

}  // namespace kirchhoff::io
