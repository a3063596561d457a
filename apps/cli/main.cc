#include <exception>  // for current_exception

#include "command_line.h"
#include "commands/commands.h"
#include "error_printer.h"
#include "help_text.h"
#include "session.h"
#include "signals.h"
#include "version.h"

namespace kirchhoff::cli {
namespace {

void add_commands(Command& root, Session& session) {
  add_explain(root, session);
  add_run(root, session);
  add_lens(root, session);
  add_dla(root, session);
  add_attn(root, session);
  add_paths(root, session);
  add_qk_terms(root, session);
  add_heads(root, session);
  add_terms(root, session);
  add_icl(root, session);
  add_curves(root, session);
  add_ablate(root, session);
  add_patch(root, session);
  add_ov(root, session);
  add_qk(root, session);
  add_compose(root, session);
  add_virtual(root, session);
  add_skip_trigrams(root, session);
  add_train(root, session);
  add_reproduce(root, session);
  add_tokens(root, session);
  add_model(root, session);
  add_inspect(root, session);
  add_bench(root, session);
  add_doctor(root, session);
  add_help(root, session);
  add_completion(root, session);
}

int run(int argc, const char* const* argv, Session& session) {
  Command root("kirchhoff", "Mechanistic interpretability of transformers: what is reported adds up.");
  session.declare(root);
  add_commands(root, session);
  const Command::Parsed parsed = root.parse(argc, argv);
  session.apply();
  if (parsed.version) {
    session.out.write(version_line() + "\n");
    return 0;
  }
  if (parsed.help || !parsed.command->runnable()) {
    Terminal& stream = parsed.help ? session.out : session.err;
    stream.write(help_text(*parsed.command, stream));
    return parsed.help ? 0 : 2;
  }
  return parsed.command->run();
}

}  // namespace
}  // namespace kirchhoff::cli

int main(int argc, char** argv) {
  using namespace kirchhoff::cli;
  install_signal_handlers();
  Session session;
  try {
    const int status = run(argc, argv, session);
    session.out.flush();
    return status;
  } catch (...) {
    return print_error(session.err, std::current_exception(), session.verbosity > 1);
  }
}
