#include "text/added_tokens.h"

#include <algorithm>  // for max
#include <utility>    // for move

#include "kirchhoff/base/error.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace kirchhoff::text {
namespace {

bool word_ends(std::string_view before) {
  if (before.empty()) return false;
  const Utf8Step step = utf8_step(before, character_begin(before, before.size() - 1));
  return step.valid && is_word(step.code_point);
}

bool word_begins(std::string_view after) {
  if (after.empty()) return false;
  const Utf8Step step = utf8_step(after, 0);
  return step.valid && is_word(step.code_point);
}

/// Where the white space before `pos` begins, but not before `limit`.
std::size_t space_before(std::string_view text, std::size_t pos, std::size_t limit) {
  while (pos > limit) {
    const std::size_t begin = character_begin(text, pos - 1);
    const Utf8Step step = utf8_step(text, begin);
    if (!step.valid || !is_white_space(step.code_point)) break;
    pos = begin;
  }
  return pos;
}

std::size_t space_after(std::string_view text, std::size_t pos) {
  while (pos < text.size()) {
    const Utf8Step step = utf8_step(text, pos);
    if (!step.valid || !is_white_space(step.code_point)) break;
    pos += step.length;
  }
  return pos;
}

}  // namespace

std::vector<AddedToken> parse_added_tokens(const JsonNode& node) {
  std::vector<AddedToken> tokens;
  for (const JsonNode& entry : node.elements()) {
    entry.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    AddedToken token;
    const std::int64_t id = entry.integer("id");
    token.content = entry.text("content");
    check(id >= 0 && id <= INT32_MAX, ErrorCode::format, "{}: token '{}' has id {}, expected one from 0 to 2^31 - 1",
          entry.where(), token.content, id);
    token.id = static_cast<TokenId>(id);
    token.single_word = entry.boolean("single_word");
    token.lstrip = entry.boolean("lstrip");
    token.rstrip = entry.boolean("rstrip");
    token.normalized = entry.boolean("normalized");
    token.special = entry.boolean("special");
    tokens.push_back(std::move(token));
  }
  return tokens;
}

std::int32_t StringMatcher::child_of(std::int32_t node, char byte) const {
  std::int32_t child = nodes_[static_cast<std::size_t>(node)].child;
  while (child >= 0 && nodes_[static_cast<std::size_t>(child)].byte != byte)
    child = nodes_[static_cast<std::size_t>(child)].sibling;
  return child;
}

std::int32_t StringMatcher::add(std::string_view text, std::int32_t value) {
  std::int32_t at = 0;
  for (const char byte : text) {
    std::int32_t child = child_of(at, byte);
    if (child < 0) {
      child = static_cast<std::int32_t>(nodes_.size());
      nodes_.push_back({-1, -1, nodes_[static_cast<std::size_t>(at)].child, byte});
      nodes_[static_cast<std::size_t>(at)].child = child;
    }
    at = child;
  }
  Node& end = nodes_[static_cast<std::size_t>(at)];
  if (end.value >= 0) return end.value;
  end.value = value;
  first_byte_[static_cast<std::uint8_t>(text[0])] = true;
  return -1;
}

StringMatcher::Match StringMatcher::find(std::string_view text, std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!first_byte_[static_cast<std::uint8_t>(text[begin])]) continue;
    Match longest{begin, begin, -1};
    std::int32_t node = 0;
    for (std::size_t pos = begin; pos < text.size(); ++pos) {
      node = child_of(node, text[pos]);
      if (node < 0) break;
      if (const std::int32_t value = nodes_[static_cast<std::size_t>(node)].value; value >= 0)
        longest = {begin, pos + 1, value};
    }
    if (longest.value >= 0) return longest;
  }
  return {text.size(), text.size(), -1};
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer, const std::string& where)
    : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    AddedToken& token = tokens_[i];
    token.form = token.content;
    if (token.normalized) {
      AlignedText form(token.content, 0, token.content.size());
      normalizer.apply(form);
      token.form = form.text();
    }
    if (token.form.empty()) continue;  // never found
    StringMatcher& matcher = token.normalized ? normalized_ : plain_;
    const std::int32_t other = matcher.add(token.form, static_cast<std::int32_t>(i));
    check(other < 0, ErrorCode::format, "{}: tokens '{}' and '{}' are both found as '{}'", where,
          tokens_[static_cast<std::size_t>(std::max(other, 0))].content, token.content, token.form);
  }
}

std::vector<AddedPiece> AddedTokens::split(std::string_view text, bool normalized, bool special) const {
  std::vector<AddedPiece> pieces;
  const StringMatcher& matcher = normalized ? normalized_ : plain_;
  std::size_t covered = 0;  // pieces up to here are written
  for (std::size_t from = 0; !matcher.empty();) {
    const StringMatcher::Match match = matcher.find(text, from);
    if (match.value < 0) break;
    from = match.end;  // also where the match is then refused
    const AddedToken& token = tokens_[static_cast<std::size_t>(match.value)];
    if (token.special && !special) continue;
    if (token.single_word && (word_ends(text.substr(0, match.begin)) || word_begins(text.substr(match.end)))) continue;
    const std::size_t begin = token.lstrip ? std::max(space_before(text, match.begin, covered), covered) : match.begin;
    const std::size_t end = token.rstrip ? space_after(text, std::max(match.end, covered)) : match.end;
    if (begin >= end) continue;  // the token before it took its white space
    if (covered < begin) pieces.push_back({covered, begin, nullptr});
    pieces.push_back({begin, end, &token});
    covered = end;
  }
  if (covered < text.size()) pieces.push_back({covered, text.size(), nullptr});
  return pieces;
}

}  // namespace kirchhoff::text
