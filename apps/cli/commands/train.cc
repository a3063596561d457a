// kirchhoff train: models from text or from a task, in resumable steps.
#include <algorithm>  // for any_of, max, min
#include <memory>     // for make_shared
#include <optional>   // for optional

#include "attribution_view.h"
#include "commands.h"
#include "json_option.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/tensor/tensor.h"
#include "kirchhoff/train/training_run.h"
#include "progress_printer.h"
#include "subject.h"
#include "table.h"
#include "training_progress.h"
#include "units.h"

namespace kirchhoff::cli {
namespace {

struct TrainCommand {
  std::optional<std::string> config, preset, directory;
  std::vector<std::string> data;
  std::string licence;
  std::optional<Index> steps, batch, context, until;
  std::optional<double> learning_rate;
  double minutes = 0.0;
  Index save_every = 200;
  bool resume = false;
  JsonOption json;
};

/// What was typed, for the model card.
std::string command_of(const TrainCommand& options, std::uint64_t seed) {
  std::string text = "kirchhoff train";
  const auto add = [&text](const char* name, const std::string& value) {
    text += fmt::format(" {} {}", name, shell_quoted(value));
  };
  if (options.config) add("--config", *options.config);
  if (options.preset) add("--preset", *options.preset);
  for (const std::string& file : options.data) add("--data", file);
  if (options.steps) add("--steps", std::to_string(*options.steps));
  if (options.batch) add("--batch", std::to_string(*options.batch));
  if (options.context) add("--context", std::to_string(*options.context));
  if (options.learning_rate) add("--learning-rate", fmt::format("{}", *options.learning_rate));
  if (seed > 0) add("--seed", std::to_string(seed));
  return text;
}

train::TrainingSetup setup_of(const Session& session, const TrainCommand& options) {
  check(options.config.has_value() != options.preset.has_value(), ErrorCode::usage,
        "what is to be trained? expected either '--config FILE' or '--preset NAME' ({}), or '--resume'",
        fmt::join(train::training_preset_names(), ", "));
  train::TrainingSetup setup;
  setup.config =
      options.config ? train::read_training_config(*options.config) : train::training_preset(*options.preset);
  train::TrainingOptions& training = setup.config.training;
  if (options.steps) training.steps = *options.steps;
  if (options.batch) training.batch = *options.batch;
  if (options.context) training.context = *options.context;
  if (options.learning_rate) training.learning_rate = *options.learning_rate;
  if (session.seed > 0) training.seed = session.seed;
  training.warmup = std::min(training.warmup, training.steps);
  training.validate();
  setup.data = options.data;
  setup.directory = *options.directory;
  setup.command = command_of(options, session.seed);
  setup.licence = options.licence;
  return setup;
}

void refuse_beside_resume(const Session& session, const TrainCommand& options) {
  const std::pair<const char*, bool> given[] = {{"--config", options.config.has_value()},
                                                {"--preset", options.preset.has_value()},
                                                {"--data", !options.data.empty()},
                                                {"--steps", options.steps.has_value()},
                                                {"--batch", options.batch.has_value()},
                                                {"--context", options.context.has_value()},
                                                {"--licence", !options.licence.empty()},
                                                {"--learning-rate", options.learning_rate.has_value()},
                                                {"--seed", session.seed != 0}};
  for (const auto& [name, is_given] : given)
    check(!is_given, ErrorCode::usage, "option '{}': a run that is resumed goes on as it was begun", name);
}

std::string summary(Session& session, const train::TrainingRun& run, const train::History& history) {
  const std::vector<train::HistoryRecord>& records = history.records;
  const auto occurs = [&records](auto&& has) {
    return std::any_of(records.begin(), records.end(), [&](const train::HistoryRecord& record) {
      return record.evaluation && has(*record.evaluation);
    });
  };
  // Of a task what it determines counts: the other tokens are random, and how they are spread says nothing.
  const bool task = occurs([](const train::Evaluation& seen) { return seen.task.has_value(); });
  const bool in_context = !task && occurs([](const train::Evaluation& seen) { return seen.icl.has_value(); });
  std::vector<Column> columns{{"step", true}, {"tokens", true}, {"training loss", true}, {"held-out loss", true}};
  if (in_context) columns.push_back({"ICL score", true});
  if (task) columns.push_back({"accuracy", true});
  Table table(std::move(columns));
  const std::size_t stride = std::max<std::size_t>(1, records.size() / 10);
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (i % stride != 0 && i + 1 != records.size()) continue;
    const train::HistoryRecord& record = records[i];
    const auto* seen = record.evaluation ? &*record.evaluation : nullptr;
    const auto* solved = seen && seen->task ? &*seen->task : nullptr;
    std::vector<Cell> row{std::to_string(record.step), readable_count(record.tokens),
                          record.loss ? fmt::format("{:.3f}", *record.loss) : "",
                          solved ? fmt::format("{:.3f}", solved->loss)
                          : seen ? fmt::format("{:.3f}", seen->loss.value)
                                 : ""};
    if (in_context) row.emplace_back(seen && seen->icl ? fmt::format("{:+.3f}", seen->icl->score.value) : "");
    if (task) row.emplace_back(solved ? fmt::format("{:.1f} %", 100.0 * solved->accuracy) : "");
    table.add(std::move(row));
  }
  return fmt::format("{} {} parameters, {} of {} steps\n\n", session.out.paint(Style::title, run.directory()),
                     readable_count(run.count()), run.trainer().step(), run.trainer().options().steps) +
         table.render(session.out);
}

int train_command(Session& session, const TrainCommand& options) {
  check(options.directory.has_value(), ErrorCode::usage, "option '-o': the directory to train in is missing");
  check(options.until.value_or(0) >= 0, ErrorCode::usage, "option '--until' is {}, expected a step from 0 on",
        options.until.value_or(0));
  check(options.minutes >= 0.0, ErrorCode::usage, "option '--minutes' is {}, expected 0 (no limit) or more",
        options.minutes);
  check(options.save_every >= 1, ErrorCode::usage, "option '--save-every' is {}, expected 1 or more",
        options.save_every);
  if (options.resume) {
    refuse_beside_resume(session, options);
  } else {
    ProgressPrinter printer(session.err, session.quiet);
    train::begin_run(setup_of(session, options), printer.callback());
  }
  keep_freed_memory();
  train::TrainingRun run(*options.directory);
  bool finished = false;
  {
    TrainingProgress progress(session, run.trainer());
    finished = run.run({.until_step = options.until, .minutes = options.minutes, .save_every = options.save_every},
                       [&progress](const train::StepReport& report) { progress.show(report); });
  }
  const train::History history = train::read_history(*options.directory + "/history.jsonl");
  if (options.json.wanted()) {
    Json result = new_result("train");
    result["directory"] = *options.directory;
    result["finished"] = finished;
    result["step"] = run.trainer().step();
    result["steps"] = run.trainer().options().steps;
    result["parameters"] = run.count();
    result["history"] = Json::array();
    for (const train::HistoryRecord& record : history.records)
      result["history"].push_back(Json::parse(train::history_line(record)));
    options.json.print(session, result);
    return 0;
  }
  session.out.write(summary(session, run, history));
  session.out.write("\n");
  if (finished)
    session.out.write(
        fmt::format("next: kirchhoff curves {0}, kirchhoff explain {0} TEXT\n", shell_quoted(*options.directory)));
  else
    session.out.write(
        fmt::format("stopped; goes on with: kirchhoff train --resume -o {}\n", shell_quoted(*options.directory)));
  return 0;
}

}  // namespace

