// kirchhoff curves: what became of models while they were trained.
#include <memory>  // for make_shared

#include "attribution_view.h"
#include "commands.h"
#include "kirchhoff/base/error.h"
#include "learning_curves_view.h"
#include "result_output.h"
#include "subject.h"
#include "units.h"
#include "version.h"

namespace kirchhoff::cli {
namespace {

struct CurvesCommand {
  std::vector<std::string> runs;
  std::string x = "step";
  CurvesView view;
  ResultOutput output;
};

/// "attn-2l · 4000 steps · 32.8 M tokens · still going".
std::string run_text(const TrainingRun& run) {
  const auto& records = run.history.records;
  if (records.empty()) return fmt::format("{} · no record yet", run.name);
  return fmt::format("{} · {} steps · {} tokens{}{}", run.name, records.back().step,
                     readable_count(records.back().tokens), run.seed ? fmt::format(" · seed {}", *run.seed) : "",
                     run.history.unfinished ? " · the last line is being written" : "");
}

std::vector<std::string> curve_notes(const std::vector<RunGroup>& groups) {
  std::vector<std::string> notes = {
      "held-out: nats per token of texts that the model is not trained on; ICL score: loss of late less loss of early "
      "positions there, negative where the model learns in context",
      "prefix matching, previous token: of heads on repeated random tokens",
      fmt::format("phase change: the shortest stretch with {:.0f} % of the rise of the best prefix matching, if that "
                  "reaches {} and the mean ICL score falls by {} nats from a/2 .. a to b .. 2b, a and b its first and "
                  "last step",
                  100.0 * kPhaseShare, kRoleScore, kPhaseLeast)};
  for (const RunGroup& group : groups)
    if (group.runs.size() > 1) {
      notes.emplace_back(
          "runs that differ in their seeds alone are one: mean, and lowest … highest of them; at steps that all have");
      break;
    }
  return notes;
}

int curves_command(Session& session, CurvesCommand& options) {
  options.output.validate();
  check(options.view.rows >= 0, ErrorCode::usage, "option '--rows': {} is no number of rows", options.view.rows);
  check(options.view.bound >= 0.0 && options.view.bound <= 1.0, ErrorCode::usage,
        "option '--bound': {} is no score between 0 and 1", options.view.bound);
  options.view.tokens = options.x == "tokens";
  std::vector<TrainingRun> runs;
  for (const std::string& path : options.runs) runs.push_back(read_training_run(path));
  const std::vector<RunGroup> groups = group_runs(runs);
  const std::vector<ShownPanel> panels = curve_panels(groups, options.view);
  std::vector<std::string> notes = curve_notes(groups);

  if (options.output.wanted()) {
    Json result = new_result("curves");
    result.update(to_json(groups));
    result["assumptions"] = notes;
    result["program"] = version_line();
    options.output.write(session, result, [&] {
      draw::Caption caption{.title = "Learning curves", .header = {}, .notes = phase_lines(groups)};
      for (const TrainingRun& run : runs) caption.header.push_back(run_text(run));
      caption.notes.insert(caption.notes.end(), notes.begin(), notes.end());
      return curves_figure(std::move(caption), panels, groups, options.view);
    });
    if (!options.output.screen()) return 0;
  }
  for (const TrainingRun& run : runs) session.out.write(header_line(session, "run", run_text(run)));
  session.out.write("\n");
  for (const RunGroup& group : groups) {
    if (groups.size() > 1) session.out.write(session.out.paint(Style::title, group.name) + "\n");
    session.out.write(points_table(session, group, options.view) + "\n");
  }
  session.out.write(panels_text(session, panels, groups, options.view));
  for (const std::string& line : phase_lines(groups)) session.out.write(note(session.out, line));
  for (const std::string& line : notes) session.out.write(note(session.out, line));
  return 0;
}

}  // namespace

void add_curves(Command& root, Session& session) {
  Command& command = root.add_command("curves", "loss, in-context learning and heads along trainings");
  auto options = std::make_shared<CurvesCommand>();
  command.arguments("DIR", options->runs, "directories of trainings, with a history.jsonl; several are overlaid");
  command.option("--x", "AXIS", options->x, "what the curves run over", {"step", "tokens"});
  command.flag("--log", options->view.log_x, "logarithmic steps or tokens");
  command.option("--bound", "S", options->view.bound,
                 "a head has a curve of its own if a score of it reaches this (default 0.4)");
  command.option("--rows", "N", options->view.rows, "rows of the table, 0 for all (default 16)");
  options->output.declare(command, ResultOutput::Picture::drawn);
  command.footer("Runs whose training.json differs in the seed alone are shown as one, with the spread.");
  command.on_run([&session, options] { return curves_command(session, *options); });
}

}  // namespace kirchhoff::cli
