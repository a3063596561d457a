#pragma once
#include <memory>  // for shared_ptr
#include <string>  // for string

#include "kirchhoff/io/model_files.h"
#include "kirchhoff/study/result_json.h"
#include "kirchhoff/text/tokenizer.h"

namespace kirchhoff::cli {

/// A vocabulary on its own: a model's, of which no weights are read, or a tokenizer.json.
struct TokenSource {
  io::ModelFiles files;
  std::shared_ptr<const text::Tokenizer> tokenizer;  ///< never null
  TokenNames names() const { return {tokenizer.get()}; }
};

TokenSource open_token_source(const std::string& argument);

}  // namespace kirchhoff::cli
