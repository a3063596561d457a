#pragma once
#include <optional>  // for optional
#include <string>    // for string

#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/corpus.h"
#include "opened_model.h"
#include "session.h"

namespace kirchhoff::cli {

/// Which text, and how it becomes windows: the same options for every command that reads a corpus.
struct CorpusCommandOptions {
  std::optional<std::string> data, data_ids;
  Index tokens = 0;     ///< 0: all of the text
  Index context = 256;  ///< of a window; cut to the model's own if the user did not ask
  std::optional<Index> user_context{};
  bool bos = false, no_bos = false, plain = false;

  /// The defaults that `tokens` and `context` have at this moment are what help says.
  void declare(Command& command);
  /// Without what is said about BOS and special tokens: beside the options of a prompt, which say it for both.
  void declare_text(Command& command);
  bool given() const { return data.has_value() || data_ids.has_value(); }
};

/// A model and the text that it reads.
struct CorpusSubject {
  OpenedModel opened;
  Model model;
  TokenCorpus corpus;
  std::string bos;  ///< what was decided about BOS, and why

  TokenNames names() const { return opened.names(); }
};

/// Opens, reads the text, loads. Errors: usage (no text, two texts, a context longer than the model's, no tokenizer).
CorpusSubject open_corpus_subject(Session& session, const ModelOptions& model, const CorpusCommandOptions& options);
/// The text for a model that is open already; what was decided about BOS goes into `bos`.
TokenCorpus read_command_corpus(const OpenedModel& opened, Index n_ctx, const CorpusCommandOptions& options,
                                std::string& bos);

/// {"path", "bytes", "windows", "context", "tokens", "predictions", "left_out", "bos"}.
Json to_json(const TokenCorpus& corpus, const TokenNames& names);
/// {"schema", "version", "provenance", "corpus"}.
Json new_result(std::string_view name, const Session& session, const CorpusSubject& subject);
/// The lines above every such analysis: model, text.
std::string header(const Session& session, const CorpusSubject& subject);

}  // namespace kirchhoff::cli
