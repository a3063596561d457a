#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/engine/rerun.h"
#include "kirchhoff/study/provenance.h"
#include "opened_model.h"
#include "prompt.h"
#include "session.h"

namespace kirchhoff::cli {

/// A prompt in a model, ready to be looked at.
struct Subject {
  OpenedModel opened;
  Model model;
  Prompt prompt;

  TokenNames names() const { return opened.names(); }
  Index length() const { return static_cast<Index>(prompt.ids.size()); }
  /// " Mary" as tables show it: visible characters, "<75>" where only the id is known.
  std::string shown(TokenId id) const;
  /// The prompt's token at a position with the position, so that equal tokens stay apart: "␣Mary·13".
  std::string shown_at(Index pos) const;
};

/// Opens, reads the prompt, loads: in this order, so that a wrong prompt is refused before the weights are read.
Subject open_subject(Session& session, const Command& command, const ModelOptions& model, const PromptOptions& prompt);

/// Runs with progress on stderr.
Trace run_subject(Session& session, const Subject& subject, std::vector<std::string> capture, LogitPositions logits);

/// The same as a run that variants branch off, with the last position's logits.
RerunBase rerun_base(Session& session, const Subject& subject, std::vector<std::string> capture);

Provenance provenance(const Session& session, const Subject& subject);

/// {"schema", "version", "ids", "provenance"}: the beginning of an analysis' JSON; beside the one of
/// study/result_json.h.
using kirchhoff::new_result;
Json new_result(std::string_view name, const Session& session, const Subject& subject);

/// The lines above every analysis: model, prompt with T and BOS, and `metric` if not empty.
std::string header(const Session& session, const Subject& subject, const std::string& metric = {});

/// The one about the model.
std::string model_line(const Session& session, const Subject& subject);

/// One of them: a label, then text that is wrapped behind it.
std::string header_line(const Session& session, std::string_view label, const std::string& text);

/// "logit(␣Mary) − logit(␣John) at position 14"
std::string metric_name(const Subject& subject, const LogitTarget& target);

/// "next: kirchhoff dla ..." as every analysis ends; `arguments` follow the model and the prompt.
std::string next_line(const Session& session, const std::string& command, const Subject& subject,
                      const std::string& arguments = {});

/// A word as a shell takes it.
std::string shell_quoted(const std::string& word);

}  // namespace kirchhoff::cli
