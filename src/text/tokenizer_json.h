#pragma once
#include <nlohmann/json.hpp>

#include <cstdint>  // for int64_t
#include <string>   // for string
#include <utility>  // for pair
#include <vector>   // for vector

namespace kirchhoff::text {

/// A parsed tokenizer.json. The two long lists of a BPE model are taken out of the tree (which has null in their
/// place).
struct TokenizerJson {
  nlohmann::json root;
  bool has_vocab = false, has_merges = false;
  std::vector<std::pair<std::string, std::int64_t>> vocab;  ///< model.vocab, if it is an object
  std::vector<std::pair<std::string, std::string>> merges;  ///< model.merges, from "a b" or ["a", "b"]
};

/// Strict: the whole text must be JSON, without a key twice (except in model.vocab, which Vocabulary checks), at most
/// 64 levels deep. Errors (format) name the file and the byte.
TokenizerJson parse_tokenizer_json(const std::string& text, const std::string& path);

}  // namespace kirchhoff::text
