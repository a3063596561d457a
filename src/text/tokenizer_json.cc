#include "text/tokenizer_json.h"

#include <algorithm>  // for min

#include "kirchhoff/base/error.h"

namespace kirchhoff::text {
namespace {

using nlohmann::json;

/// Receives the parser's events: builds the tree, and the two long lists beside it.
class Receiver final : public nlohmann::json_sax<json> {
 public:
  Receiver(TokenizerJson& result, const std::string& path, std::size_t size)
      : result_(result), path_(path), size_(size) {}

  bool null() override { return value(nullptr); }
  bool boolean(bool v) override { return value(v); }
  bool number_integer(number_integer_t v) override { return in_vocab() ? token(v) : value(v); }
  bool number_unsigned(number_unsigned_t v) override {
    if (!in_vocab()) return value(v);
    return token(v <= static_cast<number_unsigned_t>(INT64_MAX) ? static_cast<std::int64_t>(v) : INT64_MAX);
  }
  bool number_float(number_float_t v, const string_t&) override { return value(v); }
  bool string(string_t& v) override { return in_merges() ? merge_text(v) : value(std::move(v)); }
  bool binary(binary_t&) override { return false; }  // not in text

  bool start_object(std::size_t) override {
    check_list_element("an object");
    if (at_model_key("vocab")) {
      result_.has_vocab = true;
      return open(Kind::vocab, nullptr);
    }
    return open(Kind::tree, json::object());
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override {
    if (in_merges()) {
      check(levels_.size() == merges_level_, ErrorCode::format, "'{}': model.merges[{}] is nested too deep", path_,
            result_.merges.size());
      pair_.clear();
      return open(Kind::pair, nullptr);
    }
    check_list_element("an array");
    if (at_model_key("merges")) {
      result_.has_merges = true;
      merges_level_ = levels_.size() + 1;
      return open(Kind::merges, nullptr);
    }
    return open(Kind::tree, json::array());
  }
  bool end_array() override {
    if (levels_.back().kind == Kind::pair) merge_pair();
    return close();
  }
  bool key(string_t& v) override {
    if (levels_.back().kind == Kind::tree)
      check(!levels_.back().node->contains(v), ErrorCode::format, "'{}': the key '{}' occurs twice in one object",
            path_, v);
    levels_.back().key = std::move(v);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    const std::string text = error.what();
    const std::size_t detail =
        text.find("; ");  // after "[json.exception....] parse error at line 1, column 7: syntax error while ..."
    const std::string reason = detail == std::string::npos ? text : text.substr(text.find(": ") + 2);
    fail(ErrorCode::format, "'{}' is not valid JSON at byte {}: {}", path_, std::min(position, size_), reason);
  }

 private:
  enum class Kind { tree, vocab, merges, pair };
  struct Level {
    Kind kind;
    json* node = nullptr;  // for tree
    std::string key;
  };
  static constexpr std::size_t kMaxDepth = 64;

  bool in_vocab() const { return !levels_.empty() && levels_.back().kind == Kind::vocab; }
  bool in_merges() const {
    return !levels_.empty() && (levels_.back().kind == Kind::merges || levels_.back().kind == Kind::pair);
  }
  bool at_model_key(std::string_view key) const {
    return levels_.size() == 2 && levels_[0].key == "model" && levels_[1].key == key && levels_[1].node->is_object();
  }
  void check_list_element(std::string_view found) const {
    check(!in_vocab(), ErrorCode::format, "'{}': model.vocab: token '{}' has {} in the place of an id", path_,
          levels_.empty() ? "" : levels_.back().key, found);
    check(!in_merges(), ErrorCode::format, "'{}': model.merges[{}] has {}, expected strings", path_,
          result_.merges.size(), found);
  }

  bool value(json&& v) {
    check_list_element(v.type_name());
    place(std::move(v));
    return true;
  }
  json* place(json&& v) {
    if (levels_.empty()) return &(result_.root = std::move(v));
    Level& level = levels_.back();
    if (level.node->is_object()) return &((*level.node)[level.key] = std::move(v));
    level.node->push_back(std::move(v));
    return &level.node->back();
  }
  bool open(Kind kind, json&& v) {
    check(levels_.size() < kMaxDepth, ErrorCode::format, "'{}': nested more than {} deep", path_, kMaxDepth);
    json* node = kind == Kind::pair ? nullptr : place(std::move(v));
    levels_.push_back({kind, node, {}});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }

  bool token(std::int64_t id) {
    result_.vocab.emplace_back(std::move(levels_.back().key), id);
    return true;
  }
  bool merge_text(string_t& v) {
    if (levels_.back().kind == Kind::pair) {
      pair_.push_back(std::move(v));
      return true;
    }
    if (result_.merges.empty() && v.starts_with("#version")) return true;  // a line of merges.txt
    const std::size_t space = v.find(' ');
    check(space != std::string::npos && v.find(' ', space + 1) == std::string::npos, ErrorCode::format,
          "'{}': model.merges[{}] is \"{}\", expected two tokens with one space between them", path_,
          result_.merges.size(), v);
    result_.merges.emplace_back(v.substr(0, space), v.substr(space + 1));
    return true;
  }
  void merge_pair() {
    check(pair_.size() == 2, ErrorCode::format, "'{}': model.merges[{}] has {} tokens, expected two", path_,
          result_.merges.size(), pair_.size());
    result_.merges.emplace_back(std::move(pair_[0]), std::move(pair_[1]));
  }

  TokenizerJson& result_;
  const std::string& path_;
  std::size_t size_;
  std::vector<Level> levels_;
  std::size_t merges_level_ = 0;
  std::vector<std::string> pair_;
};

}  // namespace

TokenizerJson parse_tokenizer_json(const std::string& text, const std::string& path) {
  const std::size_t nul = text.find('\0');  // which the parser would take for the end
  check(nul == std::string::npos, ErrorCode::format, "'{}' is not valid JSON at byte {}: a NUL byte", path, nul + 1);
  TokenizerJson result;
  Receiver receiver(result, path, text.size());
  json::sax_parse(text, &receiver);
  check(result.root.is_object(), ErrorCode::format, "'{}' holds {}, expected a JSON object", path,
        result.root.type_name());
  return result;
}

}  // namespace kirchhoff::text
