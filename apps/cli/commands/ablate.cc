// kirchhoff ablate: what a model does without a head or an MLP.
#include <algorithm>  // for stable_sort
#include <cmath>      // for abs
#include <memory>     // for make_shared

#include "ablation_options.h"
#include "attribution_view.h"
#include "commands.h"
#include "corpus_subject.h"
#include "figures.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/study/ablation_study.h"
#include "kirchhoff/study/patch_json.h"
#include "progress_printer.h"
#include "result_output.h"
#include "selectors.h"
#include "subject.h"
#include "table.h"

namespace kirchhoff::cli {
namespace {

struct AblateCommand {
  ModelOptions model;
  PromptOptions prompt;
  CorpusCommandOptions text;
  TargetOptions target;
  ResultOutput output;
  AblationCommandOptions ablation;
  std::optional<std::string> heads, mlps, corrupt, corrupt_ids;
  bool all = false, together = false;
  Index late = 499, early = 49, top = 20;
};

std::vector<AblatedNodes> chosen_nodes(const AblateCommand& options, const ModelConfig& config) {
  std::vector<AblatedNodes> nodes;
  if (options.all) nodes = every_head(config);
  if (options.heads)
    for (const auto& head : parse_heads(*options.heads, config.n_layers, config.n_heads))
      nodes.push_back({.heads = {head}});
  if (options.mlps) {
    check(!config.attn_only, ErrorCode::usage, "option '--mlp': the model has no MLPs");
    for (const Index layer : parse_layers(*options.mlps, config.n_layers, "--mlp")) nodes.push_back({.mlps = {layer}});
  }
  if (!options.together) return nodes;
  AblatedNodes one;
  for (const AblatedNodes& node : nodes) {
    one.heads.insert(one.heads.end(), node.heads.begin(), node.heads.end());
    one.mlps.insert(one.mlps.end(), node.mlps.begin(), node.mlps.end());
  }
  return {one};
}

/// Indices of a list, the largest |value| first.
std::vector<std::size_t> largest_of(const std::vector<double>& values, Index count) {
  std::vector<std::size_t> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return std::abs(values[a]) > std::abs(values[b]); });
  order.resize(std::min(order.size(), static_cast<std::size_t>(count)));
  return order;
}

std::string left_out_note(const Session& session, std::size_t all, Index top) {
  if (all <= static_cast<std::size_t>(top)) return "";
  return note(session.out, fmt::format("the {} largest changes of {}; --top lists more", top, all));
}

