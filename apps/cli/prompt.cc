#include "prompt.h"

#include <unistd.h>  // for isatty

#include <charconv>  // for from_chars
#include <cstdio>    // for fread, getline
#include <cstdlib>   // for free
#include <memory>    // for unique_ptr

#include "help_text.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/base/progress.h"
#include "kirchhoff/model/tokenizer.h"

namespace kirchhoff::cli {

void PromptOptions::declare(Command& command) {
  command.argument("PROMPT", argument, "the text to read; '-' or nothing: from stdin", false);
  declare_options(command);
}

void PromptOptions::declare_options(Command& command) {
  command.option("-p,--prompt", "TEXT", text, "the text to read");
  command.option("--ids", "1,2,3", ids, "token ids instead of text, used as they are");
  command.flag("--bos", bos, "put the beginning-of-sequence token in front");
  command.flag("--no-bos", no_bos, "do not (default: what the model's files say)");
  command.flag("--plain", plain, "read text such as <|endoftext|> as ordinary text");
  command.flag("--truncate", truncate, "keep the end of a prompt that is longer than the context");
}

std::optional<bool> PromptOptions::user_bos() const {
  check(!(bos && no_bos), ErrorCode::usage, "options '--bos' and '--no-bos' contradict each other");
  if (bos) return true;
  if (no_bos) return false;
  return std::nullopt;
}

std::string read_stdin() {
  std::string text;
  char buffer[1 << 16];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, stdin)) > 0;) {
    text.append(buffer, n);
    throw_if_interrupted();
  }
  throw_if_interrupted();
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

bool read_line(std::string& line) {
  char* buffer = nullptr;
  std::size_t capacity = 0;
  const auto length = getline(&buffer, &capacity, stdin);  // unlike std::getline it returns when a signal comes
  const std::unique_ptr<char, decltype(&std::free)> owner(buffer, &std::free);
  throw_if_interrupted();
  if (length < 0) return false;
  line.assign(buffer, static_cast<std::size_t>(length));
  if (!line.empty() && line.back() == '\n') line.pop_back();
  return true;
}

std::string prompt_text(const PromptOptions& options, const Command& command) {
  check(!(options.text && options.argument), ErrorCode::usage,
        "the prompt was given twice: as an argument and with '--prompt'");
  const std::optional<std::string>& given = options.text ? options.text : options.argument;
  if (given && *given != "-") return *given;
  const std::string usage = usage_line(command);
  if (!given && isatty(STDIN_FILENO) == 1)
    throw Error(ErrorCode::usage, "there is no prompt: give it as an argument, with -p, or on stdin",
                fmt::format("usage: {}", usage));
  std::string text = read_stdin();
  if (text.empty() && !given)
    throw Error(ErrorCode::usage, "there is no prompt, and stdin is empty", fmt::format("usage: {}", usage));
  return text;
}

Tokens parse_ids(const std::string& text, const std::string& option) {
  Tokens ids;
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    if (*at == ',' || *at == ' ' || *at == '[' || *at == ']') {
      ++at;
      continue;
    }
    TokenId id = 0;
    const auto [stop, status] = std::from_chars(at, end, id);
    check(status == std::errc(), ErrorCode::usage, "{}: '{}' is not a list of token ids such as 1,2,3", option, text);
    ids.push_back(id);
    at = stop;
  }
  check(!ids.empty(), ErrorCode::usage, "{}: '{}' has no token ids", option, text);
  return ids;
}

text::Encoding encode_text(const text::Tokenizer& tokenizer, const std::string& text, bool recognise_special) {
  try {
    return tokenizer.encode(text, {.recognise_special = recognise_special});
  } catch (const Error& e) {
    throw Error(e.code() == ErrorCode::not_found ? ErrorCode::usage : e.code(), e.what(), e.help());
  }
}

Prompt read_prompt(const PromptOptions& options, const Command& command, const OpenedModel& opened) {
  const std::optional<bool> user_bos = options.user_bos();
  Prompt prompt;
  if (options.ids) {
    check(!options.text && !options.argument, ErrorCode::usage, "the prompt was given twice: as text and with '{}'",
          options.ids_option);
    prompt.ids = parse_ids(*options.ids, fmt::format("option '{}'", options.ids_option));
    prompt.bos = "ids as given";
    if (!user_bos.value_or(false)) return prompt;
    check(opened.tokenizer != nullptr, ErrorCode::usage, "option '--bos': '{}' has no tokenizer",
          opened.files.argument);
    const BosDecision decision = decide_bos(opened.files, *opened.tokenizer, true);
    prompt.ids = with_bos(std::move(prompt.ids), decision);
    prompt.bos = decision.why;
    return prompt;
  }
  if (!opened.tokenizer)
    throw Error(ErrorCode::usage, fmt::format("'{}' has no tokenizer, so it cannot read text", opened.files.argument),
                fmt::format("give token ids: {} 1,2,3", options.ids_option));
  prompt.text = prompt_text(options, command);
  const BosDecision decision = decide_bos(opened.files, *opened.tokenizer, user_bos);
  const text::Encoding encoding = encode_text(*opened.tokenizer, prompt.text, !options.plain);
  prompt.ids = with_bos(encoding.ids, decision);
  prompt.bos = decision.why;
  prompt.offsets = encoding.offsets;
  if (prompt.ids.size() > encoding.ids.size()) prompt.offsets.insert(prompt.offsets.begin(), text::ByteSpan{});
  check(!prompt.ids.empty(), ErrorCode::usage, "the prompt is empty: there is no token to read");
  return prompt;
}

void fit_to_context(Prompt& prompt, Index n_ctx, bool truncate) {
  const Index length = static_cast<Index>(prompt.ids.size());
  if (n_ctx == 0 || length <= n_ctx) return;
  if (!truncate)
    throw Error(ErrorCode::usage, fmt::format("the prompt has {} tokens, the model's context holds {}", length, n_ctx),
                "'--truncate' keeps its end");
  // A BOS, recognisable by its empty span, stays in front.
  const Index kept_in_front = !prompt.offsets.empty() && prompt.offsets.front() == text::ByteSpan{} ? 1 : 0;
  const auto cut = [&](auto& list) {
    if (!list.empty()) list.erase(list.begin() + kept_in_front, list.begin() + kept_in_front + (length - n_ctx));
  };
  cut(prompt.ids);
  cut(prompt.offsets);
  prompt.truncated = fmt::format("truncated: the last {} of {} tokens were kept{}", n_ctx - kept_in_front,
                                 length - kept_in_front, kept_in_front ? ", after BOS" : "");
}

std::string readable_prompt(const Prompt& prompt) {
  if (prompt.text.empty()) return "ids as given";
  std::string words;
  std::size_t begin = 0;
  for (std::size_t end; (end = prompt.text.find(' ', begin)) != std::string::npos; begin = end + 1)
    words += text::visible(prompt.text.substr(begin, end - begin)) + " ";
  return words + text::visible(prompt.text.substr(begin));
}

}  // namespace kirchhoff::cli
