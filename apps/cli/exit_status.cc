#include "exit_status.h"

namespace kirchhoff::cli {

int exit_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::mismatch:
      return 1;
    case ErrorCode::usage:
      return 2;
    case ErrorCode::format:
    case ErrorCode::not_found:
    case ErrorCode::unsupported:
    case ErrorCode::io:
      return 3;
    case ErrorCode::numerical:
      return 4;
    case ErrorCode::out_of_memory:
      return 5;
    case ErrorCode::device:
      return 6;
    case ErrorCode::interrupted:
      return 130;
    case ErrorCode::internal:
      return 70;
  }
  return 70;
}

std::string exit_status_help() {
  return R"(Exit status of every kirchhoff command

    0  ok
    1  a check ran and the answer is no
    2  usage: an argument or option is wrong; the message says which
    3  a model or file is missing, unreadable, malformed or of a kind that is not implemented
    4  numerical failure: NaN or Inf in weights, values that differ by more than the tolerance
    5  out of memory, with an estimate
    6  a processor feature or device is missing or broken
   70  a bug in kirchhoff
  130  interrupted (Ctrl-C); nothing is left half-written

Errors go to stderr as 'error: ...' with an indented 'help: ...' line where there is advice. stdout carries results only.
)";
}

}  // namespace kirchhoff::cli
