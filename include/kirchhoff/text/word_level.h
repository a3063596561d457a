#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/text/tokenizer.h"
#include "kirchhoff/text/tokenizer_files.h"

namespace kirchhoff::text {

/// A vocabulary of whole words, entry i having id i: texts are words with white space between them ("BOS 3 5 ="). The
/// word `bos` is special and is put before every text; a word that the list lacks is an error of both readers.
/// Error{usage}: no word, a word that is empty, has white space in it or occurs twice, a `bos` that is no index.
TokenizerFiles word_level_files(const std::vector<std::string>& words, TokenId bos);

}  // namespace kirchhoff::text
