#pragma once
#include <nlohmann/json.hpp>

#include <span>         // for span
#include <string>       // for string
#include <string_view>  // for string_view

#include "kirchhoff/observe/attention.h"
#include "kirchhoff/observe/attribution.h"
#include "kirchhoff/observe/lens.h"
#include "kirchhoff/study/provenance.h"
#include "kirchhoff/text/tokenizer.h"

namespace kirchhoff {

/// Keys stay in the order in which they were added. docs/cli/ describes every schema; within a version keys are only
/// added.
using Json = nlohmann::ordered_json;

/// {"schema": "kirchhoff.NAME", "version": 1}: how every result begins.
Json new_result(std::string_view name);

/// A token id with its vocabulary; a null tokenizer means that only ids are known.
struct TokenNames {
  const text::Tokenizer* tokenizer = nullptr;
  /// The bytes that the token stands for; "<75>" without a tokenizer or for an id without a token.
  std::string bytes(TokenId id) const;
  bool special(TokenId id) const;
};

/// The bytes as a JSON string, or null where they are not complete UTF-8.
Json text_json(std::string_view bytes);
/// Lower-case hexadecimal.
std::string hex(std::string_view bytes);

/// {"id", "text", "bytes"}; "text" is null where the bytes are no complete UTF-8.
Json to_json(TokenId id, const TokenNames& names);
/// {"id", "text", "logit", "prob"}.
Json to_json(const TokenScore& score, const TokenNames& names);
/// The same with "rank", 1 for the largest.
Json to_json(const RankedToken& ranked, const TokenNames& names);
/// A list of the above.
Json to_json(std::span<const TokenScore> scores, const TokenNames& names);
/// {"metric", "sum", "closure", "target", "foil", "pos", "final_scale", "parts": [{"node", "value"}, ...], "totals"};
/// "metric" is the model's own number.
Json to_json(const Attribution& attribution, const TokenNames& names);
/// [{"label", "top", "tokens", "entropy"}, ...].
Json to_json(std::span<const LensRow> rows, const TokenNames& names);
/// {"head", "query", "entropy", "sources": [{"pos", "attention", "value_weighted", "output_weighted", "score"}, ...]};
/// "score" where it was read.
Json to_json(const HeadRead& read);
/// {"head", "entropy", "previous", "current", "first", "induction"}; "induction" is null if no token repeats.
Json to_json(const HeadHabits& habits);
Json to_json(const Provenance& provenance, const TokenNames& names);

/// "9.9".
std::string head_name(Index layer, Index head);

}  // namespace kirchhoff