void add_train(Command& root, Session& session) {
  Command& command = root.add_command("train", "train a small transformer on text or on a task, to take it apart");
  auto options = std::make_shared<TrainCommand>();
  command.option("-o,--output", "DIR", options->directory, "the directory to train in: every command opens it");
  command.option("--preset", "NAME", options->preset, "a ready-made model and course", train::training_preset_names());
  command.option("--config", "FILE", options->config,
                 "model, tokenizer or task, and training as JSON (docs/training.md)");
  command.list("--data", "FILE", options->data, "plain text files; documents end at <|endoftext|>");
  command.option("--licence", "TEXT", options->licence, "of the data, for the model card");
  command.option("--steps", "N", options->steps, "instead of the config's");
  command.option("--batch", "N", options->batch, "sequences of a step, instead of the config's");
  command.option("--context", "N", options->context, "tokens of a sequence, instead of the config's");
  command.option("--learning-rate", "X", options->learning_rate, "at its peak, instead of the config's");
  command.flag("--resume", options->resume, "go on with the run in DIR, to the same bits as if it had not stopped");
  command.option("--minutes", "X", options->minutes, "stop after so long, to be resumed");
  command.option("--until", "STEP", options->until, "stop after this step, to be resumed");
  command.option("--save-every", "N", options->save_every, "steps between saved states (default 200)");
  options->json.declare(command);
  command.footer("--seed chooses the initial weights and the order of the text.");
  command.on_run([&session, options] { return train_command(session, *options); });
}

}  // namespace kirchhoff::cli
