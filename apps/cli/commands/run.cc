#include <algorithm>  // for all_of, max
#include <cmath>      // for exp
#include <memory>     // for make_shared

#include "commands.h"
#include "generated_text.h"
#include "json_option.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/generate.h"
#include "kirchhoff/engine/loss.h"
#include "kirchhoff/observe/prediction.h"
#include "progress_printer.h"
#include "subject.h"
#include "table.h"
#include "units.h"

namespace kirchhoff::cli {
namespace {

struct RunCommand {
  ModelOptions model;
  PromptOptions prompt;
  JsonOption json;
  Index top = 10, tokens = 0;
  bool loss = false, ignore_eos = false;
  SamplingOptions sampling;
};

/// Whether the tokens of the prompt can be judged as predictions: the model is causal and has a logit for each.
bool predicts_tokens(const Subject& subject) {
  const Index d_vocab_out = subject.model.config.d_vocab_out;
  return subject.model.config.causal && std::all_of(subject.prompt.ids.begin(), subject.prompt.ids.end(),
                                                    [&](TokenId id) { return id < d_vocab_out; });
}

std::string top_table(const Session& session, const Subject& subject, const std::vector<TokenScore>& top) {
  Table table({{"#", true}, {"token"}, {"id", true}, {"logit", true}, {"prob", true}, {""}});
  for (std::size_t i = 0; i < top.size(); ++i)
    table.add({std::to_string(i + 1),
               {subject.shown(top[i].id), Style::token},
               std::to_string(top[i].id),
               fmt::format("{:.3f}", top[i].logit),
               readable_share(top[i].probability),
               {bar(top[i].probability, 20), Style::positive}});
  return table.render(session.out);
}

std::string loss_table(const Session& session, const Subject& subject, const std::vector<double>& losses) {
  const double largest = std::max(1e-9, *std::max_element(losses.begin(), losses.end()));
  Table table({{"pos", true}, {"token"}, {"loss", true}, {"prob", true}, {""}});
  for (std::size_t i = 0; i < losses.size(); ++i)
    table.add({std::to_string(i + 1),
               {subject.shown(subject.prompt.ids[i + 1]), Style::token},
               fmt::format("{:.3f}", losses[i]),
               readable_share(std::exp(-losses[i])),
               {bar(losses[i] / largest, 20), Style::negative}});
  return table.render(session.out);
}

Generation generate_text(Session& session, const Subject& subject, const RunCommand& options, bool stream) {
  GeneratedText text(subject.opened.tokenizer.get(), subject.prompt.ids);
  if (stream && session.out.is_tty()) session.out.write(session.out.paint(Style::faint, subject.prompt.text));
  GenerateOptions generate_options;
  generate_options.max_new_tokens = options.tokens;
  generate_options.sampling = options.sampling;
  generate_options.sampling.seed = session.seed;
  if (const auto eos = subject.opened.tokenizer ? subject.opened.tokenizer->eos() : std::nullopt;
      eos && !options.ignore_eos)
    generate_options.stop.push_back(*eos);
  if (stream)
    generate_options.on_token = [&](TokenId id) {
      session.out.write(text.append(id, session.out.is_tty()));
      session.out.flush();
      return !session.out.closed();
    };
  Generation generation = generate(subject.model, subject.prompt.ids, generate_options);
  if (stream) session.out.write("\n");
  return generation;
}

const char* name(StopReason reason) {
  switch (reason) {
    case StopReason::length:
      return "length";
    case StopReason::stop_token:
      return "stop_token";
    case StopReason::context_full:
      return "context_full";
    case StopReason::caller:
      return "caller";
  }
  return "";
}

Json generation_json(const Subject& subject, const Generation& generation) {
  GeneratedText text(subject.opened.tokenizer.get(), subject.prompt.ids);
  std::string bytes;
  for (const TokenId id : generation.tokens) bytes += text.append(id, false);
  return {{"ids", generation.tokens},
          {"text", subject.opened.tokenizer ? text_json(bytes) : Json(nullptr)},
          {"bytes", hex(bytes)},
          {"stop", name(generation.reason)}};
}

int run_command(Session& session, const Command& command, const RunCommand& options) {
  check(options.top >= 0, ErrorCode::usage, "option '--top': {} is negative", options.top);
  check(options.tokens >= 0, ErrorCode::usage, "option '--tokens': {} is negative", options.tokens);
  options.sampling.validate();
  const Subject subject = open_subject(session, command, options.model, options.prompt);
  const bool json = options.json.wanted();
  if (options.tokens > 0 && !json) {
    generate_text(session, subject, options, true);
    return 0;
  }
  const bool judged = predicts_tokens(subject) && (json || options.loss);
  check(judged || !options.loss, ErrorCode::usage,
        "option '--loss': the model does not predict the next token of this prompt");
  Prediction prediction;
  {
    ProgressPrinter printer(session.err, session.quiet);
    prediction = predict(subject.model, subject.prompt.ids, judged, printer.callback());
  }
  const auto top = top_tokens(std::span<const float>(prediction.logits), options.top);
  const double mean = mean_loss(prediction.losses);
  if (json) {
    Json result = new_result("run", session, subject);
    result["top"] = to_json(top, subject.names());
    result["loss"] = judged ? Json({{"mean", mean}, {"per_token", prediction.losses}}) : Json(nullptr);
    if (options.tokens > 0)
      result["generated"] = generation_json(subject, generate_text(session, subject, options, false));
    options.json.print(session, result);
    return 0;
  }
  session.out.write(header(session, subject));
  session.out.write(fmt::format("\n{} after {}\n", session.out.paint(Style::title, "Next token"),
                                subject.shown(subject.prompt.ids.back())));
  session.out.write(top_table(session, subject, top));
  if (options.loss && !prediction.losses.empty()) {
    session.out.write(fmt::format("\n{}\n  {:.4f} nats a token, perplexity {:.5g}\n",
                                  session.out.paint(Style::title, "Loss"), mean, std::exp(mean)));
    session.out.write(loss_table(session, subject, prediction.losses));
  }
  session.out.write(fmt::format("\n{}", next_line(session, "explain", subject)));
  return 0;
}

}  // namespace

void add_run(Command& root, Session& session) {
  Command& command = root.add_command("run", "next-token predictions, losses, or generated text for a prompt");
  auto options = std::make_shared<RunCommand>();
  options->model.declare(command);
  options->prompt.declare(command);
  command.option("-n,--tokens", "N", options->tokens, "generate N tokens after the prompt, streamed to stdout");
  command.option("--top", "K", options->top, "predictions to list (default 10)");
  command.flag("--loss", options->loss, "also the loss of every token of the prompt");
  command.option("--temperature", "X", options->sampling.temperature,
                 "sample at this temperature (default 0: the largest logit)");
  command.option("--top-k", "K", options->sampling.top_k, "sample from the K most likely tokens");
  command.option("--top-p", "P", options->sampling.top_p,
                 "sample from the most likely tokens that make up probability P");
  command.flag("--ignore-eos", options->ignore_eos, "go on after an end-of-sequence token");
  options->json.declare(command);
  command.footer(
      "Examples\n"
      "  kirchhoff run models/smollm2.gguf 'The capital of France is'\n"
      "  kirchhoff run gpt2 -n 40 --temperature 0.8 --seed 1 'Once upon a time'\n");
  command.on_run([&session, &command, options] { return run_command(session, command, *options); });
}

}  // namespace kirchhoff::cli
