#pragma once
#include <nlohmann/json.hpp>

#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/text/tokenizer.h"
#include "kirchhoff/text/tokenizer_files.h"

namespace kirchhoff::text {

/// What differs between the tokenizers that are written here. All put a special token, BOS, before every text.
struct WrittenTokenizer {
  struct Special {
    TokenId id;
    std::string content;
  };
  std::vector<Special> special;
  Special bos;
  bool bos_ends_texts = false;  ///< it is EOS too
  nlohmann::ordered_json pre_tokenizer, decoder, model;
};

TokenizerFiles write_tokenizer(WrittenTokenizer tokenizer);

}  // namespace kirchhoff::text
