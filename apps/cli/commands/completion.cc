#include "completion.h"

#include "commands.h"

namespace kirchhoff::cli {

void add_completion(Command& root, Session& session) {
  Command& completion = root.add_command("completion", "shell completion scripts");
  Command& bash = completion.add_command("bash", "print a bash script: eval \"$(kirchhoff completion bash)\"");
  bash.on_run([&root, &session] {
    session.out.write(bash_completion(root));
    return 0;
  });
}

}  // namespace kirchhoff::cli
