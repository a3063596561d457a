#pragma once
#include <memory>   // for shared_ptr
#include <sstream>  // for istringstream
#include <string>   // for string

#include "kirchhoff/kirchhoff.h"

namespace example {

/// A model with its tokenizer, which is null for models that come without one.
struct Loaded {
  kirchhoff::Model model;
  std::shared_ptr<const kirchhoff::text::Tokenizer> tokenizer;
  kirchhoff::Tokens prompt;
};

/// Opens any model that Kirchhoff reads: a Hugging Face directory or Hub name, a GGUF file, ... `prompt` is text, with
/// BOS in front if the model's files say so; or comma-separated ids for a model without a tokenizer.
inline Loaded load(const std::string& path, const std::string& prompt) {
  const kirchhoff::io::ModelFiles files = kirchhoff::io::open_model_files(path);
  Loaded loaded{kirchhoff::load_model(files), kirchhoff::make_tokenizer(files), {}};
  if (loaded.tokenizer) {
    const kirchhoff::BosDecision bos = kirchhoff::decide_bos(files, *loaded.tokenizer);
    loaded.prompt = kirchhoff::with_bos(loaded.tokenizer->encode(prompt).ids, bos);
  } else {
    std::istringstream ids(prompt);
    for (std::string id; std::getline(ids, id, ',');) loaded.prompt.push_back(std::stoi(id));
  }
  return loaded;
}

/// How a token is shown: its text, or its id where there is no tokenizer.
inline std::string shown(const Loaded& loaded, kirchhoff::TokenId id) {
  return loaded.tokenizer ? kirchhoff::text::visible(loaded.tokenizer->decode_bytes({&id, 1})) : std::to_string(id);
}

}  // namespace example
