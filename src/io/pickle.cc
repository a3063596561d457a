#include "io/pickle.h"

#include <algorithm>  // for reverse
#include <array>      // for array
#include <bit>        // for bit_cast

#include "io/pickle_calls.h"
#include "io/pickle_reader.h"
#include "io/pickle_stack.h"

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

class Unpickler {
 public:
  Unpickler(const FileBytes& file, const std::string& member)
      : reader_(file, member.empty() ? fmt::format("'{}': pickle", file.path)
                                     : fmt::format("'{}': {}", file.path, printable(member))),
        stack_(reader_) {}

  Pickle run() {
    while (step(reader_.number<Op>("an opcode"))) {
    }
    return stack_.finish();
  }

 private:
  void push_integer(std::string_view little_endian) {
    if (little_endian.size() > sizeof(std::int64_t)) {
      stack_.push(std::make_unique<PickleBytes>(PickleBytes{std::string(little_endian), true}));
      return;
    }
    std::uint64_t bits = 0;
    for (std::size_t i = little_endian.size(); i-- > 0;)
      bits = bits << 8 | static_cast<unsigned char>(little_endian[i]);
    if (const std::size_t size = little_endian.size(); size > 0 && size < 8 && (little_endian.back() & 0x80) != 0)
      bits |= ~std::uint64_t{0} << (8 * size);
    stack_.push(std::bit_cast<std::int64_t>(bits));
  }
  void push_integer_text() {
    const std::string_view text = reader_.line("an integer");
    if (text == "00" || text == "01")  // protocol 0 writes booleans so
      stack_.push(text == "01");
    else
      stack_.push(reader_.parse_number<std::int64_t>(text.ends_with('L') ? text.substr(0, text.size() - 1) : text));
  }
  void push_big_endian_float() {
    auto bits = reader_.number<std::array<std::byte, 8>>("a number");
    std::reverse(bits.begin(), bits.end());
    stack_.push(std::bit_cast<double>(bits));
  }
  /// 'text' without escapes; torch never writes others.
  void push_quoted_text() {
    const std::string_view text = reader_.line("a text");
    if (text.size() < 2 || text.front() != text.back())
      reader_.malformed(fmt::format("{} has no quotes", printable(text)));
    push_plain_text(text.substr(1, text.size() - 2));
  }
  void push_plain_text(std::string_view text) {
    if (text.find('\\') != std::string_view::npos) reader_.malformed(fmt::format("{} has escapes", printable(text)));
    stack_.push_text(std::string(text));
  }
  void push_bytes(std::string bytes) { stack_.push(std::make_unique<PickleBytes>(PickleBytes{std::move(bytes)})); }

  bool step(Op op);

  PickleReader reader_;
  PickleStack stack_;
};

