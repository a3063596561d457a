#include "text/json_node.h"

#include <algorithm>  // for find

#include "kirchhoff/base/error.h"

namespace kirchhoff::text {

void JsonNode::wrong_type(std::string_view expected) const {
  fail(ErrorCode::format, "{} is {} ({}), expected {}", where_, value_.type_name(),
       value_.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).substr(0, 40), expected);
}

JsonNode JsonNode::at(std::string_view key) const {
  if (!value_.is_object()) wrong_type("an object");
  const auto found = value_.find(key);
  check(found != value_.end(), ErrorCode::format, "{} has no '{}'", where_, key);
  const bool at_file = where_.ends_with('\'');
  return {*found, where_ + (at_file ? ": " : ".") + std::string(key)};
}

std::vector<JsonNode> JsonNode::elements() const {
  if (!value_.is_array()) wrong_type("an array");
  std::vector<JsonNode> nodes;
  nodes.reserve(value_.size());
  for (std::size_t i = 0; i < value_.size(); ++i) nodes.emplace_back(value_[i], fmt::format("{}[{}]", where_, i));
  return nodes;
}

std::string JsonNode::text() const {
  if (!value_.is_string()) wrong_type("a string");
  return value_.get<std::string>();
}

bool JsonNode::boolean(std::string_view key) const {
  const JsonNode node = at(key);
  if (!node.value_.is_boolean()) node.wrong_type("true or false");
  return node.value_.get<bool>();
}

bool JsonNode::boolean_or(std::string_view key, bool fallback) const {
  return has(key) && !at(key).is_null() ? boolean(key) : fallback;
}

std::int64_t JsonNode::integer() const {
  const bool fits = value_.is_number_integer() &&
                    (!value_.is_number_unsigned() || value_.get<std::uint64_t>() <= std::uint64_t{INT64_MAX});
  if (!fits) wrong_type("an integer");
  return value_.get<std::int64_t>();
}

std::string JsonNode::type() const { return text("type"); }

void JsonNode::only(std::initializer_list<std::string_view> known) const {
  if (!value_.is_object()) wrong_type("an object");
  for (const auto& [key, ignored] : value_.items())
    check(std::find(known.begin(), known.end(), key) != known.end(), ErrorCode::unsupported,
          "{} has the key '{}', which is not implemented", where_, key);
}

}  // namespace kirchhoff::text
