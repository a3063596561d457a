#include <array>  // for array

#include "io/printable.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/io/gguf.h"

namespace kirchhoff::io {
namespace {

/// In the order of GgufValue's alternatives.
constexpr std::array<std::string_view, 8> kKinds{
    "a boolean",           "an integer",         "a number", "a string", "an array of booleans", "an array of integers",
    "an array of numbers", "an array of strings"};

template <class T>
const T& typed(const GgufMetadata& metadata, std::string_view key, std::string_view expected) {
  const GgufValue* value = metadata.find(key);
  check(value != nullptr, ErrorCode::format, "'{}': key {} is missing, expected {}", metadata.path(), printable(key),
        expected);
  const T* result = std::get_if<T>(value);
  check(result != nullptr, ErrorCode::format, "'{}': key {} is {}, expected {}", metadata.path(), printable(key),
        kKinds[value->index()], expected);
  return *result;
}

}  // namespace

GgufMetadata::GgufMetadata(std::string path, std::map<std::string, GgufValue, std::less<>> values, int version)
    : path_(std::move(path)), values_(std::move(values)), version_(version) {}

bool GgufMetadata::has(std::string_view key) const { return values_.find(key) != values_.end(); }

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

const std::string& GgufMetadata::text(std::string_view key) const { return typed<std::string>(*this, key, kKinds[3]); }

std::int64_t GgufMetadata::integer(std::string_view key) const { return typed<std::int64_t>(*this, key, kKinds[1]); }

double GgufMetadata::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value != nullptr && std::holds_alternative<std::int64_t>(*value))
    return static_cast<double>(std::get<std::int64_t>(*value));
  return typed<double>(*this, key, kKinds[2]);
}

bool GgufMetadata::boolean(std::string_view key) const { return typed<bool>(*this, key, kKinds[0]); }

const std::vector<std::string>& GgufMetadata::texts(std::string_view key) const {
  return typed<std::vector<std::string>>(*this, key, kKinds[7]);
}

const std::vector<std::int64_t>& GgufMetadata::integers(std::string_view key) const {
  return typed<std::vector<std::int64_t>>(*this, key, kKinds[5]);
}

const std::vector<double>& GgufMetadata::numbers(std::string_view key) const {
  return typed<std::vector<double>>(*this, key, kKinds[6]);
}

std::string GgufMetadata::text_or(std::string_view key, std::string fallback) const {
  return has(key) ? text(key) : std::move(fallback);
}

std::int64_t GgufMetadata::integer_or(std::string_view key, std::int64_t fallback) const {
  return has(key) ? integer(key) : fallback;
}

double GgufMetadata::number_or(std::string_view key, double fallback) const {
  return has(key) ? number(key) : fallback;
}

bool GgufMetadata::boolean_or(std::string_view key, bool fallback) const { return has(key) ? boolean(key) : fallback; }

}  // namespace kirchhoff::io
