#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>  // for join

#include <stdexcept>    // for runtime_error
#include <string>       // for string
#include <string_view>  // for string_view
#include <utility>      // for forward, move

namespace kirchhoff {

/// What kind of failure it is. Applications map it to an exit status (`kirchhoff help exit-codes`) or an HTTP status.
enum class ErrorCode {
  mismatch,       ///< a check ran and the answer is no                                   (exit 1)
  usage,          ///< an argument or option is wrong: the caller can mend it             (exit 2)
  format,         ///< a file is malformed, or contradicts itself                         (exit 3)
  not_found,      ///< a file, tensor, token, ... is not there                            (exit 3)
  unsupported,    ///< well formed, but nothing here implements it                        (exit 3)
  io,             ///< the operating system refused to read or write                      (exit 3)
  numerical,      ///< NaN, Inf, a closure or parity that does not hold                   (exit 4)
  out_of_memory,  ///< the estimate exceeds what is free                                  (exit 5)
  device,         ///< a processor feature or device is missing or broken                 (exit 6)
  interrupted,    ///< cancelled by the user                                              (exit 130)
  internal,       ///< a bug: an invariant of Kirchhoff itself is broken                  (exit 70)
};

/// A kind of failure and the line of source that found it: what functions take in an ErrorCode's place, so that the
/// line is their caller's. (std::source_location, which clang 14 lacks.)
struct Raised {
  // NOLINTNEXTLINE(google-explicit-constructor): an ErrorCode is all that callers write
  Raised(ErrorCode kind, const char* source_file = __builtin_FILE(), int source_line = __builtin_LINE())
      : code(kind), file(source_file), line(source_line) {}
  ErrorCode code;
  const char* file;
  int line;
};

/// The one exception that the library throws. `what()` names the file, tensor, key or option and what was expected;
/// `help()` is one line of advice, or empty; `raised()` is for those who mend Kirchhoff itself.
class Error : public std::runtime_error {
 public:
  Error(Raised raised, const std::string& message, std::string help = {})
      : std::runtime_error(message), raised_(raised), help_(std::move(help)) {}
  ErrorCode code() const noexcept { return raised_.code; }
  const std::string& help() const noexcept { return help_; }
  const Raised& raised() const noexcept { return raised_; }

 private:
  Raised raised_;
  std::string help_;
};

/// Throws an Error with a formatted message.
template <class... Args>
[[noreturn]] void fail(Raised code, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(code, fmt::format(text, std::forward<Args>(args)...));
}

/// Throws an Error with a formatted message unless `ok`. For what a user or a file can get wrong; for our own
/// invariants use assert.
template <class... Args>
void check(bool ok, Raised code, fmt::format_string<Args...> text, Args&&... args) {
  if (!ok) [[unlikely]]
    throw Error(code, fmt::format(text, std::forward<Args>(args)...));
}

/// "[3, 5]": a shape or any list of integers as messages print it.
template <class Range>
std::string bracketed(const Range& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

}  // namespace kirchhoff
