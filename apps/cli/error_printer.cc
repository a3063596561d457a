#include "error_printer.h"

#include <new>  // for bad_alloc

#include "exit_status.h"
#include "kirchhoff/base/error.h"
#include "version.h"

namespace kirchhoff::cli {

int print_error(Terminal& err, const std::exception_ptr& failure) {
  const auto print = [&err](const std::string& message, const std::string& help) {
    err.write(fmt::format("{} {}\n", err.paint(Style::error, "error:"), message));
    if (!help.empty()) err.write(fmt::format("  {} {}\n", err.paint(Style::strong, "help:"), help));
  };
  const std::string report =
      fmt::format("this is a bug; please report it with the command and this line: {}", version_line());
  try {
    std::rethrow_exception(failure);
  } catch (const Error& e) {
    const bool bug = e.code() == ErrorCode::internal;
    print(e.what(), bug && e.help().empty() ? report : e.help());
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
