#include "kirchhoff/base/signal_block.h"

namespace kirchhoff {
#if defined(__unix__) || defined(__APPLE__)
namespace {

sigset_t of_other_origin() {
  sigset_t set;
  sigfillset(&set);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP}) sigdelset(&set, own);
  return set;
}

}  // namespace

SignalBlock::SignalBlock() noexcept {
  static const sigset_t set = of_other_origin();
  pthread_sigmask(SIG_BLOCK, &set, &before_);
}

SignalBlock::~SignalBlock() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
#else
SignalBlock::SignalBlock() noexcept = default;
SignalBlock::~SignalBlock() = default;
#endif
}  // namespace kirchhoff