int ablate_prompt_command(Session& session, const Command& command, const AblateCommand& options) {
  const Subject subject = open_subject(session, command, options.model, options.prompt);
  const std::vector<AblatedNodes> nodes = chosen_nodes(options, subject.model.config);
  NodeAblationOptions ablation = options.ablation.resolve(session);
  const bool resample = ablation.kind == Ablation::resample;
  check(resample || (!options.corrupt && !options.corrupt_ids), ErrorCode::usage,
        "option '--corrupt' belongs to '--kind resample'");
  Tokens corrupt;
  if (resample) {
    check(options.corrupt || options.corrupt_ids, ErrorCode::usage,
          "resample ablation takes its values from another prompt: give '--corrupt' or '--corrupt-ids'");
    PromptOptions other = options.prompt;
    other.argument.reset();
    other.text = options.corrupt;
    other.ids = options.corrupt_ids;
    other.ids_option = "--corrupt-ids";
    corrupt = read_prompt(other, command, subject.opened).ids;
  }
  const Trace trace = run_subject(session, subject, {}, LogitPositions::last);
  const LogitTarget target = options.target.resolve(
      subject.opened, top_tokens(std::span<const float>(trace.logits.values()), 1).front().id, subject.length() - 1);
  const PatchMetric metric{.target = target.token, .foil = target.foil, .pos = target.pos};
  const AblatedPrompt result = [&] {
    ProgressPrinter printer(session.err, session.quiet);
    ablation.progress = printer.callback();
    return ablate_on_prompt(subject.model, subject.prompt.ids, nodes, metric, ablation, corrupt);
  }();
  std::vector<double> changes;
  for (const double value : result.values) changes.push_back(value - result.clean);

  if (options.output.wanted()) {
    Json json = new_result("ablate", session, subject);
    json["metric"] = to_json(metric, subject.names());
    json["ablation"] = to_json(ablation);
    json["baseline"] = result.baseline;
    json["clean"] = result.clean;
    json["ablations"] = Json::array();
    for (std::size_t i = 0; i < nodes.size(); ++i)
      json["ablations"].push_back(
          {{"node", nodes[i].name()}, {"metric", result.values[i]}, {"metric_change", changes[i]}});
    options.output.write(session, json, [&] {
      return changes_figure(caption("Without a head or an MLP", subject, metric_name(subject, target),
                                    {ablation_text(ablation, result.baseline)}),
                            json["ablations"], "metric_change", options.top);
    });
    if (!options.output.screen()) return 0;
  }
  session.out.write(header(session, subject, metric_name(subject, target)));
  session.out.write(fmt::format("\n{}\n", session.out.paint(Style::title, "Without a head or an MLP")));
  const std::vector<std::size_t> order = largest_of(changes, options.top);
  double largest = 0.0;
  for (const double change : changes) largest = std::max(largest, std::abs(change));
  Table table({{"ablated"}, {"metric", true}, {"change", true}, {""}});
  for (const std::size_t i : order)
    table.add({nodes[i].name(), fmt::format("{:+.3f}", result.values[i]), signed_value(changes[i]),
               signed_bar(changes[i], largest)});
  session.out.write(table.render(session.out));
  session.out.write(fmt::format("\n  without ablation {:+.4f}\n", result.clean));
  session.out.write(left_out_note(session, changes.size(), options.top));
  session.out.write(note(session.out, ablation_text(ablation, result.baseline)));
  session.out.write(next_line(session, "dla", subject));
  return 0;
}

int ablate_text_command(Session& session, const AblateCommand& options) {
  check(!options.corrupt && !options.corrupt_ids, ErrorCode::usage,
        "option '--corrupt' belongs to a prompt; over a text '--kind resample' takes another window");
  CorpusCommandOptions text = options.text;
  text.bos = options.prompt.bos;
  text.no_bos = options.prompt.no_bos;
  text.plain = options.prompt.plain;
  const CorpusSubject subject = open_corpus_subject(session, options.model, text);
  const std::vector<AblatedNodes> nodes = chosen_nodes(options, subject.model.config);
  AblationStudyOptions studying;
  studying.ablation = options.ablation.resolve(session);
  studying.late = options.late;
  studying.early = options.early;
  const AblationStudy study = [&] {
    ProgressPrinter printer(session.err, session.quiet);
    studying.ablation.progress = printer.callback();
    return study_ablations(subject.model, subject.corpus.windows, nodes, studying);
  }();

  if (options.output.wanted()) {
    Json json = new_result("ablate", session, subject);
    json["ablation"] = to_json(studying.ablation);
    json["late"] = options.late;
    json["early"] = options.early;
    json.update(to_json(study));
    options.output.write(session, json, [&] {
      return changes_figure(
          caption("Without a head or an MLP", subject, {ablation_text(studying.ablation, study.baseline)}),
          json["ablations"], "loss_change", options.top);
    });
    if (!options.output.screen()) return 0;
  }
  session.out.write(header(session, subject));
  session.out.write(fmt::format("\n{}\n", session.out.paint(Style::title, "Without a head or an MLP")));
  std::vector<double> changes;
  for (const TextAblation& one : study.ablations) changes.push_back(one.change.value);
  std::vector<Column> columns = {{"ablated"}, {"loss", true}, {"change", true}, {"±", true}};
  if (study.icl) columns.insert(columns.end(), {{"ICL score", true}, {"change", true}, {"±", true}});
  Table table(columns);
  const auto error = [&](const MeanLoss& mean) { return study.windows > 1 ? fmt::format("{:.3f}", mean.error) : "–"; };
  for (const std::size_t i : largest_of(changes, options.top)) {
    const TextAblation& one = study.ablations[i];
    std::vector<Cell> row = {one.node, fmt::format("{:.4f}", one.loss.value), signed_value(one.change.value),
                             error(one.change)};
    if (study.icl)
      row.insert(row.end(),
                 {signed_value(one.icl->value), signed_value(one.icl_change->value), error(*one.icl_change)});
    table.add(row);
  }
  session.out.write(table.render(session.out));
  session.out.write(fmt::format("\n  without ablation: loss {:.4f}{} over {} predictions\n", study.loss.value,
                                study.icl ? fmt::format(", ICL score {:+.3f}", study.icl->value) : "",
                                study.predictions));
  session.out.write(left_out_note(session, changes.size(), options.top));
  session.out.write(note(session.out, ablation_text(studying.ablation, study.baseline)));
  session.out.write(note(
      session.out,
      study.icl ? fmt::format("ICL score: loss of token {} less loss of token {}, from 0; an ablation that raises it "
                              "makes the model learn less in context",
                              options.late, options.early)
                : fmt::format("no ICL score: windows of {} tokens have no token {} (from 0); --context, --late",
                              subject.corpus.context, options.late)));
  return 0;
}

