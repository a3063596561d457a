#pragma once
#include "kirchhoff/study/result_json.h"
#include "kirchhoff/weights/bigrams.h"
#include "kirchhoff/weights/copying.h"
#include "kirchhoff/weights/positional.h"
#include "kirchhoff/weights/skip_trigrams.h"

namespace kirchhoff {

/// Appends a source's entries to `list`, flat: {"head", "source", "side": "destination" or "out", "place", "token",
/// "value", "deviation", "likeness", "strength"}; "likeness" (of an out to the source) is null where it is not known.
void add_json(Json& list, const std::string& head, const SourceTrigrams& source, const TokenLikeness* likeness,
              const TokenNames& names);
/// {"head", "source", "destinations": [b0, b1], "outs": [c0, c1], "attention", "output", "strength", "contrast"}.
Json to_json(const std::string& head, const TrigramBug& bug, const TokenNames& names);
/// {"sources", "same", "variant", "similar"}: counts.
Json to_json(const CopyingCounts& counts);
/// {"head", "source", "destination", "out", "text", "attention", "output", "strength"}.
Json to_json(const std::string& head, const SplitCopy& copy, const TokenNames& names);
/// {"correlation", "unigram_correlation", "seen_correlation", "seen_unigram_correlation", "loss", "unigram_loss",
/// "entropy", "pairs", "sources": [{"source", "count", "distinct", "correlation", "loss", "entropy", "in_text",
/// "in_path"}, ...]}.
Json to_json(const BigramComparison& comparison, const TokenNames& names);

}  // namespace kirchhoff
