#pragma once
#include <string>  // for string

namespace kirchhoff::text {

/// The two files of a tokenizer, as Hugging Face's libraries and make_tokenizer() read them.
struct TokenizerFiles {
  std::string tokenizer_json;
  std::string tokenizer_config_json;
};

}  // namespace kirchhoff::text
