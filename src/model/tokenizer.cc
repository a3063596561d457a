#include "kirchhoff/model/tokenizer.h"

#include "kirchhoff/base/error.h"

namespace kirchhoff {
namespace {

std::string name_of(const text::Tokenizer& tokenizer, text::TokenId id) {
  const text::TokenInfo* info = tokenizer.find(id);
  return info ? info->piece : std::to_string(id);
}

/// What the files say about BOS, and which file it was.
std::optional<bool> stated(const io::ModelFiles& files, const text::Tokenizer& tokenizer, std::string& who) {
  if (const std::optional<bool> said = tokenizer.prepends_bos()) {
    who = files.kind == io::ModelKind::gguf ? "the GGUF vocabulary" : "the tokenizer's file";
    return said;
  }
  const bool lens = files.kind == io::ModelKind::transformer_lens && files.config.is_object();
  for (const char* key : {"tokenizer_prepends_bos", "default_prepend_bos"})
    if (lens && files.config.contains(key) && files.config[key].is_boolean()) {
      who = fmt::format("the config ({})", key);
      return files.config[key].get<bool>();
    }
  return {};
}

}  // namespace

BosDecision decide_bos(const io::ModelFiles& files, const text::Tokenizer& tokenizer, std::optional<bool> user) {
  BosDecision decision;
  decision.id = tokenizer.bos();
  const std::string bos = decision.id ? name_of(tokenizer, *decision.id) : std::string();
  if (user) {
    check(!*user || decision.id, ErrorCode::usage, "BOS was asked for, but the vocabulary ({}) has none",
          tokenizer.description());
    decision.prepend = *user;
    decision.why = *user ? fmt::format("BOS {} prepended: asked for", bos) : "no BOS: asked for";
    return decision;
  }
  if (!decision.id) {
    decision.why = "no BOS: the vocabulary has none";
    return decision;
  }
  std::string who;
  const std::optional<bool> said = stated(files, tokenizer, who);
  decision.prepend = said.value_or(false);
  if (!said) {
    decision.why = "no BOS: the tokenizer's files do not say";
  } else {
    decision.why =
        *said ? fmt::format("BOS {} prepended: {} says so", bos, who) : fmt::format("no BOS: {} says so", who);
  }
  return decision;
}

std::vector<text::TokenId> with_bos(std::vector<text::TokenId> ids, const BosDecision& decision) {
  if (decision.prepend && (ids.empty() || ids.front() != *decision.id)) ids.insert(ids.begin(), *decision.id);
  return ids;
}

}  // namespace kirchhoff
