#pragma once
#include <memory>    // for shared_ptr
#include <optional>  // for optional
#include <string>    // for string
#include <vector>    // for vector

#include "kirchhoff/text/tokenizer.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/decoder.h"
#include "text/normalizer.h"
#include "text/post_processor.h"
#include "text/pre_tokenizer.h"

namespace kirchhoff::text {

/// What every BPE vocabulary, whatever file it comes from, is made of.
struct PipelineParts {
  std::string where;  ///< "'FILE'", for messages
  std::vector<AddedToken> added_tokens;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::shared_ptr<const BpeModel> model;
  PostProcessor post_processor;
  Decoder decoder;
  std::optional<TokenId> bos, eos;
  std::optional<bool> prepends_bos;
  std::vector<TokenId> special;  ///< besides added tokens: ids of the model that are not text
  std::string kind;              ///< "byte-level BPE"
  std::string source;            ///< "tokenizer.json"
};

/// added tokens -> normalizer -> added tokens -> pre-tokenizer -> model -> post-processor, and back by the decoder.
std::shared_ptr<const Tokenizer> make_pipeline(PipelineParts parts);

}  // namespace kirchhoff::text
