#pragma once
#include <csignal>  // for sigset_t

namespace kirchhoff {

/// While one exists, the calling thread, and threads that it starts meanwhile, run no signal handlers; signals wait, or
/// another thread takes them. Signals that the thread's own instructions raise (SIGSEGV, SIGFPE, ...) still arrive.
/// Does nothing where the system has no such masks.
class SignalBlock {
 public:
  SignalBlock() noexcept;
  ~SignalBlock();
  SignalBlock(const SignalBlock&) = delete;
  SignalBlock& operator=(const SignalBlock&) = delete;

 private:
#if defined(__unix__) || defined(__APPLE__)
  sigset_t before_;
#endif
};

}  // namespace kirchhoff
