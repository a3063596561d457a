#pragma once
#include <cstdlib>  // for abort
#include <string>   // for string
#include <vector>   // for vector

#include "kirchhoff/base/error.h"
#include "kirchhoff/text/tokenizer.h"

namespace kirchhoff::text {

/// What every accepted tokenizer must stand, whatever its file says: encoding and decoding end in a value or an Error,
/// ids exist, spans lie within the text. Aborts where they do not. For fuzzing and for mutation tests.
inline void exercise(const Tokenizer& tokenizer, const std::string& text) {
  const auto require = [](bool ok) {
    if (!ok) std::abort();
  };
  for (const bool special : {true, false}) {
    try {
      const Encoding encoding = tokenizer.encode(text, {special, special});
      require(encoding.ids.size() == encoding.offsets.size());
      for (const ByteSpan& span : encoding.offsets)
        require(span.begin >= 0 && span.begin <= span.end && span.end <= static_cast<Index>(text.size()));
      tokenizer.decode(encoding.ids, special);
      tokenizer.decode_bytes(encoding.ids);
    } catch (const Error& error) {
      require(error.code() != ErrorCode::internal);
    }
  }
  std::vector<TokenId> all;
  for (TokenId id = -1; id <= tokenizer.size() && id < 1000; ++id) all.push_back(id);
  try {
    tokenizer.decode(all);
    tokenizer.decode_bytes(all);
  } catch (const Error& error) {
    require(error.code() != ErrorCode::internal);
  }
}

inline void exercise_tokenizer_json(const std::string& file, const std::string& text) {
  std::shared_ptr<const Tokenizer> tokenizer;
  try {
    tokenizer = make_tokenizer(file, "input");
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) throw;
    return;
  }
  exercise(*tokenizer, text);
}

}  // namespace kirchhoff::text
