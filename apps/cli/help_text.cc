#include "help_text.h"

#include <fmt/format.h>

#include <algorithm>  // for max, min

#include "text_width.h"

namespace kirchhoff::cli {
namespace {

struct Entry {
  std::string left, right;
};

std::string section(const std::string& title, const std::vector<Entry>& entries, const Terminal& terminal) {
  if (entries.empty()) return "";
  Index left = 0;
  for (const Entry& entry : entries) left = std::max(left, display_width(entry.left));
  left = std::min<Index>(left, std::max<Index>(12, terminal.columns() / 3));
  const Index width = std::max<Index>(16, terminal.columns() - left - 4);
  const std::string indent(static_cast<std::size_t>(left + 4), ' ');
  std::string text = fmt::format("\n{}\n", terminal.paint(Style::strong, title));
  for (const Entry& entry : entries) {
    const bool fits = display_width(entry.left) <= left;
    text += fmt::format("  {}{}{}\n", padded(entry.left, left), fits ? "  " : fmt::format("\n{}", indent),
                        wrapped(entry.right, width, indent));
  }
  return text;
}

std::vector<Entry> option_entries(const Command& command, bool positional) {
  std::vector<Entry> entries;
  for (const OptionSpec& spec : command.options()) {
    if (spec.positional != positional) continue;
    std::string left = positional ? spec.names : fmt::format("{}", fmt::join(spec.flags(), ", "));
    if (!spec.value.empty()) left += fmt::format("{}{}", spec.value.front() == '[' ? "" : " ", spec.value);
    std::string right = spec.help;
    if (!spec.choices.empty()) right += fmt::format(" ({})", fmt::join(spec.choices, ", "));
    entries.push_back({left, right});
  }
  return entries;
}

}  // namespace

std::string usage_line(const Command& command) {
  std::string line = command.path();
  if (!command.commands().empty()) return line + " COMMAND ...";
  line += " [options]";
  for (const OptionSpec& spec : command.options())
    if (spec.positional)
      line += fmt::format(" {}{}{}{}", spec.required ? "" : "[", spec.names, spec.several ? "..." : "",
                          spec.required ? "" : "]");
  return line;
}

std::string help_text(const Command& command, const Terminal& terminal) {
  std::string text = terminal.paint(Style::strong, "usage:") + " " + usage_line(command) + "\n\n" +
                     wrapped(command.summary(), terminal.columns(), "") + "\n";
  std::vector<Entry> commands;
  for (const auto& sub : command.commands()) commands.push_back({sub->name(), sub->summary()});
  text += section("Commands", commands, terminal);
  text += section("Arguments", option_entries(command, true), terminal);
  std::vector<Entry> options = option_entries(command, false);
  options.push_back({"-h, --help", "show this help"});
  if (!command.parent()) options.push_back({"--version", "print the version"});
  text += section("Options", options, terminal);
  const Command* root = &command;
  while (root->parent()) root = root->parent();
  if (root != &command) text += section("Global options", option_entries(*root, false), terminal);
  if (!command.footer().empty()) text += fmt::format("\n{}", command.footer());
  return text;
}

}  // namespace kirchhoff::cli
