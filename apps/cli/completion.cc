#include "completion.h"

#include <fmt/format.h>

namespace kirchhoff::cli {
namespace {

constexpr const char* kScript = R"sh(# bash completion for @name@: eval "$(@name@ completion bash)"
_@name@() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" path='@name@' words='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$path ${COMP_WORDS[i]}" in
      @paths@) path="$path ${COMP_WORDS[i]}" ;;
    esac
  done
  case "$previous" in
@choices@  esac
  case "$path" in
@cases@  esac
  if [[ "$current" == -* || "$path" == '@name@' ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$current") $(compgen -f -- "$current"))
  fi
}
complete -o filenames -F _@name@ @name@
)sh";

/// Words that may follow `command`: its sub-commands and options, and the global options.
std::string words_of(const Command& command, const Command& root) {
  std::vector<std::string> words;
  for (const auto& sub : command.commands()) words.push_back(sub->name());
  for (const Command* owner : {&command, &root}) {
    for (const OptionSpec& spec : owner->options())
      for (const std::string& flag : spec.flags()) words.push_back(flag);
    if (&command == &root) break;
  }
  words.push_back("--help");
  return fmt::format("{}", fmt::join(words, " "));
}

void add_cases(const Command& command, const Command& root, std::string& text) {
  text += fmt::format("    '{}') words='{}' ;;\n", command.path(), words_of(command, root));
  for (const auto& sub : command.commands()) add_cases(*sub, root, text);
}

/// Which words are commands, so that the script can tell "model info" from an argument called "info".
void add_paths(const Command& command, std::string& text) {
  for (const auto& sub : command.commands()) {
    text += fmt::format("{}'{}'", text.empty() ? "" : "|", sub->path());
    add_paths(*sub, text);
  }
}

void add_choices(const Command& command, std::string& text) {
  for (const OptionSpec& spec : command.options())
    if (!spec.choices.empty() && !spec.positional)
      text += fmt::format("    {}) COMPREPLY=($(compgen -W '{}' -- \"$current\")); return ;;\n",
                          fmt::join(spec.flags(), "|"), fmt::join(spec.choices, " "));
  for (const auto& sub : command.commands()) add_choices(*sub, text);
}

}  // namespace

std::string bash_completion(const Command& root) {
  std::string cases, paths, choices;
  add_cases(root, root, cases);
  add_paths(root, paths);
  add_choices(root, choices);
  std::string script = kScript;
  for (const auto& [mark, text] : {std::pair<std::string, std::string>{"@paths@", paths},
                                   {"@choices@", choices},
                                   {"@cases@", cases},
                                   {"@name@", root.name()}})
    for (std::size_t at; (at = script.find(mark)) != std::string::npos;) script.replace(at, mark.size(), text);
  return script;
}

}  // namespace kirchhoff::cli
