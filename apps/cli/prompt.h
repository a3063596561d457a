#pragma once
#include <optional>  // for optional
#include <string>    // for string
#include <vector>    // for vector

#include "command_line.h"
#include "kirchhoff/engine/run.h"
#include "opened_model.h"

namespace kirchhoff::cli {

/// Where the prompt comes from and how it is read: the same options for every command that takes one.
struct PromptOptions {
  std::optional<std::string> argument, text, ids;
  bool bos = false, no_bos = false, plain = false, truncate = false;
  std::string ids_option = "--ids";  ///< what messages call it

  void declare(Command& command);          ///< the argument PROMPT, and the options
  void declare_options(Command& command);  ///< the options alone
  /// What the user says about BOS, if anything.
  std::optional<bool> user_bos() const;
};

/// A prompt as the model reads it.
struct Prompt {
  std::string text;                     ///< empty if ids were given
  Tokens ids;                           ///< BOS included
  std::vector<text::ByteSpan> offsets;  ///< in `text`, one per id; none if ids were given
  std::string bos;                      ///< what was decided about BOS, and why
  std::string truncated;                ///< what was cut; empty if nothing
};

/// A prompt's text that can be wrapped: its words as tables show them, spaces as they are; "ids as given" without one.
std::string readable_prompt(const Prompt& prompt);

/// The prompt's text from -p, the argument, or stdin ("-", or nothing given and stdin not a terminal; one newline at
/// its end is dropped). Error{usage} if there is none.
std::string prompt_text(const PromptOptions& options, const Command& command);

/// Reads and tokenizes. Errors: usage (no prompt, no tokenizer, ids that are no numbers, an empty prompt).
Prompt read_prompt(const PromptOptions& options, const Command& command, const OpenedModel& opened);

/// encode() whose failures are the user's to mend (Error{usage}): the text is wrong for the vocabulary, not a file.
text::Encoding encode_text(const text::Tokenizer& tokenizer, const std::string& text, bool recognise_special);

/// Refuses a prompt that is longer than the context, or cuts it (after BOS) if `truncate`.
void fit_to_context(Prompt& prompt, Index n_ctx, bool truncate);

/// "1,2,3" or "1 2 3".
Tokens parse_ids(const std::string& text, const std::string& option);

/// All of stdin, without one newline at its end. Throws Error{interrupted} on Ctrl-C.
std::string read_stdin();
/// The next line of stdin without its newline; false at the end. Throws Error{interrupted} on Ctrl-C.
bool read_line(std::string& line);

}  // namespace kirchhoff::cli
