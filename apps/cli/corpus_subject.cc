#include "corpus_subject.h"

#include <algorithm>  // for min

#include "kirchhoff/base/error.h"
#include "kirchhoff/model/tokenizer.h"
#include "subject.h"
#include "weights_subject.h"

namespace kirchhoff::cli {

void CorpusCommandOptions::declare_text(Command& command) {
  command.option("--data", "FILE", data, "a plain text file to read");
  command.option("--data-ids", "FILE", data_ids, "a file of token ids instead, for models without a tokenizer");
  command.option(
      "--tokens", "N", tokens,
      fmt::format("tokens of it to read, 0: all (default {})", tokens == 0 ? "all" : fmt::format("{}", tokens)));
  command.option("--context", "N", user_context, fmt::format("tokens in a window, BOS included (default {})", context));
}

void CorpusCommandOptions::declare(Command& command) {
  declare_text(command);
  command.flag("--bos", bos, "put the beginning-of-sequence token in front of each window");
  command.flag("--no-bos", no_bos, "do not (default: what the model's files say)");
  command.flag("--plain", plain, "read text such as <|endoftext|> as ordinary text");
}

TokenCorpus read_command_corpus(const OpenedModel& opened, Index n_ctx, const CorpusCommandOptions& options,
                                std::string& bos) {
  check(options.given(), ErrorCode::usage, "there is no text: give a file with '--data'");
  check(!(options.data && options.data_ids), ErrorCode::usage,
        "the text was given twice: with '--data' and '--data-ids'");
  check(!(options.bos && options.no_bos), ErrorCode::usage, "options '--bos' and '--no-bos' contradict each other");
  check(options.tokens >= 0, ErrorCode::usage, "option '--tokens': {} is not a number of tokens", options.tokens);
  const Index fitting = n_ctx > 0 ? std::min(options.context, n_ctx) : options.context;
  CorpusOptions reading{
      .context = options.user_context.value_or(fitting), .tokens = options.tokens, .recognise_special = !options.plain};
  check(reading.context >= 2, ErrorCode::usage, "option '--context': windows of {} tokens predict nothing",
        reading.context);
  check(n_ctx == 0 || reading.context <= n_ctx, ErrorCode::usage,
        "option '--context': windows of {} tokens, the model's context holds {}", reading.context, n_ctx);
  std::optional<bool> user;
  if (options.bos || options.no_bos) user = options.bos;
  bos = "ids as given";
  if (opened.tokenizer && (!options.data_ids || user)) {
    const BosDecision decision = decide_bos(opened.files, *opened.tokenizer, user);
    if (decision.prepend) reading.bos = decision.id;
    bos = decision.why;
  }
  if (options.data_ids) {
    check(!options.bos || opened.tokenizer, ErrorCode::usage, "option '--bos': '{}' has no tokenizer",
          opened.files.argument);
    return read_id_corpus(*options.data_ids, reading);
  }
  if (!opened.tokenizer)
    throw Error(ErrorCode::usage, fmt::format("'{}' has no tokenizer, so it cannot read text", opened.files.argument),
                "give a file of token ids: --data-ids FILE");
  return read_corpus(*options.data, *opened.tokenizer, reading);
}

CorpusSubject open_corpus_subject(Session& session, const ModelOptions& model, const CorpusCommandOptions& options) {
  check(options.given(), ErrorCode::usage, "there is no text: give a file with '--data'");
  CorpusSubject subject;
  subject.opened = open_model(model.model);
  subject.model = load_weights(session, subject.opened, model);
  subject.corpus = read_command_corpus(subject.opened, subject.model.config.n_ctx, options, subject.bos);
  return subject;
}

Json to_json(const TokenCorpus& corpus, const TokenNames& names) {
  return {{"path", corpus.path},
          {"bytes", corpus.bytes},
          {"windows", corpus.windows.size()},
          {"context", corpus.context},
          {"tokens", corpus.tokens},
          {"predictions", corpus.predictions()},
          {"left_out", corpus.left_out},
          {"bos", corpus.bos ? kirchhoff::to_json(*corpus.bos, names) : Json(nullptr)}};
}

Json new_result(std::string_view name, const Session& session, const CorpusSubject& subject) {
  Json result = new_result(name, session, WeightsSubject{subject.opened, subject.model});
  result["provenance"]["bos"] = subject.bos;
  result["corpus"] = to_json(subject.corpus, subject.names());
  return result;
}

std::string header(const Session& session, const CorpusSubject& subject) {
  const TokenCorpus& corpus = subject.corpus;
  return model_line(session, WeightsSubject{subject.opened, subject.model}) +
         header_line(
             session, "text",
             fmt::format("{} · {} tokens in {} window{} of {} · {}", corpus.path, corpus.tokens, corpus.windows.size(),
                         corpus.windows.size() == 1 ? "" : "s", corpus.context, subject.bos));
}

}  // namespace kirchhoff::cli
