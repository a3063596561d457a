#pragma once
#include <optional>  // for optional
#include <string>    // for string
#include <utility>   // for pair
#include <vector>    // for vector

#include "command_line.h"
#include "opened_model.h"
#include "prompt.h"
#include "selectors.h"

namespace kirchhoff::cli {

/// A clean prompt and a corrupt one, as the model reads them.
struct ReadPair {
  std::string where{};  ///< "pairs.csv:3: ", or empty
  Prompt clean{};
  std::optional<Prompt> corrupt{};
  std::vector<std::pair<Index, Index>> alignment{};  ///< clean position, corrupt position; empty: one by one
  std::optional<TokenId> target{}, foil{};           ///< if given
  Index length() const { return static_cast<Index>(clean.ids.size()); }
};

/// Where pairs come from: two texts, two lists of ids, or a file of either.
struct PairOptions {
  std::optional<std::string> clean, corrupt, clean_ids, corrupt_ids, align, data;
  bool bos = false, no_bos = false, plain = false, skip_unequal = false;
  Index limit = 0;
  TargetOptions target;

  void declare(Command& command);
};

struct ReadPairs {
  std::vector<ReadPair> pairs;
  Index skipped = 0;  ///< rows whose prompts have different numbers of tokens
};

/// Reads and tokenizes. `needs_corrupt`: whether a pair without a corrupt prompt is an error. Columns of a file: clean,
/// corrupt or corrupted, target or answer, foil or distractor; the same as ids: clean_ids, corrupt_ids, target_id or
/// correct_idx, foil_id or incorrect_idx. Options come before columns. Errors: usage (nothing given, given twice,
/// different numbers of tokens: both tokenisations), format (a row without a prompt).
ReadPairs read_pairs(const PairOptions& options, const Command& command, const OpenedModel& opened, bool needs_corrupt);

}  // namespace kirchhoff::cli
