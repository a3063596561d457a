#include "command_line.h"

#include <CLI/CLI.hpp>

#include <charconv>  // for from_chars

#include "kirchhoff/base/error.h"
#include "suggest.h"

namespace kirchhoff::cli {
namespace {

template <class T>
void assign_number(T& target, const std::string& text, const std::string& option, const char* expected) {
  const char* end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, target);
  check(status == std::errc() && stop == end, ErrorCode::usage, "{}: '{}' is not {}", option, text, expected);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + 1)
    parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

}  // namespace

std::vector<std::string> OptionSpec::flags() const {
  return positional ? std::vector<std::string>{} : split(names, ',');
}

void assign(std::string& target, const std::string& text, const std::string&) { target = text; }
void assign(Index& target, const std::string& text, const std::string& option) {
  assign_number(target, text, option, "a whole number");
}
void assign(std::uint64_t& target, const std::string& text, const std::string& option) {
  assign_number(target, text, option, "a whole number of 0 or more");
}
void assign(double& target, const std::string& text, const std::string& option) {
  assign_number(target, text, option, "a number");
}

Command::Command(std::string name, std::string summary)
    : name_(std::move(name)), summary_(std::move(summary)), owned_(std::make_unique<CLI::App>()), app_(owned_.get()) {
  app_->name(name_);
  app_->set_help_flag("-h,--help", "show this help");
  app_->set_version_flag("--version", "");
  app_->require_subcommand(0, 1);
}

Command::Command(std::string name, std::string summary, Command* parent, CLI::App* app)
    : name_(std::move(name)), summary_(std::move(summary)), parent_(parent), app_(app) {
  app_->fallthrough();  // the global options may stand anywhere
  app_->require_subcommand(0, 1);
}

Command::~Command() = default;

Command& Command::add_command(std::string name, std::string summary) {
  CLI::App* app = app_->add_subcommand(name);
  commands_.push_back(std::unique_ptr<Command>(new Command(std::move(name), std::move(summary), this, app)));
  return *commands_.back();
}

void Command::flag(const std::string& names, bool& target, std::string help) {
  app_->add_flag_function(names, [&target](std::int64_t count) { target = count > 0; });
  options_.push_back({names, "", std::move(help), false, false, {}});
}

void Command::counter(const std::string& names, Index& target, std::string help) {
  app_->add_flag_function(names, [&target](std::int64_t count) { target = count; });
  options_.push_back({names, "", std::move(help), false, false, {}});
}

void Command::optional_value(const std::string& name, std::string value, std::optional<std::string>& target,
                             std::string bare, std::string help) {
  const CLI::callback_t store = [&target, bare](const CLI::results_t& results) {
    target = results.back() == "true" ? bare : results.back();
    return true;
  };
  CLI::Option* option = app_->add_option(name, store);
  option->expected(0)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  options_.push_back({name, std::move(value), std::move(help), false, false, {}});
}

void Command::list(const std::string& names, const std::string& value, std::vector<std::string>& target,
                   const std::string& help) {
  add(
      {names, value, help, false, false, {}}, [&target](const std::string& text) { target.push_back(text); }, true);
}

void Command::add(OptionSpec spec, Store store, bool repeats) {
  const std::vector<std::string> choices = spec.choices;
  const std::string label = long_name(spec.names);
  const CLI::callback_t callback = [store = std::move(store), choices, label](const CLI::results_t& results) {
    for (const std::string& text : results) {
      check(choices.empty() || std::find(choices.begin(), choices.end(), text) != choices.end(), ErrorCode::usage,
            "option '{}': '{}' is not one of {}", label, text, fmt::join(choices, ", "));
      store(text);
    }
    return true;
  };
  CLI::Option* option = app_->add_option(spec.names, callback);
  if (repeats)
    option->expected(1, 1 << 20)->take_all();
  else if (!spec.positional)
    option->take_last();
  options_.push_back(std::move(spec));
}

void Command::arguments(const std::string& name, std::vector<std::string>& targets, std::string help) {
  const CLI::callback_t store = [&targets](const CLI::results_t& results) {
    targets = results;
    return true;
  };
  app_->add_option(name, store)->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args();
  options_.push_back({name, "", std::move(help), true, true, {}, true});
}

std::string Command::long_name(const std::string& names) { return split(names, ',').back(); }

std::string Command::path() const { return parent_ ? parent_->path() + " " + name_ : name_; }

const Command* Command::deepest_parsed() const {
  for (const auto& command : commands_)
    if (command->app_->count() > 0) return command->deepest_parsed();
  return this;
}

void Command::require_arguments() const {
  for (const OptionSpec& spec : options_)
    if (spec.required && app_->get_option(spec.names)->count() == 0)
      throw Error(ErrorCode::usage, fmt::format("'{}' needs {}: {}", path(), spec.names, spec.help),
                  fmt::format("run '{} --help'", path()));
}

void Command::reject(const std::string& word) const {
  const bool is_option = word.size() > 1 && word.front() == '-';
  std::vector<std::string> known;
  for (const Command* command = this; command; command = command->parent_) {
    if (is_option)
      for (const OptionSpec& spec : command->options_)
        for (const std::string& name : spec.flags()) known.push_back(name);
    else if (command == this)
      for (const auto& sub : command->commands_) known.push_back(sub->name_);
  }
  const std::string typed = is_option ? word.substr(0, word.find('=')) : word;
  const std::string near = closest(typed, known);
  const std::string all = fmt::format("run '{} --help'", path());
  if (is_option)
    throw Error(ErrorCode::usage, fmt::format("'{}' has no option '{}'", path(), typed),
                near.empty() ? all : fmt::format("a similar option exists: '{}'", near));
  if (!commands_.empty())
    throw Error(ErrorCode::usage, fmt::format("'{}' has no command '{}'", path(), word),
                near.empty() ? all : fmt::format("a similar command exists: '{}'", near));
  throw Error(ErrorCode::usage, fmt::format("'{}' does not take a further argument '{}'", path(), word),
              "text with spaces needs quotes; " + all);
}

Command::Parsed Command::parse(int argc, const char* const* argv) {
  Parsed parsed;
  try {
    app_->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    parsed.help = true;
  } catch (const CLI::CallForVersion&) {
    parsed.version = true;
  } catch (const CLI::ExtrasError&) {
    const Command* command = deepest_parsed();
    command->reject(app_->remaining(true).front());
  } catch (const CLI::ArgumentMismatch& e) {
    const std::string text = e.what();
    throw Error(ErrorCode::usage, fmt::format("option '{}' needs a value", text.substr(0, text.find(':'))),
                fmt::format("run '{} --help'", deepest_parsed()->path()));
  } catch (const CLI::ParseError& e) {
    throw Error(ErrorCode::usage, e.what(), fmt::format("run '{} --help'", deepest_parsed()->path()));
  }
  parsed.command = deepest_parsed();
  if (!parsed.help && !parsed.version) parsed.command->require_arguments();
  return parsed;
}

}  // namespace kirchhoff::cli
