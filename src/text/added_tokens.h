#pragma once
#include <cstdint>      // for int32_t, uint8_t
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "kirchhoff/text/tokenizer.h"
#include "text/json_node.h"
#include "text/normalizer.h"

namespace kirchhoff::text {

/// A token that is found in the text before anything else is done to it.
struct AddedToken {
  TokenId id = -1;
  std::string content;
  bool single_word = false;  ///< only where no word character touches it
  bool lstrip = false;       ///< takes the white space before it
  bool rstrip = false;       ///< takes the white space after it
  bool normalized = false;   ///< its normalized form is found in the normalized text
  bool special = false;
  std::string form;  ///< what is looked for, and what decoders see: the content, or its normalized form
};

/// The "added_tokens" of tokenizer.json.
std::vector<AddedToken> parse_added_tokens(const JsonNode& node);

/// A part of a text: an added token, or (token null) what lies between.
struct AddedPiece {
  std::size_t begin, end;
  const AddedToken* token;
};

/// Finds strings in a text, leftmost first, the longest of those that begin at one place.
class StringMatcher {
 public:
  struct Match {
    std::size_t begin, end;
    std::int32_t value;
  };
  /// Values are >= 0. Returns the value that has `text` already, or -1 if there was none and it was added.
  std::int32_t add(std::string_view text, std::int32_t value);
  bool empty() const { return nodes_.size() == 1; }
  /// The next match from `from` on; value -1 if there is none.
  Match find(std::string_view text, std::size_t from) const;

 private:
  struct Node {  // of a trie whose edges are lists of siblings
    std::int32_t value = -1, child = -1, sibling = -1;
    char byte = 0;
  };
  std::int32_t child_of(std::int32_t node, char byte) const;
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::vector<bool> first_byte_ = std::vector<bool>(256, false);
};

class AddedTokens {
 public:
  AddedTokens() = default;
  /// Fills the tokens' forms. `where` opens messages. Error (format): two tokens have the same form.
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer, const std::string& where);

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  /// Cuts the original text at the tokens that are not normalized / the normalized text at those that are.
  /// `special`: whether special tokens are recognised, or are text.
  std::vector<AddedPiece> split(std::string_view text, bool normalized, bool special) const;

 private:
  std::vector<AddedToken> tokens_;
  StringMatcher plain_, normalized_;  // values are indices of tokens_
};

}  // namespace kirchhoff::text
