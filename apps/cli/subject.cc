#include "subject.h"

#include "kirchhoff/base/error.h"
#include "progress_printer.h"
#include "text_width.h"
#include "version.h"

namespace kirchhoff::cli {

std::string Subject::shown(TokenId id) const { return text::visible(names().bytes(id)); }

std::string Subject::shown_at(Index pos) const {
  return fmt::format("{}·{}", shown(prompt.ids[static_cast<std::size_t>(pos)]), pos);
}

Subject open_subject(Session& session, const Command& command, const ModelOptions& model, const PromptOptions& prompt) {
  Subject subject;
  subject.opened = open_model(model.model);
  subject.prompt = read_prompt(prompt, command, subject.opened);
  subject.model = load_weights(session, subject.opened, model);
  fit_to_context(subject.prompt, subject.model.config.n_ctx, prompt.truncate);
  return subject;
}

Trace run_subject(Session& session, const Subject& subject, std::vector<std::string> capture, LogitPositions logits) {
  ProgressPrinter printer(session.err, session.quiet);
  RunOptions options;
  options.capture = std::move(capture);
  options.logits = logits;
  options.progress = printer.callback();
  return run(subject.model, subject.prompt.ids, options);
}

RerunBase rerun_base(Session& session, const Subject& subject, std::vector<std::string> capture) {
  ProgressPrinter printer(session.err, session.quiet);
  RunOptions options;
  options.capture = std::move(capture);
  options.logits = LogitPositions::last;
  options.progress = printer.callback();
  return RerunBase(subject.model, std::span(&subject.prompt.ids, 1), options);
}

Provenance provenance(const Session& session, const Subject& subject) {
  Provenance result = provenance_of(subject.model);
  result.program = version_line();
  result.fingerprint = io::fingerprint(subject.opened.files);
  result.tokenizer = subject.opened.tokenizer ? subject.opened.tokenizer->description() : "";
  result.prompt = subject.prompt.text;
  result.tokens = subject.prompt.ids;
  result.bos = subject.prompt.bos;
  result.truncated = subject.prompt.truncated;
  result.seed = session.seed;
  return result;
}

Json new_result(std::string_view name, const Session& session, const Subject& subject) {
  Json result = kirchhoff::new_result(name);
  result["ids"] = subject.prompt.ids;
  result["provenance"] = to_json(provenance(session, subject), subject.names());
  return result;
}

std::string header_line(const Session& session, std::string_view label, const std::string& text) {
  constexpr Index kLabel = 8;
  return fmt::format("{}{}\n", session.out.paint(Style::faint, padded(label, kLabel)),
                     wrapped(text, session.out.columns() - kLabel, std::string(kLabel, ' ')));
}

std::string model_line(const Session& session, const Subject& subject) {
  const ModelConfig& c = subject.model.config;
  return header_line(session, "model",
                     fmt::format("{} · {} · {} layers × {} heads · d_model {} · {}{}", subject.opened.files.argument,
                                 c.family, c.n_layers, c.n_heads, c.d_model, subject.model.origin.format,
                                 subject.model.origin.packed ? ", packed" : ""));
}

std::string header(const Session& session, const Subject& subject, const std::string& metric) {
  std::string text = model_line(session, subject);
  text += header_line(session, "prompt",
                      fmt::format("T={} · {}{}{}", subject.length(), subject.prompt.bos,
                                  subject.prompt.truncated.empty() ? "" : " · ", subject.prompt.truncated));
  if (!metric.empty()) text += header_line(session, "metric", metric);
  return text;
}

std::string metric_name(const Subject& subject, const LogitTarget& target) {
  std::string name = fmt::format("logit({})", subject.shown(target.token));
  if (target.foil) name += fmt::format(" − logit({})", subject.shown(*target.foil));
  if (target.readout == Readout::centred) name += " − mean logit";
  if (target.readout == Readout::loss) name = fmt::format("ln(vocabulary) − loss({})", subject.shown(target.token));
  const Index pos = target.pos < 0 ? target.pos + subject.length() : target.pos;
  return fmt::format("{} at position {} ({})", name, pos,
                     subject.shown(subject.prompt.ids[static_cast<std::size_t>(pos)]));
}

std::string shell_quoted(const std::string& word) {
  if (!word.empty() &&
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:=@+") ==
          std::string::npos)
    return word;
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

std::string next_line(const Session& session, const std::string& command, const Subject& subject,
                      const std::string& arguments) {
  std::string prompt = shell_quoted(subject.prompt.text);
  if (subject.prompt.text.empty()) prompt = fmt::format("--ids {}", fmt::join(subject.prompt.ids, ","));
  const std::string text = fmt::format("kirchhoff {} {} {}{}{}", command, shell_quoted(subject.opened.files.argument),
                                       prompt, arguments.empty() ? "" : " ", arguments);
  return fmt::format("{} {}\n", session.out.paint(Style::faint, "next:"), text);
}

}  // namespace kirchhoff::cli
