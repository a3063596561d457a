#pragma once
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

namespace kirchhoff::text {

/// A value of tokenizer.ggml.pre: how a byte-level vocabulary ("gpt2") splits text into words.
struct GgufPreType {
  std::vector<std::string_view> names;
  std::vector<std::string> patterns;  ///< each splits the parts that the ones before it left
  bool ignore_merges = false;         ///< a word that is a token is taken as it is
  bool add_bos = false;               ///< if the file does not say
  bool nfc = false;                   ///< texts are normalized to NFC first
};

/// Null if unknown.
const GgufPreType* find_gguf_pre_type(std::string_view name);

/// The type of older files, which have the architecture (general.architecture) alone; empty if that does not decide it.
std::string_view gguf_pre_type_of(std::string_view architecture);

}  // namespace kirchhoff::text
