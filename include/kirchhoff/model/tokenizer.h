#pragma once
#include <memory>    // for shared_ptr
#include <optional>  // for optional
#include <string>    // for string
#include <vector>    // for vector

#include "kirchhoff/io/model_files.h"
#include "kirchhoff/text/tokenizer.h"

namespace kirchhoff {

/// The tokenizer that belongs to a model: tokenizer.json, the vocabulary inside a GGUF file, llama2.c's tokenizer file,
/// or the list of names of a toy model. Null if the files have none: the model then works with ids alone.
std::shared_ptr<const text::Tokenizer> make_tokenizer(const io::ModelFiles& files);

/// Whether prompts begin with the beginning-of-sequence token, and why.
struct BosDecision {
  bool prepend = false;
  std::optional<text::TokenId> id;  ///< the token, if the vocabulary has one
  std::string why;                  ///< a sentence for every result: "BOS <s> prepended: tokenizer_config.json says so"
};

/// The one place that decides about BOS, for every entry point: what the user says; else what the tokenizer's files
/// say; else what a TransformerLens config says; else no BOS. Error{usage} if the user wants a BOS that the vocabulary
/// does not have.
BosDecision decide_bos(const io::ModelFiles& files, const text::Tokenizer& tokenizer, std::optional<bool> user = {});

/// `ids` with BOS in front if it was decided so and is not there already: applying it twice changes nothing.
std::vector<text::TokenId> with_bos(std::vector<text::TokenId> ids, const BosDecision& decision);

}  // namespace kirchhoff
