#include "error_printer.h"

#include <new>  // for bad_alloc

#include "exit_status.h"
#include "kirchhoff/base/error.h"
#include "version.h"

namespace kirchhoff::cli {
namespace {

/// Messages quote names and texts out of files: no control character of theirs reaches the terminal (C0, DEL and, as
/// UTF-8, C1), and none is long enough to fill it.
std::string harmless(std::string_view message) {
  constexpr std::size_t kLongest = 2000;
  std::string out;
  for (std::size_t i = 0; i < message.size(); ++i) {
    const auto byte = static_cast<unsigned char>(message[i]);
    const auto next = i + 1 < message.size() ? static_cast<unsigned char>(message[i + 1]) : 0;
    if (out.size() >= kLongest && (byte & 0xC0) != 0x80) return out + "...";
    if ((byte < 0x20 && byte != '\n') || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {
      out += fmt::format("\\x{:02x}", next);
      ++i;
    } else {
      out += message[i];
    }
  }
  return out;
}

/// "src/io/gguf.cc:97": from the root of the tree, wherever it was built.
std::string source_of(const Raised& raised) {
  std::string_view file = raised.file;
  for (const std::string_view top : {"/src/", "/apps/", "/include/"})
    if (const std::size_t at = file.rfind(top); at != std::string_view::npos) file.remove_prefix(at + 1);
  return fmt::format("{}:{}", file, raised.line);
}

}  // namespace

int print_error(Terminal& err, const std::exception_ptr& failure, bool where) {
  const auto print = [&err](const std::string& message, const std::string& help) {
    err.write(fmt::format("{} {}\n", err.paint(Style::error, "error:"), harmless(message)));
    if (!help.empty()) err.write(fmt::format("  {} {}\n", err.paint(Style::strong, "help:"), harmless(help)));
  };
  const std::string report =
      fmt::format("this is a bug; please report it with the command and this line: {}", version_line());
  try {
    std::rethrow_exception(failure);
  } catch (const Error& e) {
    const bool bug = e.code() == ErrorCode::internal;
    print(e.what(), bug && e.help().empty() ? report : e.help());
    if (where) err.write(fmt::format("  {} {}\n", err.paint(Style::strong, "raised:"), source_of(e.raised())));
    return exit_status(e.code());
  } catch (const std::bad_alloc&) {
    print("out of memory", "a shorter prompt, or '--weights packed', needs less");
    return exit_status(ErrorCode::out_of_memory);
  } catch (const std::exception& e) {
    print(fmt::format("unexpected failure: {}", e.what()), report);
    return exit_status(ErrorCode::internal);
  }
}

}  // namespace kirchhoff::cli
