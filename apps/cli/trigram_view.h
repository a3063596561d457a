#pragma once
#include <optional>  // for optional
#include <string>    // for string
#include <vector>    // for vector

#include "kirchhoff/study/trigram_json.h"
#include "kirchhoff/weights/head_chain.h"
#include "weights_subject.h"

namespace kirchhoff::cli {

/// What a head attends to by positions: a pattern's means by offset where positions are vectors, else a score by
/// distance; `why_not` where neither is defined.
struct HeadPositions {
  bool pattern = false;
  std::vector<double> by_distance;  ///< from 0
  Index preferred = 0;
  std::string why_not;
};
HeadPositions head_positions(const Model& model, const HeadChain& chain, std::optional<Index> length, bool raw);
/// {"kind": "pattern" or "score", "by_distance", "preferred"}, or null.
Json to_json(const HeadPositions& positions);
/// "1 back (0.93)".
std::string preference(const HeadPositions& positions);

/// All that is known of one head.
struct HeadTrigrams {
  HeadChain chain;
  std::vector<SourceTrigrams> sources;  ///< the strongest, or the chosen one
  std::vector<TrigramBug> bugs;
  std::optional<CopyingCounts> copying;
  std::optional<SplitCopying> splits;
  HeadPositions positions;
  double attention_sd = 0.0, output_sd = 0.0;
};

// Sections of the screen.
std::string source_sections(const Session& session, const WeightsSubject& subject, const HeadTrigrams& head,
                            const TokenLikeness* likeness);
std::string ranked_sources(const Session& session, const WeightsSubject& subject, const HeadTrigrams& head,
                           Index tokens);
std::string bug_list(const Session& session, const WeightsSubject& subject, const HeadTrigrams& head);
std::string copying_lines(const Session& session, const WeightsSubject& subject, const HeadTrigrams& head);
std::string position_lines(const Session& session, const HeadTrigrams& head);
/// Many heads: one row each.
std::string head_table(const Session& session, const WeightsSubject& subject, const std::vector<HeadTrigrams>& heads);

/// The zero-layer comparison.
std::string bigram_lines(const Session& session, const WeightsSubject& subject, const BigramComparison& comparison,
                         Index least_count, Index count);

}  // namespace kirchhoff::cli
