#pragma once
#include <nlohmann/json.hpp>

#include <cstdint>           // for int64_t
#include <initializer_list>  // for initializer_list
#include <optional>          // for optional
#include <string>            // for string
#include <string_view>       // for string_view
#include <vector>            // for vector

namespace kirchhoff::text {

/// A value of tokenizer.json together with where it stands, so that messages can say it.
/// Every reader throws Error{format} for a missing key or a value of the wrong type.
class JsonNode {
 public:
  /// `where`: "'FILE'" or "'FILE': pre_tokenizer".
  JsonNode(const nlohmann::json& value, std::string where) : value_(value), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  bool is_null() const { return value_.is_null(); }
  bool has(std::string_view key) const { return value_.is_object() && value_.contains(key); }

  JsonNode at(std::string_view key) const;
  std::vector<JsonNode> elements() const;  ///< of an array
  std::vector<JsonNode> elements(std::string_view key) const { return at(key).elements(); }
  std::string text() const;
  std::string text(std::string_view key) const { return at(key).text(); }
  bool boolean(std::string_view key) const;
  bool boolean_or(std::string_view key, bool fallback) const;  ///< for an absent key or null
  std::int64_t integer() const;
  std::int64_t integer(std::string_view key) const { return at(key).integer(); }
  std::string type() const;  ///< the key "type"

  /// Error{unsupported} naming the first key that is not among `known`: it may mean something that nothing here does.
  void only(std::initializer_list<std::string_view> known) const;
  /// Names this value in messages by its type too: "pre_tokenizer Split".
  JsonNode named(std::string_view type) const { return {value_, where_ + " " + std::string(type)}; }

  const nlohmann::json& value() const { return value_; }

 private:
  [[noreturn]] void wrong_type(std::string_view expected) const;
  const nlohmann::json& value_;
  std::string where_;
};

}  // namespace kirchhoff::text
