#include "exit_status.h"

#include <gtest/gtest.h>

#include "error_printer.h"

namespace kirchhoff::cli {
namespace {

TEST(ExitStatus, OfEveryKindOfFailure) {
  const std::vector<std::pair<ErrorCode, int>> expected = {
      {ErrorCode::mismatch, 1},  {ErrorCode::usage, 2},         {ErrorCode::format, 3},
      {ErrorCode::not_found, 3}, {ErrorCode::unsupported, 3},   {ErrorCode::io, 3},
      {ErrorCode::numerical, 4}, {ErrorCode::out_of_memory, 5}, {ErrorCode::device, 6},
      {ErrorCode::internal, 70}, {ErrorCode::interrupted, 130}};
  for (const auto& [code, status] : expected) EXPECT_EQ(exit_status(code), status);
}

/// What print_error writes, and what it returns.
std::pair<std::string, int> printed(const std::exception_ptr& failure) {
  std::FILE* file = std::tmpfile();
  Terminal terminal(file, ColorMode::never);
  const int status = print_error(terminal, failure);
  terminal.flush();
  std::rewind(file);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return {text, status};
}

TEST(PrintError, MessageAndHelp) {
  EXPECT_EQ(printed(std::make_exception_ptr(Error(ErrorCode::format, "'f': bad", "look at it"))),
            std::make_pair(std::string("error: 'f': bad\n  help: look at it\n"), 3));
  EXPECT_EQ(printed(std::make_exception_ptr(Error(ErrorCode::usage, "no"))).first, "error: no\n");
}

TEST(PrintError, BugsAskForAReportWithTheVersion) {
  const auto [text, status] = printed(std::make_exception_ptr(std::logic_error("oops")));
  EXPECT_EQ(status, 70);
  EXPECT_NE(text.find("kirchhoff 0."), std::string::npos) << text;
  EXPECT_EQ(printed(std::make_exception_ptr(Error(ErrorCode::internal, "x"))).second, 70);
  EXPECT_EQ(printed(std::make_exception_ptr(std::bad_alloc())).second, 5);
}

}  // namespace
}  // namespace kirchhoff::cli