/// Executes one opcode; false after STOP.
bool Unpickler::step(Op op) {
  switch (op) {
    case Op::proto:
      if (const int protocol = reader_.number<std::uint8_t>("the protocol"); protocol > 5)
        fail(ErrorCode::unsupported, "{}: pickle protocol {} (0 to 5 are read)", reader_.subject(), protocol);
      return true;
    case Op::frame:
      reader_.number<std::uint64_t>("a frame");
      return true;
    case Op::stop:
      return false;
    case Op::mark:
      stack_.mark();
      return true;
    case Op::pop:
      stack_.pop();
      return true;
    case Op::pop_mark:
      stack_.pop_to_mark();
      return true;
    case Op::dup:
      stack_.duplicate();
      return true;

    case Op::none:
      stack_.push(std::monostate{});
      return true;
    case Op::newtrue:
    case Op::newfalse:
      stack_.push(op == Op::newtrue);
      return true;
    case Op::int_text:
    case Op::long_text:
      push_integer_text();
      return true;
    case Op::binint:
      stack_.push(std::int64_t{reader_.number<std::int32_t>("an integer")});
      return true;
    case Op::binint1:
      stack_.push(std::int64_t{reader_.number<std::uint8_t>("an integer")});
      return true;
    case Op::binint2:
      stack_.push(std::int64_t{reader_.number<std::uint16_t>("an integer")});
      return true;
    case Op::long1:
      push_integer(reader_.counted<std::uint8_t>("an integer"));
      return true;
    case Op::long4:
      push_integer(reader_.counted<std::uint32_t>("an integer"));
      return true;
    case Op::float_text:
      stack_.push(reader_.parse_number<double>(reader_.line("a number")));
      return true;
    case Op::binfloat:
      push_big_endian_float();
      return true;

    case Op::string:
      push_quoted_text();
      return true;
    case Op::binstring:
      stack_.push_text(reader_.counted<std::uint32_t>("a text"));
      return true;
    case Op::short_binstring:
    case Op::short_binunicode:
      stack_.push_text(reader_.counted<std::uint8_t>("a text"));
      return true;
    case Op::unicode:
      push_plain_text(reader_.line("a text"));
      return true;
    case Op::binunicode:
      stack_.push_text(reader_.counted<std::uint32_t>("a text"));
      return true;
    case Op::binunicode8:
      stack_.push_text(reader_.counted<std::uint64_t>("a text"));
      return true;
    case Op::short_binbytes:
      push_bytes(reader_.counted<std::uint8_t>("bytes"));
      return true;
    case Op::binbytes:
      push_bytes(reader_.counted<std::uint32_t>("bytes"));
      return true;
    case Op::binbytes8:
    case Op::bytearray8:
      push_bytes(reader_.counted<std::uint64_t>("bytes"));
      return true;

    case Op::empty_list:
      stack_.push(PickleSequence{});
      return true;
    case Op::list:
      stack_.push(PickleSequence{stack_.pop_to_mark()});
      return true;
    case Op::append:
      stack_.append({stack_.pop()});
      return true;
    case Op::appends: {
      const auto items = stack_.pop_to_mark();
      stack_.append(items);
      return true;
    }
    case Op::empty_tuple:
      stack_.push_tuple({});
      return true;
    case Op::tuple:
      stack_.push_tuple(stack_.pop_to_mark());
      return true;
    case Op::tuple1:
    case Op::tuple2:
    case Op::tuple3:
      stack_.push_tuple_of(static_cast<std::size_t>(op) - static_cast<std::size_t>(Op::tuple1) + 1);
      return true;
    case Op::empty_dict:
      stack_.push(PickleDict{});
      return true;
    case Op::dict: {
      const auto flat = stack_.pop_to_mark();
      stack_.push_dict(flat);
      return true;
    }
    case Op::setitem: {
      const PickleValue* value = stack_.pop();
      const PickleValue* key = stack_.pop();
      stack_.set_items({key, value});
      return true;
    }
    case Op::setitems: {
      const auto flat = stack_.pop_to_mark();
      stack_.set_items(flat);
      return true;
    }

    case Op::put:
      stack_.memo_put(reader_.parse_number<std::uint64_t>(reader_.line("a memo slot")));
      return true;
    case Op::binput:
      stack_.memo_put(reader_.number<std::uint8_t>("a memo slot"));
      return true;
    case Op::long_binput:
      stack_.memo_put(reader_.number<std::uint32_t>("a memo slot"));
      return true;
    case Op::memoize:
      stack_.memo_put(stack_.memo_size());
      return true;
    case Op::get:
      stack_.memo_get(reader_.parse_number<std::uint64_t>(reader_.line("a memo slot")));
      return true;
    case Op::binget:
      stack_.memo_get(reader_.number<std::uint8_t>("a memo slot"));
      return true;
    case Op::long_binget:
      stack_.memo_get(reader_.number<std::uint32_t>("a memo slot"));
      return true;

    case Op::global: {
      const std::string_view module = reader_.line("a global name"), name = reader_.line("a global name");
      push_global(stack_, module, name);
      return true;
    }
    case Op::stack_global: {
      const std::string name = stack_.as<std::string>(stack_.pop(), "a global name"),
                        module = stack_.as<std::string>(stack_.pop(), "a module");
      push_global(stack_, module, name);
      return true;
    }
    case Op::inst: {
      const std::string_view module = reader_.line("a global name"), name = reader_.line("a global name");
      refuse_global(stack_, module, name);
    }
    case Op::reduce:
      reduce(stack_);
      return true;
    case Op::build:
      build(stack_);
      return true;
    case Op::binpersid:
      push_storage(stack_);
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
      fail(ErrorCode::unsupported, "{}: opcode 0x{:02x} (objects, sets, extensions) at byte {} is refused",
           reader_.subject(), static_cast<unsigned>(op), reader_.position() - 1);
  }
  reader_.malformed(fmt::format("unknown opcode 0x{:02x}", static_cast<unsigned>(op)));
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
