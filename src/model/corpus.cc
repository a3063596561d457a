#include "kirchhoff/model/corpus.h"

#include <algorithm>  // for max, min
#include <charconv>   // for from_chars

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/progress.h"
#include "kirchhoff/io/mapped_file.h"

namespace kirchhoff {
namespace {

using CorpusIds = std::vector<text::TokenId>;

void check_options(const CorpusOptions& options) {
  check(options.context >= 2, ErrorCode::usage, "windows of {} tokens predict nothing: at least 2", options.context);
  check(options.tokens >= 0, ErrorCode::usage, "{} tokens of a text: at least 1, or 0 for all", options.tokens);
}

/// The first `bytes` of a text, cut between lines or words if there are any and between characters at least.
std::string_view beginning(std::string_view text, std::size_t bytes) {
  if (bytes >= text.size()) return text;
  std::string_view head = text.substr(0, bytes);
  for (const char separator : {'\n', ' '})
    if (const std::size_t end = head.rfind(separator); end != std::string_view::npos && end > bytes / 2)
      return head.substr(0, end);
  while (!head.empty() && (static_cast<unsigned char>(text[head.size()]) & 0xC0U) == 0x80U) head.remove_suffix(1);
  return head;
}

/// The tokens of a text; of a longer one than needed, of its beginning, which is doubled until it has enough of them.
/// The last tokens of a beginning may be others than in the whole text, so there must be some more.
CorpusIds encode_enough(std::string_view text, const std::string& path, const text::Tokenizer& tokenizer,
                        const CorpusOptions& options) {
  constexpr std::size_t kBytesPerToken = 8, kMargin = 64;
  const auto wanted = static_cast<std::size_t>(options.tokens);
  std::size_t bytes = wanted > 0 ? kBytesPerToken * (wanted + kMargin) : text.size();
  while (true) {
    throw_if_interrupted();
    const std::string_view head = beginning(text, bytes);
    CorpusIds ids;
    try {
      ids = tokenizer.encode(head, {.recognise_special = options.recognise_special}).ids;
    } catch (const Error& e) {
      throw Error(ErrorCode::format, fmt::format("'{}': {}", path, e.what()), e.help());
    }
    if (head.size() == text.size() || ids.size() >= wanted + kMargin) return ids;
    bytes *= 2;
  }
}

}  // namespace

Index TokenCorpus::predictions() const {
  Index count = 0;
  for (const auto& window : windows) count += static_cast<Index>(window.size()) - 1;
  return count;
}

TokenCorpus window_corpus(const std::vector<text::TokenId>& tokens, const CorpusOptions& options,
                          const std::string& path) {
  check_options(options);
  TokenCorpus corpus;
  corpus.path = path;
  corpus.context = options.context;
  corpus.bos = options.bos;
  const Index front = options.bos ? 1 : 0, step = options.context - front;
  const Index all = static_cast<Index>(tokens.size());
  const Index available = options.tokens > 0 ? std::min(options.tokens, all) : all;
  for (Index begin = 0; begin < available; begin += step) {
    const Index count = std::min(step, available - begin);
    if (count < step && (!options.keep_rest || count + front < 2)) break;
    auto& window = corpus.windows.emplace_back();
    window.reserve(static_cast<std::size_t>(front + count));
    if (options.bos) window.push_back(*options.bos);
    window.insert(window.end(), tokens.begin() + begin, tokens.begin() + begin + count);
    corpus.tokens += count;
  }
  corpus.left_out = available - corpus.tokens;
  if (corpus.windows.empty())
    throw Error(ErrorCode::usage,
                fmt::format("{}{} tokens fill no window of {}{}", path.empty() ? "" : fmt::format("'{}': ", path),
                            available, options.context, options.bos ? " with BOS" : ""),
                "a smaller context gives smaller windows");
  return corpus;
}

TokenCorpus read_corpus(const std::string& path, const text::Tokenizer& tokenizer, const CorpusOptions& options) {
  check_options(options);
  const io::FileBytes file = io::map_file(path);
  TokenCorpus corpus = window_corpus(encode_enough(file.text(), path, tokenizer, options), options, path);
  corpus.bytes = file.size();
  return corpus;
}

TokenCorpus read_id_corpus(const std::string& path, const CorpusOptions& options) {
  check_options(options);
  const io::FileBytes file = io::map_file(path);
  const std::string_view text = file.text();
  const char *at = text.data(), *const end = at + text.size();
  CorpusIds ids;
  while (at < end && (options.tokens == 0 || static_cast<Index>(ids.size()) < options.tokens)) {
    if (std::string_view(" \t\r\n,[]").find(*at) != std::string_view::npos) {
      ++at;
      continue;
    }
    text::TokenId id = 0;
    const auto [stop, status] = std::from_chars(at, end, id);
    check(status == std::errc() && id >= 0, ErrorCode::format, "'{}': at byte {}: token ids such as 1 2 3 are expected",
          path, at - text.data());
    ids.push_back(id);
    at = stop;
  }
  TokenCorpus corpus = window_corpus(ids, options, path);
  corpus.bytes = file.size();
  return corpus;
}

}  // namespace kirchhoff
