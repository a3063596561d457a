// kirchhoff icl: how much a model learns from the text before a token.
#include <cmath>   // for abs
#include <memory>  // for make_shared

#include "ablation_options.h"
#include "attribution_view.h"
#include "commands.h"
#include "corpus_subject.h"
#include "figures.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/study/ablation_study.h"
#include "progress_printer.h"
#include "result_output.h"
#include "selectors.h"
#include "subject.h"
#include "table.h"

namespace kirchhoff::cli {
namespace {

struct IclCommand {
  ModelOptions model;
  CorpusCommandOptions text;
  ResultOutput output;
  AblationCommandOptions ablation;
  Index late = 499, early = 49;
  std::optional<std::string> before, ablate;
};

using Losses = std::vector<std::vector<double>>;

Losses losses_with_progress(Session& session, const Model& model, const TokenCorpus& corpus) {
  ProgressPrinter printer(session.err, session.quiet);
  CorpusLossOptions options;
  options.progress = printer.callback();
  return corpus_losses(model, corpus.windows, options);
}

/// The losses of the same tokens under another state of the model.
Losses losses_before(Session& session, const IclCommand& options, const CorpusSubject& subject) {
  ModelOptions other = options.model;
  other.model = *options.before;
  const OpenedModel opened = open_model(other.model);
  const Model model = load_weights(session, opened, other);
  check(model.config.d_vocab == subject.model.config.d_vocab, ErrorCode::usage,
        "option '--before': '{}' reads {} tokens, '{}' {}: they do not share a vocabulary", other.model,
        model.config.d_vocab, options.model.model, subject.model.config.d_vocab);
  return losses_with_progress(session, model, subject.corpus);
}

std::string bins_table(const Session& session, const std::vector<PositionBin>& bins) {
  Table table({{"tokens before"}, {"loss", true}, {"d loss / d ln position", true}});
  for (std::size_t i = 0; i < bins.size(); ++i)
    table.add({bins[i].to == bins[i].from + 1 ? fmt::format("{}", bins[i].from)
                                              : fmt::format("{}..{}", bins[i].from, bins[i].to - 1),
               fmt::format("{:.3f}", bins[i].loss), i + 1 < bins.size() ? signed_value(bins[i].slope) : Cell("")});
  return table.render(session.out);
}

std::string icl_ablations_table(const Session& session, const AblationStudy& study) {
  const bool along = !study.ablations.empty() && study.ablations.front().along.has_value();
  std::vector<Column> columns = {{"ablated"}, {"loss", true}, {"change", true}, {"ICL score", true}, {"change", true}};
  if (along) columns.push_back({"along before → after", true});
  Table table(columns);
  for (const TextAblation& one : study.ablations) {
    std::vector<Cell> row = {one.node, fmt::format("{:.3f}", one.loss.value), signed_value(one.change.value),
                             one.icl ? signed_value(one.icl->value) : Cell("–"),
                             one.icl_change ? signed_value(one.icl_change->value) : Cell("–")};
    if (along) row.push_back(signed_value(*one.along));
    table.add(row);
  }
  return table.render(session.out);
}

int icl_command(Session& session, const IclCommand& options) {
  options.output.validate();
  check(options.early >= 1, ErrorCode::usage, "option '--early': nothing predicts token {}", options.early);
  check(options.late > options.early, ErrorCode::usage, "option '--late': token {} is not behind token {}",
        options.late, options.early);
  const CorpusSubject subject = open_corpus_subject(session, options.model, options.text);
  const TokenCorpus& corpus = subject.corpus;
  check(corpus.context > options.late, ErrorCode::usage,
        "option '--late': windows of {} tokens have no token {} (from 0); a larger '--context' has", corpus.context,
        options.late);
  std::vector<AblatedNodes> nodes;
  if (options.ablate)
    for (const auto& head : parse_heads(*options.ablate, subject.model.config.n_layers, subject.model.config.n_heads))
      nodes.push_back({.heads = {head}});

  const Losses losses = losses_with_progress(session, subject.model, corpus);
  const IclScore icl = icl_score(losses, options.late, options.early);
  const std::vector<PositionLoss> positions = loss_by_position(losses);
  const std::vector<PositionBin> bins = loss_by_context(positions);
  AblationStudyOptions studying;
  studying.ablation = options.ablation.resolve(session);
  studying.late = options.late;
  studying.early = options.early;
  studying.tokens = choose_tokens(corpus.windows, session.seed);
  const std::vector<double> vector = losses_of(studying.tokens, losses);
  std::vector<double> start;
  if (options.before) {
    start = losses_of(studying.tokens, losses_before(session, options, subject));
    studying.change = before_and_after(start, vector);
  }
  const std::vector<ChosenToken> chosen = studying.tokens;
  if (!options.before) studying.tokens.clear();
  std::optional<AblationStudy> study;
  if (!nodes.empty()) {
    ProgressPrinter printer(session.err, session.quiet);
    studying.ablation.progress = printer.callback();
    study = study_ablations(subject.model, corpus.windows, nodes, studying);
  }

  std::vector<std::string> assumptions = {
      fmt::format("ICL score: loss of token {} less loss of token {}, counted from 0 in the window, BOS included; "
                  "negative where later tokens are easier",
                  icl.late, icl.early)};
  if (options.before)
    assumptions.push_back(
        fmt::format("along before → after: u · (losses with ablation − losses) over one token of each window, u the "
                    "change of these losses since '{}', of length 1; negative: the ablation undoes the change",
                    *options.before));
  if (study) assumptions.push_back(ablation_text(studying.ablation, study->baseline));
  if (options.output.wanted()) {
    Json result = new_result("icl", session, subject);
    result.update(to_json(icl));
    result["bins"] = to_json(std::span<const PositionBin>(bins));
    result["positions"] = to_json(std::span<const PositionLoss>(positions));
    result["tokens"] = Json::array();
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const auto& [window, position] = chosen[i];
      result["tokens"].push_back(
          {{"window", window},
           {"position", position},
           {"id", corpus.windows[static_cast<std::size_t>(window)][static_cast<std::size_t>(position)]},
           {"loss", vector[i]},
           {"loss_before", options.before ? Json(start[i]) : Json(nullptr)}});
    }
    result["before"] = options.before ? Json(*options.before) : Json(nullptr);
    result["ablation"] = study ? to_json(studying.ablation) : Json(nullptr);
    if (study) result["ablation"]["baseline"] = study->baseline;
    result["ablations"] = study ? to_json(*study)["ablations"] : Json::array();
    result["assumptions"] = assumptions;
    options.output.write(session, result, [&] {
      return icl_figure(caption("Loss by position", subject, assumptions), positions, bins);
    });
    if (!options.output.screen()) return 0;
  }
  session.out.write(header(session, subject));
  session.out.write(fmt::format("\n{}\n", session.out.paint(Style::title, "In-context learning")));
  const bool several = icl.windows > 1;
  session.out.write(fmt::format("  ICL score {}{} = loss {:.3f} of token {} − loss {:.3f} of token {}, {} window{}\n\n",
                                session.out.paint(Style::strong, fmt::format("{:+.3f}", icl.score.value)),
                                several ? fmt::format(" ± {:.3f}", icl.score.error) : "", icl.late_loss.value, icl.late,
                                icl.early_loss.value, icl.early, icl.windows, several ? "s" : ""));
  session.out.write(bins_table(session, bins));
  if (study) session.out.write("\n" + icl_ablations_table(session, *study));
  session.out.write("\n");
  if (several && std::abs(icl.score.value) < 2.0 * icl.score.error)
    session.out.write(note(session.out,
                           "the score is within two standard errors of zero: more text (--tokens) tells "
                           "more"));
  for (const std::string& line : assumptions) session.out.write(note(session.out, line));
  return 0;
}

}  // namespace

void add_icl(Command& root, Session& session) {
  Command& command = root.add_command("icl", "in-context learning: the loss by position, and what heads do for it");
  auto options = std::make_shared<IclCommand>();
  options->text.context = 512;
  options->text.tokens = 16384;
  options->model.declare(command);
  options->text.declare(command);
  command.option("--late", "N", options->late, "the later token of the score, from 0 (default 499)");
  command.option("--early", "N", options->early, "the earlier one (default 49)");
  command.option("--before", "MODEL2", options->before, "an earlier state of the model: the before-and-after vector");
  command.option("--ablate", "L.H,..", options->ablate, "heads to ablate, one at a time");
  options->ablation.declare(command);
  options->output.declare(command, ResultOutput::Picture::drawn);
  command.on_run([&session, options] { return icl_command(session, *options); });
}

}  // namespace kirchhoff::cli
