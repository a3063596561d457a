#pragma once
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "engine/batch_layout.h"
#include "kirchhoff/engine/intervention.h"

namespace kirchhoff::engine {

/// A token of the batch: its row in the forward's buffers, its sequence, its position there.
struct TokenRow {
  Index row, sequence, position;
};

/// The entries of a selection on an axis of `size` entries, sorted, each once. Error{usage} if one is not on the axis;
/// its message begins with the words of `there_is_no`: "there is no layer".
std::vector<Index> entries_of(const Selection& selection, Index size, std::string_view there_is_no);
/// The same for an axis of an intervention: "`what`: there is no 7".
std::vector<Index> selected(const Selection& selection, Index size, const std::string& what);

/// The tokens that both selections hold, in the order of their rows. Error{usage} if a selected sequence lacks a
/// selected position.
std::vector<TokenRow> selected_rows(const BatchLayout& layout, const Selection& sequences, const Selection& positions,
                                    const std::string& what);

}  // namespace kirchhoff::engine