int ablate_command(Session& session, const Command& command, const AblateCommand& options) {
  options.output.validate();
  check(options.top >= 0, ErrorCode::usage, "option '--top': {} is not a number of lines", options.top);
  check(options.all || options.heads || options.mlps, ErrorCode::usage,
        "there is nothing to ablate: give '--head L.H', '--mlp L' or '--all'");
  check(options.early >= 1 && options.late > options.early, ErrorCode::usage,
        "option '--late': token {} is not behind token {}, or nothing predicts the latter", options.late,
        options.early);
  if (!options.text.given()) return ablate_prompt_command(session, command, options);
  check(!options.prompt.text && !options.prompt.argument && !options.prompt.ids, ErrorCode::usage,
        "there is a prompt and a text: the metric of a prompt or the loss on '--data' is measured, not both");
  check(!options.target.given() && !options.target.foil && !options.target.foil_id, ErrorCode::usage,
        "option '--target' belongs to a prompt; over a text the loss is measured");
  return ablate_text_command(session, options);
}

}  // namespace

void add_ablate(Command& root, Session& session) {
  Command& command = root.add_command("ablate", "what a model does without a head or an MLP: metric, loss, ICL score");
  auto options = std::make_shared<AblateCommand>();
  options->text.tokens = 4096;
  options->model.declare(command);
  options->prompt.declare(command);
  options->target.declare(command);
  options->text.declare_text(command);
  command.option("--head", "L.H,..", options->heads, "heads to ablate, one at a time, e.g. 0.3,L5.*");
  command.option("--mlp", "L,..", options->mlps, "MLPs to ablate: layers, or all");
  command.flag("--all", options->all, "every head, one at a time");
  command.flag("--together", options->together, "all of them at once");
  options->ablation.declare(command);
  command.option("--corrupt", "TEXT", options->corrupt, "the prompt that resample takes values from");
  command.option("--corrupt-ids", "1,2,3", options->corrupt_ids, "the same as token ids");
  command.option("--late", "N", options->late, "the later token of the ICL score, from 0 (default 499)");
  command.option("--early", "N", options->early, "the earlier one (default 49)");
  command.option("--top", "N", options->top, "lines to list (default 20)");
  options->output.declare(command, ResultOutput::Picture::drawn);
  command.on_run([&session, &command, options] { return ablate_command(session, command, *options); });
}

}  // namespace kirchhoff::cli
