#pragma once
#include <memory>  // for shared_ptr
#include <string>  // for string
#include <vector>  // for vector

#include "text/bpe.h"

namespace kirchhoff::text {

/// A SentencePiece BPE model: of all neighbours whose joined text is a token, those with the highest score are joined
/// first. `scores` and `is_text` (the token may come from text) have a value per id. Error (format): a score is NaN.
std::shared_ptr<const BpeModel> bpe_from_scores(Vocabulary vocabulary, const std::vector<double>& scores,
                                                const std::vector<bool>& is_text, BpeOptions options,
                                                const std::string& where);

}  // namespace kirchhoff::text
