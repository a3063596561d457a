#include "tuned_lens_training.h"

#include <algorithm>   // for max
#include <filesystem>  // for exists

#include "attribution_view.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/study/tuned_lens_file.h"
#include "progress_printer.h"
#include "subject.h"
#include "table.h"

namespace kirchhoff::cli {
namespace {

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

/// The windows of the text's end, a tenth, which the lens never sees while it is trained.
std::size_t held_out_count(std::size_t windows) { return std::max<std::size_t>(1, windows / 10); }

/// Trains to the end, or says that it was stopped after saving where it was.
std::vector<double> train(Session& session, TunedLensTrainer& trainer, const TunedLensCommandOptions& options,
                          const TunedLensRun& run) {
  ProgressPrinter printer(session.err, session.quiet);
  const Progress progress = printer.callback();
  std::vector<double> losses;
  try {
    while (!trainer.done()) {
      report(progress, "training", trainer.step(), run.options.steps);
      losses.push_back(trainer.advance());
      if (trainer.step() % options.save_every == 0) write_training_state(*options.directory, trainer, run);
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted) {
      const InterruptShield shield;
      write_training_state(*options.directory, trainer, run);
    }
    throw;
  }
  write_training_state(*options.directory, trainer, run);
  return losses;
}

std::string divergence_table(const Session& session, const std::vector<double>& before,
                             const std::vector<double>& after) {
  Table table({{"state"}, {"logit lens", true}, {"tuned lens", true}});
  for (std::size_t l = 0; l < before.size(); ++l)
    table.add({fmt::format("{}_pre", l),
               fmt::format("{:.3f}", before[l]),
               {fmt::format("{:.3f}", after[l]), after[l] < before[l] ? Style::positive : Style::plain}});
  return table.render(session.out);
}

}  // namespace

void TunedLensCommandOptions::declare(Command& command) {
  command.option("--train-tuned", "DIR", directory, "train a tuned lens on --data and save it there");
  command.option("--data", "FILE", corpus.data, "of --train-tuned: a plain text file to read");
  command.option("--data-ids", "FILE", corpus.data_ids, "a file of token ids instead, for models without a tokenizer");
  command.option("--tokens", "N", corpus.tokens, "tokens of it to read, 0: all (default all)");
  command.option("--context", "N", corpus.user_context, "tokens in a window, BOS included (default 256)");
  command.option("--steps", "N", training.steps, "training steps (default 250)");
  command.option("--step-tokens", "N", training.step_tokens, "tokens of a step, in whole windows (default 2048)");
  command.option("--learning-rate", "X", training.learning_rate,
                 "of SGD, times 1 - momentum; falls linearly to 0 (default 1)");
  command.option("--save-every", "N", save_every, "steps between saved states to continue from (default 50)");
  command.flag("--resume", resume, "continue from the state that is saved in DIR, to the same bits");
}

std::string TunedLensCommandOptions::misplaced() const {
  if (directory) return {};
  if (corpus.data) return "--data";
  if (corpus.data_ids) return "--data-ids";
  return resume ? "--resume" : "";
}

int train_tuned_lens(Session& session, const ModelOptions& model, const PromptOptions& prompt,
                     const TunedLensCommandOptions& options, const JsonOption& json) {
  check(!prompt.argument && !prompt.text && !prompt.ids, ErrorCode::usage,
        "option '--train-tuned' reads the text of '--data', and no prompt");
  check(options.save_every >= 1, ErrorCode::usage, "option '--save-every': {} is less than 1", options.save_every);
  check(options.resume || !exists(*options.directory + "/config.json"), ErrorCode::usage,
        "option '--train-tuned': '{}' holds a lens already; '--resume' continues its training", *options.directory);
  CorpusCommandOptions reading = options.corpus;
  reading.bos = prompt.bos;
  reading.no_bos = prompt.no_bos;
  reading.plain = prompt.plain;
  const CorpusSubject subject = open_corpus_subject(session, model, reading);
  const std::vector<Tokens>& windows = subject.corpus.windows;
  check(windows.size() >= 2, ErrorCode::usage,
        "the text fills {} windows of {} tokens: two are needed, to train on and to judge by", windows.size(),
        subject.corpus.context);
  const std::size_t held_out = held_out_count(windows.size());
  const std::span<const Tokens> seen = std::span(windows).first(windows.size() - held_out),
                                unseen = std::span(windows).last(held_out);

  Json result = new_result("lens.training", session, subject);
  TunedLensRun run{options.training, result["provenance"]["fingerprint"].get<std::string>(), hash_windows(seen)};
  run.options.seed = session.seed;
  TunedLensTrainer trainer(subject.model, seen, run.options);
  if (options.resume)
    check(read_training_state(*options.directory, trainer, run), ErrorCode::not_found,
          "option '--resume': '{}' holds no state to continue from", *options.directory);
  const std::vector<double> losses = train(session, trainer, options, run);
  TunedLens named = zero_tuned_lens(subject.model.config);
  for (std::size_t l = 0; l < named.W.size(); ++l) {
    named.W[l] = trainer.lens().W[l].clone();
    named.b[l] = trainer.lens().b[l].clone();
  }
  named.model = subject.opened.files.argument;
  write_tuned_lens(*options.directory, named);

  ProgressPrinter printer(session.err, session.quiet);
  const std::vector<double> before = tuned_lens_divergence(subject.model, zero_tuned_lens(subject.model.config), unseen,
                                                           printer.callback()),
                            after = tuned_lens_divergence(subject.model, named, unseen, printer.callback());
  printer.clear();
  if (json.wanted()) {
    result["directory"] = *options.directory;
    result["steps"] = run.options.steps;
    result["step_tokens"] = run.options.step_tokens;
    result["learning_rate"] = run.options.learning_rate;
    result["losses"] = losses;
    result["held_out_windows"] = held_out;
    result["layers"] = Json::array();
    for (std::size_t l = 0; l < before.size(); ++l)
      result["layers"].push_back(
          {{"label", fmt::format("{}_pre", l)}, {"logit_lens", before[l]}, {"tuned_lens", after[l]}});
    json.print(session, result);
    return 0;
  }
  session.out.write(header(session, subject));
  session.out.write(fmt::format("\n{} KL(model || lens) in nats, over {} windows that it was not trained on\n",
                                session.out.paint(Style::title, "Tuned lens"), held_out));
  session.out.write(divergence_table(session, before, after));
  session.out.write("\n");
  session.out.write(
      note(session.out, fmt::format("{} steps of {} tokens or more, on {} windows; saved in {}", run.options.steps,
                                    run.options.step_tokens, seen.size(), *options.directory)));
  session.out.write(fmt::format("next: kirchhoff lens {} --tuned {} -p TEXT\n",
                                shell_quoted(subject.opened.files.argument), shell_quoted(*options.directory)));
  return 0;
}

}  // namespace kirchhoff::cli
