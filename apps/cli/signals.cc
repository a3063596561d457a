#include "signals.h"

#include <unistd.h>  // for _exit, write
#include <csignal>   // for sigaction, raise

#include "kirchhoff/base/progress.h"
#include "version.h"

namespace kirchhoff::cli {
namespace {

/// Written by the handler, which may not allocate.
char g_crash_message[128];
std::size_t g_crash_length = 0;

extern "C" void on_interrupt(int) {
  if (interrupt_requested()) _exit(130);
  request_interrupt();
}

extern "C" void on_crash(int signal) {
  [[maybe_unused]] const auto written = write(STDERR_FILENO, g_crash_message, g_crash_length);
  raise(signal);  // the handler is gone (SA_RESETHAND): the system's own treatment follows
}

}  // namespace

void install_signal_handlers() {
  struct sigaction interrupt {};
  interrupt.sa_handler = on_interrupt;
  sigaction(SIGINT, &interrupt, nullptr);

#ifndef __SANITIZE_ADDRESS__  // which reports crashes itself
  g_crash_length = version_line().copy(g_crash_message, 32);
  g_crash_length += std::string("\nerror: crashed; please report it with the command and the line above\n")
                        .copy(g_crash_message + g_crash_length, 90);
  struct sigaction crash {};
  crash.sa_handler = on_crash;
  crash.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT}) sigaction(signal, &crash, nullptr);
#endif
}

}  // namespace kirchhoff::cli
