#pragma once
#include <memory>   // for shared_ptr
#include <string>   // for string
#include <utility>  // for pair
#include <vector>   // for vector

#include "text/bpe.h"

namespace kirchhoff::text {

/// A BPE model from merges as files list them: pairs of strings, the first ones first. `where` opens messages.
/// Errors (format): a part is empty, or a part or the result is not in the vocabulary.
std::shared_ptr<const BpeModel> bpe_from_merges(Vocabulary vocabulary,
                                                const std::vector<std::pair<std::string, std::string>>& merges,
                                                BpeOptions options, const std::string& where);

}  // namespace kirchhoff::text
