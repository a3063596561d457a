#include "kirchhoff/io/json_file.h"

#include <algorithm>  // for adjacent_find, sort
#include <array>      // for array

#include "io/json_error.h"
#include "io/json_members.h"
#include "io/printable.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/io/mapped_file.h"

namespace kirchhoff::io {
namespace {

using Json = nlohmann::ordered_json;

/// Builds the document and keeps to the rules that nlohmann's own builder does not know. Members are appended to an
/// object without a look-up (ordered_json's is linear, so a large object would take quadratic time) and compared when
/// it closes.
class StrictBuilder {
 public:
  StrictBuilder(std::string_view text, const std::string& path, const JsonLimits& limits)
      : text_(text), path_(path), limits_(limits) {}

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(std::int64_t value) { return add(value); }
  bool number_unsigned(std::uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }

  bool key(std::string& name) {
    key_ = name;
    return true;
  }

  bool end_object() {
    std::vector<std::string_view> names;
    for (const auto& [name, value] : members(*open_.back())) names.push_back(name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) fail(ErrorCode::format, "'{}': duplicate key {}", path_, printable(*twice));
    return close();
  }
  bool end_array() { return close(); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) {
    const std::string near = key_.empty() ? "" : fmt::format(" (after the key {})", printable(key_));
    fail(ErrorCode::format, "'{}': not valid JSON at byte {}{}: {}", path_, position, near,
         json_complaint(text_, position, error.what()));
  }

  Json take() { return std::move(root_); }

 private:
  Json* append(Json&& value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_object()) {
      members(parent).emplace_back(std::move(key_), std::move(value));
      key_.clear();
      return &members(parent).back().second;
    }
    auto& items = parent.get_ref<Json::array_t&>();
    items.push_back(std::move(value));
    return &items.back();
  }
  template <class T>
  bool add(T&& value) {
    append(Json(std::forward<T>(value)));
    return true;
  }
  bool open(Json&& value) {
    check(static_cast<int>(open_.size()) < limits_.max_depth, ErrorCode::format,
          "'{}': JSON objects and arrays nested deeper than {}", path_, limits_.max_depth);
    open_.push_back(append(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  const std::string& path_;
  const JsonLimits& limits_;
  Json root_;
  std::vector<Json*> open_;  // stable: only the innermost container grows
  std::string key_;
};

}  // namespace

std::string json_complaint(std::string_view text, std::size_t position, std::string_view what) {
  const std::size_t at = position == 0 ? 0 : std::min(position, text.size()) - 1;
  for (std::string_view literal : {"NaN", "Infinity"})
    if (!text.empty() && text.substr(at, literal.size()) == literal) {
      const bool negative = at > 0 && text[at - 1] == '-';
      return fmt::format("the value is {}{}, which JSON does not have", negative ? "-" : "", literal);
    }
  // "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error while ...; last read: '...'"
  if (const std::size_t prefix = what.find("] "); prefix != std::string_view::npos) what.remove_prefix(prefix + 2);
  if (what.starts_with("parse error at"))
    if (const std::size_t colon = what.find(": "); colon != std::string_view::npos) what.remove_prefix(colon + 2);
  std::string cleaned;
  for (char c : what)
    cleaned += static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7F ? '?' : c;
  constexpr std::size_t kLongest = 200;
  if (cleaned.size() <= kLongest) return cleaned;
  cleaned.resize(kLongest);
  return cleaned.append("...");
}

void refuse_nul(std::string_view text, const std::string& what) {
  const std::size_t at = text.find('\0');
  check(at == std::string_view::npos, ErrorCode::format, "{} is not valid JSON at byte {}: a NUL byte", what, at + 1);
}

nlohmann::ordered_json parse_json(std::string_view text, const std::string& path, const JsonLimits& limits) {
  check(static_cast<Index>(text.size()) <= limits.max_bytes, ErrorCode::format,
        "'{}': {} bytes of JSON, at most {} are read", path, text.size(), limits.max_bytes);
  refuse_nul(text, fmt::format("'{}'", path));
  StrictBuilder builder(text, path, limits);
  Json::sax_parse(text, &builder);
  Json result = builder.take();
  check(!limits.object_at_top || result.is_object(), ErrorCode::format,
        "'{}': the top level is {} {}, expected a JSON object", path, result.is_array() ? "an" : "a",
        result.type_name());
  return result;
}

nlohmann::ordered_json read_json_file(const std::string& path, const JsonLimits& limits) {
  return parse_json(map_file(path).text(), path, limits);
}

}  // namespace kirchhoff::io
