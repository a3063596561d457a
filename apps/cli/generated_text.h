#pragma once
#include <string>  // for string

#include "kirchhoff/engine/run.h"
#include "kirchhoff/text/tokenizer.h"

namespace kirchhoff::cli {

/// The text of a continuation as it grows, token by token.
class GeneratedText {
 public:
  /// Without a tokenizer the text is the ids, separated by spaces.
  GeneratedText(const text::Tokenizer* tokenizer, Tokens prompt);
  /// The bytes that one more token adds. For a terminal, control characters other than newline and tab are shown as
  /// pictures: a model must not be able to drive the reader's terminal.
  std::string append(TokenId id, bool for_terminal);

 private:
  const text::Tokenizer* tokenizer_;
  Tokens ids_;
};

/// A horizontal bar for a fraction of `cells` cells, in eighths.
std::string bar(double fraction, Index cells);

}  // namespace kirchhoff::cli
