#include "io/gguf_reader.h"

#include <algorithm>  // for max
#include <limits>     // for numeric_limits

#include "io/printable.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::io {
namespace {

/// Value types of the format (enum gguf_type in gguf.h).
enum class ValueType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
constexpr std::uint32_t kValueTypes = 13;

constexpr std::size_t bytes_of(ValueType type) {
  constexpr std::array<std::size_t, kValueTypes> kBytes{1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};  // smallest
  return kBytes[static_cast<std::size_t>(type)];
}

/// Decoded values are wider than stored ones (a byte becomes an int64, an empty string 32 bytes). What they may take in
/// memory is bounded by the file, with room for the vocabulary of a small file.
class Budget {
 public:
  explicit Budget(std::uint64_t file_size) : left_(std::max<std::uint64_t>(2 * file_size, std::uint64_t{64} << 20)) {}
  void take(std::uint64_t bytes, const std::string& path, std::string_view key) {
    check(bytes <= left_, ErrorCode::unsupported,
          "'{}': key {}: the metadata would take more memory than twice the file", path, printable(key));
    left_ -= bytes;
  }

 private:
  std::uint64_t left_;
};

ValueType value_type(GgufReader& reader, const std::string& what, std::string_view key) {
  const auto number = reader.number<std::uint32_t>(what);
  check(number < kValueTypes, ErrorCode::format, "'{}': key {}: unknown value type {}", reader.path(), printable(key),
        number);
  return static_cast<ValueType>(number);
}

bool boolean(GgufReader& reader, const std::string& what) {
  const auto value = reader.number<std::uint8_t>(what);
  check(value <= 1, ErrorCode::format, "'{}': {}: a boolean is {}, expected 0 or 1", reader.path(), what, value);
  return value == 1;
}

std::int64_t integer(GgufReader& reader, ValueType type, const std::string& what) {
  switch (type) {
    case ValueType::u8:
      return reader.number<std::uint8_t>(what);
    case ValueType::i8:
      return reader.number<std::int8_t>(what);
    case ValueType::u16:
      return reader.number<std::uint16_t>(what);
    case ValueType::i16:
      return reader.number<std::int16_t>(what);
    case ValueType::u32:
      return reader.number<std::uint32_t>(what);
    case ValueType::i32:
      return reader.number<std::int32_t>(what);
    case ValueType::u64: {
      const auto value = reader.number<std::uint64_t>(what);
      check(value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()), ErrorCode::unsupported,
            "'{}': {}: {} exceeds 2^63 - 1", reader.path(), what, value);
      return static_cast<std::int64_t>(value);
    }
    default:
      return reader.number<std::int64_t>(what);
  }
}

double real(GgufReader& reader, ValueType type, const std::string& what) {
  return type == ValueType::f32 ? static_cast<double>(reader.number<float>(what)) : reader.number<double>(what);
}

/// `count` elements, already known to fit into what is left of the file.
template <class T, class Read>
GgufValue elements(std::uint64_t count, Read&& read) {
  std::vector<T> values;
  values.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) values.push_back(read());
  return values;
}

GgufValue array(GgufReader& reader, Budget& budget, std::string_view key, const std::string& what) {
  const ValueType type = value_type(reader, what, key);
  check(type != ValueType::array, ErrorCode::unsupported, "'{}': key {}: arrays of arrays are not supported",
        reader.path(), printable(key));
  const std::uint64_t count = reader.count(bytes_of(type), "array length of " + what);
  budget.take(count * (type == ValueType::string ? sizeof(std::string) : sizeof(std::int64_t)), reader.path(), key);
  switch (type) {
    case ValueType::boolean:
      return elements<bool>(count, [&] { return boolean(reader, what); });
    case ValueType::string:
      return elements<std::string>(count, [&] { return std::string(reader.text(what)); });
    case ValueType::f32:
    case ValueType::f64:
      return elements<double>(count, [&] { return real(reader, type, what); });
    default:
      return elements<std::int64_t>(count, [&] { return integer(reader, type, what); });
  }
}

GgufValue value(GgufReader& reader, Budget& budget, std::string_view key) {
  const std::string what = "key " + printable(key);
  const ValueType type = value_type(reader, what, key);
  switch (type) {
    case ValueType::boolean:
      return boolean(reader, what);
    case ValueType::string:
      return std::string(reader.text(what));
    case ValueType::array:
      return array(reader, budget, key, what);
    case ValueType::f32:
    case ValueType::f64:
      return real(reader, type, what);
    default:
      return integer(reader, type, what);
  }
}

}  // namespace

void GgufReader::need(std::uint64_t bytes, std::string_view what) const {
  check(bytes <= left(), ErrorCode::format, "'{}': truncated: the file ends at byte {} inside {}", path(), file_.size(),
        what);
}

std::string_view GgufReader::text(std::string_view what) {
  const auto length = number<std::uint64_t>(what);
  check(length <= left(), ErrorCode::format,
        "'{}': {}: string length {} exceeds the {} bytes left of the file (truncated at byte {}?)", path(), what,
        length, left(), file_.size());
  const std::string_view result = file_.text().substr(position_, length);
  position_ += length;
  return result;
}

std::uint64_t GgufReader::count(std::uint64_t smallest, std::string_view what) {
  const auto claimed = number<std::uint64_t>(what);
  check(claimed <= left() / smallest, ErrorCode::format,
        "'{}': {} is {}, more than fits into the {} bytes left of the file", path(), what, claimed, left());
  return claimed;
}

std::map<std::string, GgufValue, std::less<>> read_gguf_values(GgufReader& reader, std::uint64_t count) {
  constexpr std::size_t kLongestKey = 65535;  // the format's limit
  std::map<std::string, GgufValue, std::less<>> values;
  Budget budget(reader.file().size());
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string_view key = reader.text("the name of a key");
    check(!key.empty() && key.size() <= kLongestKey, ErrorCode::format, "'{}': the name of key {} of {} has {} bytes",
          reader.path(), i + 1, count, key.size());
    check(!values.contains(key), ErrorCode::format, "'{}': duplicate key {}", reader.path(), printable(key));
    budget.take(128, reader.path(), key);  // a node of the map, of which the shortest pair takes 14 bytes of the file
    values.emplace(key, value(reader, budget, key));
  }
  return values;
}

}  // namespace kirchhoff::io
