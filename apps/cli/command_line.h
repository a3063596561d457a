#pragma once
#include <cstdint>     // for uint64_t
#include <functional>  // for function
#include <memory>      // for unique_ptr
#include <optional>    // for optional
#include <string>      // for string
#include <vector>      // for vector

#include "kirchhoff/base/types.h"

namespace CLI {
class App;
}

namespace kirchhoff::cli {

/// What help, completion and suggestions know about one option or argument.
struct OptionSpec {
  std::string names;  ///< "-n,--tokens"; "MODEL" for an argument
  std::string value;  ///< "N" in "--tokens N"; empty for a flag and an argument
  std::string help;
  bool positional = false;
  bool required = false;
  std::vector<std::string> choices;  ///< the only values, if there are just a few
  bool several = false;              ///< an argument that may be given again and again
  /// "-n", "--tokens"
  std::vector<std::string> flags() const;
};

/// Text to value, with an Error{usage} that names the option, what was given and what was expected.
void assign(std::string& target, const std::string& text, const std::string& option);
void assign(Index& target, const std::string& text, const std::string& option);
void assign(std::uint64_t& target, const std::string& text, const std::string& option);
void assign(double& target, const std::string& text, const std::string& option);
template <class T>
void assign(std::optional<T>& target, const std::string& text, const std::string& option) {
  T value{};
  assign(value, text, option);
  target = value;
}

/// One node of the command tree: its options, its sub-commands, what it does. Parsing itself is CLI11's, which only
/// command_line.cc sees; this table is what help, completion and suggestions are made from.
class Command {
 public:
  Command(std::string name, std::string summary);  ///< the root
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  Command& add_command(std::string name, std::string summary);

  void flag(const std::string& names, bool& target, std::string help);
  /// A flag that may be repeated: -v, -vv.
  void counter(const std::string& names, Index& target, std::string help);
  /// "--json" and "--json=a,b": the value, or `bare` without one.
  void optional_value(const std::string& name, std::string value, std::optional<std::string>& target, std::string bare,
                      std::string help);
  template <class T>
  void option(const std::string& names, const std::string& value, T& target, const std::string& help,
              std::vector<std::string> choices = {}) {
    const std::string label = "option '" + long_name(names) + "'";
    add({names, value, help, false, false, std::move(choices)},
        [&target, label](const std::string& text) { assign(target, text, label); });
  }
  template <class T>
  void argument(const std::string& name, T& target, const std::string& help, bool required = true) {
    add({name, "", help, true, required, {}}, [&target, name](const std::string& text) { assign(target, text, name); });
  }

  /// An option that may be repeated, one value each.
  void list(const std::string& names, const std::string& value, std::vector<std::string>& target,
            const std::string& help);
  /// One or more.
  void arguments(const std::string& name, std::vector<std::string>& targets, std::string help);

  void on_run(std::function<int()> body) { run_ = std::move(body); }
  /// Free text under the options: examples, remarks.
  void footer(std::string text) { footer_ = std::move(text); }

  const std::string& name() const { return name_; }
  const std::string& summary() const { return summary_; }
  const std::string& footer() const { return footer_; }
  const Command* parent() const { return parent_; }
  const std::vector<OptionSpec>& options() const { return options_; }
  const std::vector<std::unique_ptr<Command>>& commands() const { return commands_; }
  /// "kirchhoff model info"
  std::string path() const;

  /// What the words on the command line ask for.
  struct Parsed {
    const Command* command = nullptr;  ///< the deepest one that was named
    bool help = false;                 ///< -h or --help was among them
    bool version = false;              ///< --version was
  };
  /// Fills the targets. Throws Error{usage}, with a suggestion where an option or command resembles what was typed.
  Parsed parse(int argc, const char* const* argv);

  bool runnable() const { return static_cast<bool>(run_); }
  int run() const { return run_(); }

 private:
  Command(std::string name, std::string summary, Command* parent, CLI::App* app);
  using Store = std::function<void(const std::string& text)>;
  void add(OptionSpec spec, Store store, bool repeats = false);
  static std::string long_name(const std::string& names);
  const Command* deepest_parsed() const;
  void require_arguments() const;
  [[noreturn]] void reject(const std::string& word) const;

  std::string name_, summary_, footer_;
  Command* parent_ = nullptr;
  std::unique_ptr<CLI::App> owned_;  // the root's
  CLI::App* app_ = nullptr;
  std::vector<OptionSpec> options_;
  std::vector<std::unique_ptr<Command>> commands_;
  std::function<int()> run_;
};

}  // namespace kirchhoff::cli
