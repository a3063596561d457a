#include "kirchhoff/model/config_reader.h"

#include <cmath>  // for isfinite

namespace kirchhoff {
namespace {

/// A value as messages print it; long ones are cut.
std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

}  // namespace

ConfigReader::ConfigReader(const Json& object, std::string file, std::string scope)
    : object_(&object), file_(std::move(file)), scope_(std::move(scope)) {
  const std::string what = scope_.empty() ? "the config" : fmt::format("key '{}'", scope_.substr(0, scope_.size() - 1));
  check(object.is_object(), ErrorCode::format, "'{}': {} is {}, expected an object", file_, what, shown(object));
}

bool ConfigReader::has(std::string_view key) const {
  const auto it = object_->find(key);
  return it != object_->end() && !it->is_null();
}

bool ConfigReader::mentions(std::string_view key) const { return object_->contains(key); }

std::string_view ConfigReader::first_of(std::initializer_list<std::string_view> keys) const {
  for (std::string_view key : keys)
    if (has(key)) return key;
  return *keys.begin();
}

const Json* ConfigReader::find(std::string_view key) {
  used_.emplace(key);
  const auto it = object_->find(key);
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

const Json& ConfigReader::required(std::string_view key, std::string_view expected) {
  if (const Json* value = find(key)) return *value;
  fail(ErrorCode::format, "'{}': key '{}{}' is {}, expected {}", file_, scope_, key,
       object_->contains(key) ? "null" : "missing", expected);
}

void ConfigReader::bad_value(std::string_view key, std::string_view expected, ErrorCode code) const {
  const auto it = object_->find(key);
  fail(code, "'{}': key '{}{}' is {}, expected {}", file_, scope_, key,
       it == object_->end() ? std::string("missing") : shown(*it), expected);
}

Index ConfigReader::to_count(std::string_view key, const Json& value, Index max) const {
  // 2.0 is written by some tools and means 2; 2.5 and "2" are errors.
  const bool whole = value.is_number() && std::trunc(value.get<double>()) == value.get<double>();
  const bool in_range = whole && value.get<double>() >= 1 && value.get<double>() <= static_cast<double>(max);
  if (!in_range) bad_value(key, fmt::format("a whole number between 1 and {}", max));
  return value.is_number_float() ? static_cast<Index>(value.get<double>()) : value.get<Index>();
}

double ConfigReader::to_number(std::string_view key, const Json& value) const {
  if (!value.is_number() || !std::isfinite(value.get<double>())) bad_value(key, "a finite number");
  return value.get<double>();
}

Index ConfigReader::count(std::string_view key, Index max) {
  return to_count(key, required(key, "a whole number"), max);
}

Index ConfigReader::count_or(std::string_view key, Index fallback, Index max) {
  const Json* value = find(key);
  return value ? to_count(key, *value, max) : fallback;
}

double ConfigReader::number(std::string_view key) { return to_number(key, required(key, "a number")); }

double ConfigReader::number_or(std::string_view key, double fallback) {
  const Json* value = find(key);
  return value ? to_number(key, *value) : fallback;
}

double ConfigReader::positive(std::string_view key) {
  const double value = number(key);
  if (value <= 0) bad_value(key, "a number above 0");
  return value;
}

double ConfigReader::positive_or(std::string_view key, double fallback) { return find(key) ? positive(key) : fallback; }

bool ConfigReader::boolean_or(std::string_view key, bool fallback) {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_boolean()) bad_value(key, "true or false");
  return value->get<bool>();
}

std::string ConfigReader::text(std::string_view key) {
  const Json& value = required(key, "a string");
  if (!value.is_string()) bad_value(key, "a string");
  return value.get<std::string>();
}

std::string ConfigReader::text_or(std::string_view key, std::string_view fallback) {
  return find(key) ? text(key) : std::string(fallback);
}

std::vector<std::string> ConfigReader::texts(std::string_view key) {
  const Json& value = required(key, "a list of strings");
  std::vector<std::string> texts;
  if (!value.is_array()) bad_value(key, "a list of strings");
  for (const Json& entry : value) {
    if (!entry.is_string()) bad_value(key, "a list of strings");
    texts.push_back(entry.get<std::string>());
  }
  return texts;
}

ConfigReader ConfigReader::object(std::string_view key) {
  return {required(key, "an object"), file_, fmt::format("{}{}.", scope_, key)};
}

const Json& ConfigReader::value(std::string_view key) {
  static const Json null;
  const Json* value = find(key);
  return value ? *value : null;
}

void ConfigReader::expect(std::string_view key, const Json& value) {
  const Json* found = find(key);
  if (found && *found != value)
    bad_value(key, fmt::format("{}: nothing else is implemented", shown(value)), ErrorCode::unsupported);
}

void ConfigReader::require(std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys) required(key, "a value");
}

void ConfigReader::ignore(std::initializer_list<std::string_view> keys) {
  for (std::string_view key : keys) used_.emplace(key);
}

void ConfigReader::finish() const {
  for (const auto& [key, value] : object_->items()) {
    if (value.is_null() || used_.contains(key)) continue;
    throw Error(ErrorCode::unsupported,
                fmt::format("'{}': key '{}{}' (value {}) is not known for this kind of model", file_, scope_, key,
                            shown(value)),
                "a key that nothing here reads could change the result; remove it only if you know that it does not");
  }
}

Index ConfigReader::divided(std::string_view whole_key, Index whole, std::string_view part_key, Index part) const {
  check(part > 0 && whole % part == 0, ErrorCode::format, "'{}': {}{} {} is not a multiple of {}{} {}", file_, scope_,
        whole_key, whole, scope_, part_key, part);
  return whole / part;
}

}  // namespace kirchhoff
