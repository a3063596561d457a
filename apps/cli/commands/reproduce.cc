// kirchhoff reproduce: the papers' experiments, from a text to a page with figures, in resumable stages.
#include <filesystem>  // for exists
#include <memory>      // for make_shared
#include <optional>    // for optional

#include "attribution_view.h"
#include "commands.h"
#include "json_option.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/reproduce/chains.h"
#include "kirchhoff/tensor/tensor.h"
#include "progress_printer.h"
#include "subject.h"
#include "table.h"
#include "training_progress.h"
#include "units.h"

namespace kirchhoff::cli {
namespace {

constexpr const char* kDefaultData = "corpus/english.txt";

struct ReproduceCommand {
  std::string chain;
  std::vector<std::string> data;
  std::optional<std::string> directory, docs;
  double minutes = 0.0;
  bool quick = false, plan = false;
  JsonOption json;

  std::string root() const { return directory.value_or(quick ? "reproduction-quick" : "reproduction"); }
};

reproduce::Chain chosen_chain(const ReproduceCommand& options) {
  reproduce::ExperimentOptions experiment{.data = options.data, .quick = options.quick};
  if (experiment.data.empty()) {
    std::error_code ignored;
    check(std::filesystem::exists(kDefaultData, ignored), ErrorCode::not_found,
          "'{}' is not there, and '--data FILE' names no other text: 'make corpus' builds it", kDefaultData);
    experiment.data = {kDefaultData};
  }
  return reproduce::experiment(options.chain, experiment);
}

/// What a chain says while it is at work: a line for each stage, below it what the stage is at.
class ChainProgress {
 public:
  ChainProgress(Session& session, const reproduce::Chain& chain)
      : session_(session), stages_(chain.stages.size()), printer_(session.err, session.quiet) {}

  void connect(reproduce::ChainOptions& options) {
    options.progress = printer_.callback();
    options.on_stage = [this](const reproduce::Stage& stage, Index index) {
      training_.reset();
      printer_.clear();
      if (session_.quiet) return;
      session_.err.write(fmt::format("[{}/{}] {}: {}\n", index + 1, stages_, stage.name, stage.summary));
      session_.err.flush();
    };
    options.on_training = [this](const train::Trainer& trainer) {
      printer_.clear();
      training_.emplace(session_, trainer);
    };
    options.on_step = [this](const train::StepReport& report) {
      if (training_) training_->show(report);
    };
  }

 private:
  Session& session_;
  std::size_t stages_;
  ProgressPrinter printer_;
  std::optional<TrainingProgress> training_;
};

std::string stage_table(const Session& session, const reproduce::Chain& chain, const reproduce::ChainReport& report) {
  Table table({{"stage"}, {"what it does"}, {"estimate", true}, {"took", true}, {"state"}});
  for (std::size_t i = 0; i < chain.stages.size(); ++i) {
    const reproduce::ChainReport::Entry& entry = report.stages[i];
    table.add({entry.stage, chain.stages[i].summary, readable_duration(60.0 * chain.stages[i].minutes),
               entry.seconds > 0.0 ? readable_duration(entry.seconds) : "", name(entry.state)});
  }
  return table.render(session.out);
}

Json chain_json(const reproduce::Chain& chain, const reproduce::ChainReport& report, const std::string& directory) {
  Json result = new_result("reproduce");
  result["chain"] = chain.name;
  result["quick"] = chain.quick;
  result["directory"] = directory;
  result["finished"] = report.finished;
  result["stages"] = Json::array();
  for (std::size_t i = 0; i < chain.stages.size(); ++i)
    result["stages"].push_back({{"stage", report.stages[i].stage},
                                {"state", name(report.stages[i].state)},
                                {"seconds", report.stages[i].seconds},
                                {"estimate", 60.0 * chain.stages[i].minutes}});
  return result;
}

reproduce::ChainReport run_stages(Session& session, const reproduce::Chain& chain, const ReproduceCommand& options,
                                  const std::string& directory) {
  ChainProgress progress(session, chain);
  reproduce::ChainOptions running{.directory = directory, .minutes = options.minutes};
  progress.connect(running);
  try {
    return reproduce::run_chain(chain, running);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::interrupted) throw;
    throw Error(ErrorCode::interrupted, error.what(), "the same command goes on from there");
  }
}

int reproduce_command(Session& session, const ReproduceCommand& options) {
  check(options.minutes >= 0.0, ErrorCode::usage, "option '--minutes': {} is negative", options.minutes);
  const reproduce::Chain chain = chosen_chain(options);
  const std::string directory = fmt::format("{}/{}", options.root(), chain.name);
  if (!options.plan) keep_freed_memory();
  const reproduce::ChainReport report =
      options.plan ? reproduce::chain_state(chain, directory) : run_stages(session, chain, options, directory);
  std::optional<std::string> page;
  if (report.finished && !options.plan) {
    // A quick chain's figures are no one's reference: they stay beside its work unless somebody wants them elsewhere.
    const std::string docs = options.docs.value_or(options.quick ? options.root() + "/report" : "docs/reproduction");
    page = fmt::format("{}/{}", docs, chain.name);
    write_report(chain, directory, *page);
  }
  if (options.json.wanted()) {
    Json result = chain_json(chain, report, directory);
    result["report"] = page ? Json(*page) : Json(nullptr);
    options.json.print(session, result);
    return 0;
  }
  session.out.write(stage_table(session, chain, report));
  session.out.write("\n");
  double done = 0.0;
  for (const reproduce::ChainReport::Entry& entry : report.stages) done += entry.seconds;
  session.out.write(note(session.out, fmt::format("{} of work until now; estimated {} in all on two idle cores",
                                                  readable_duration(done), readable_duration(60.0 * chain.minutes()))));
  if (page)
    session.out.write(fmt::format("written: {}/README.md with figures and results\n", *page));
  else if (!report.finished)
    session.out.write(fmt::format("goes on with: kirchhoff reproduce {}{}{}\n", chain.name,
                                  options.quick ? " --quick" : "",
                                  options.directory ? " -o " + shell_quoted(*options.directory) : ""));
  return 0;
}

}  // namespace

void add_reproduce(Command& root, Session& session) {
  Command& command = root.add_command("reproduce", "the papers' experiments again: train, measure, draw");
  auto options = std::make_shared<ReproduceCommand>();
  command.argument("EXPERIMENT", options->chain, "framework (Elhage et al. 2021) or induction (Olsson et al. 2022)");
  command.flag("--quick", options->quick, "smaller models and fewer tokens: minutes in place of hours");
  command.option("-o,--output", "DIR", options->directory,
                 "where to work (default reproduction, with --quick reproduction-quick)");
  command.list("--data", "FILE", options->data,
               "plain text files; documents end at <|endoftext|> (default corpus/english.txt)");
  command.option("--docs", "DIR", options->docs,
                 "where the page goes (default docs/reproduction, with --quick report/ beside the work)");
  command.option("--minutes", "X", options->minutes, "stop after so long; the same command goes on");
  command.flag("--plan", options->plan, "say what there is to do and what is done, and do nothing");
  options->json.declare(command);
  command.footer("Stages that are done are not repeated; an interrupted one goes on from its last saved state.");
  command.on_run([&session, options] { return reproduce_command(session, *options); });
}

}  // namespace kirchhoff::cli
