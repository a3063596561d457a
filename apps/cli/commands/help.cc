#include "commands.h"
#include "exit_status.h"
#include "help_text.h"
#include "kirchhoff/base/error.h"
#include "suggest.h"

namespace kirchhoff::cli {
namespace {

constexpr const char* kEnvironment = R"(Environment variables that kirchhoff reads

  COLUMNS          width that tables are fitted to (default: the terminal's, else 100)
  NO_COLOR         not empty: no colour (https://no-color.org)
  CLICOLOR_FORCE   not empty and not 0: colour even where the output is not a terminal
  CLICOLOR         0: no colour
  TERM             dumb: no colour
  HF_HUB_CACHE     where Hub names such as openai-community/gpt2 are looked up (offline)
  HF_HOME          its 'hub' folder, if HF_HUB_CACHE is not set (default ~/.cache/huggingface)

'--color always' and '--color never' come before all of these. Nothing is ever downloaded.
)";

constexpr const char* kFormatting = R"(Formatting of results

  stdout carries the result and nothing else; progress, warnings and errors go to stderr.
  --json           one JSON object with "schema" (such as "kirchhoff.run") and "version"; keys are only ever added
                   within a version. docs/cli/ describes every schema.
  --json=top,loss  only these keys, beside "schema" and "version".

  Tables are fitted to COLUMNS. Colour is used on a terminal only ('kirchhoff help environment'), and a number always
  stands beside it.

Selectors, the same everywhere

  --pos -1         a position, from 0; negative ones count from the end
  --pos 3..7       positions 3, 4, 5, 6, 7
  --head 9.9       layer 9, head 9, both from 0
  --head 'L5.*'    all heads of layer 5 ('*.3': head 3 of every layer)
  --target ' Mary' a single token; its leading space is part of it
  --target-id 75   the same by id
)";

constexpr const char* kTokens = R"(How tokens are read and shown

  A token is bytes. Tables show them so that nothing is invisible:

    ␣        a space                       ⏎  a newline           ⇥  a tab
    U+200B   zero-width and similar        ⟨E4 BD⟩  bytes that are no complete UTF-8 character

  JSON has "id", "text" (UTF-8, or null where the bytes are no complete character) and "bytes" (hexadecimal); offsets
  are byte offsets into the prompt.

  BOS: whether a beginning-of-sequence token is put in front is what the model's files say; --bos and --no-bos overrule
  them. Every result says what was done. Token ids given with --ids are used as they are.

  Text such as <|endoftext|> in a prompt is read as the special token; '--plain' reads it as ordinary text.

  'kirchhoff tokens --help' has the command that shows how a text is read.
)";

}  // namespace

void add_help(Command& root, Session& session) {
  Command& help = root.add_command("help", "help on a command or a topic: exit-codes, environment, formatting, tokens");
  auto topic = std::make_shared<std::string>();
  help.argument("TOPIC", *topic, "a command, or exit-codes, environment, formatting, tokens", false);
  help.on_run([&root, &session, topic] {
    if (topic->empty())
      session.out.write(help_text(root, session.out));
    else if (*topic == "exit-codes")
      session.out.write(exit_status_help());
    else if (*topic == "environment")
      session.out.write(kEnvironment);
    else if (*topic == "formatting")
      session.out.write(kFormatting);
    else if (*topic == "tokens")
      session.out.write(kTokens);
    else {
      std::vector<std::string> known = {"exit-codes", "environment", "formatting", "tokens"};
      for (const auto& command : root.commands()) {
        known.push_back(command->name());
        if (command->name() == *topic) {
          session.out.write(help_text(*command, session.out));
          return 0;
        }
      }
      const std::string near = closest(*topic, known);
      throw Error(ErrorCode::usage, fmt::format("there is no help on '{}'", *topic),
                  near.empty() ? fmt::format("topics: {}", fmt::join(known, ", "))
                               : fmt::format("a similar topic exists: '{}'", near));
    }
    return 0;
  });
}

}  // namespace kirchhoff::cli
