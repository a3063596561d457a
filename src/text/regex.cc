#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>    // for array
#include <utility>  // for move

#include "kirchhoff/base/error.h"
#include "kirchhoff/text/tokenizer.h"
#include "text/regex_syntax.h"
#include "text/utf8.h"

namespace kirchhoff::text {
namespace {

constexpr std::uint32_t kMatchLimit = 20'000'000;         // steps of one match
constexpr std::uint32_t kHeapLimitKib = 256 * 1024;       // of the interpreter
constexpr std::size_t kJitStackBytes = 64 * 1024 * 1024;  // at most; taken as needed

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(error, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

/// What one thread needs to match: the place for the result, limits, and the stack of compiled patterns.
class MatchState {
 public:
  MatchState()
      : data_(pcre2_match_data_create(1, nullptr)),
        context_(pcre2_match_context_create(nullptr)),
        stack_(pcre2_jit_stack_create(32 * 1024, kJitStackBytes, nullptr)) {
    if (data_ == nullptr || context_ == nullptr) throw std::bad_alloc();
    pcre2_set_match_limit(context_, kMatchLimit);
    pcre2_set_heap_limit(context_, kHeapLimitKib);
    if (stack_ != nullptr) pcre2_jit_stack_assign(context_, nullptr, stack_);
  }
  MatchState(const MatchState&) = delete;
  MatchState& operator=(const MatchState&) = delete;
  ~MatchState() {
    pcre2_jit_stack_free(stack_);
    pcre2_match_context_free(context_);
    pcre2_match_data_free(data_);
  }
  pcre2_match_data* data() const { return data_; }
  pcre2_match_context* context() const { return context_; }

 private:
  pcre2_match_data* data_;
  pcre2_match_context* context_;
  pcre2_jit_stack* stack_;
};

}  // namespace

struct Regex::Code {
  Code(std::string source_, pcre2_code* compiled_) : source(std::move(source_)), compiled(compiled_) {}
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(compiled); }
  std::string source;
  pcre2_code* compiled;
};

Regex::Regex(const std::string& pattern) {
  const std::string translated = pcre2_from_oniguruma(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset, context);
  pcre2_compile_context_free(context);
  check(code != nullptr, ErrorCode::format, "the regular expression '{}' does not parse: {} (offset {} of '{}')",
        shown_pattern(pattern), message_of(error), offset, shown_pattern(translated));
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where there is no compiler, the interpreter does
  code_ = std::make_shared<const Code>(pattern, code);
}

void Regex::find_all(std::string_view text, std::vector<Piece>& out) const {
  if (text.empty()) return;
  std::string mended;
  if (const std::size_t valid = valid_utf8_prefix(text); valid < text.size()) {
    mended = text;
    for (std::size_t pos = valid; pos < text.size();) {
      const Utf8Step step = utf8_step(text, pos);
      if (!step.valid) mended.replace(pos, step.length, step.length, '\x1A');
      pos += step.length;
    }
    text = mended;
  }
  thread_local const MatchState state;
  const auto search = [&](std::size_t from, std::uint32_t options) {
    return pcre2_match(code_->compiled, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       PCRE2_NO_UTF_CHECK | options, state.data(), state.context());
  };
  const PCRE2_SIZE* const range = pcre2_get_ovector_pointer(state.data());
  std::size_t from = 0;      // where the next search begins
  std::size_t covered = 0;   // pieces up to here are written
  bool after_match = false;  // a match ended at `from`
  while (from <= text.size()) {
    int result = search(from, 0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = search(from, PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) break;
    check(result >= 0, ErrorCode::unsupported, "the regular expression '{}' gives up on a text of {} bytes: {}",
          shown_pattern(code_->source), text.size(), message_of(result));
    const std::size_t begin = range[0], end = range[1];
    if (begin == end && after_match && end == from) {  // no empty match right after a match
      if (from == text.size()) break;
      from += utf8_step(text, from).length;
      after_match = false;
      continue;
    }
    if (covered < begin) out.push_back({covered, begin, false});
    out.push_back({begin, end, true});
    from = covered = end;
    after_match = true;
  }
  if (covered < text.size()) out.push_back({covered, text.size(), false});
}

}  // namespace kirchhoff::text
