#include "engine/selected_rows.h"

#include <algorithm>  // for sort, unique
#include <numeric>    // for iota

#include "kirchhoff/base/error.h"

namespace kirchhoff::engine {

std::vector<Index> entries_of(const Selection& selection, Index size, std::string_view there_is_no) {
  std::vector<Index> entries;
  if (selection.all()) {
    entries.resize(static_cast<std::size_t>(size));
    std::iota(entries.begin(), entries.end(), Index{0});
    return entries;
  }
  for (const Index entry : selection.entries()) {
    check(entry >= -size && entry < size, ErrorCode::usage, "{} {}, only 0 to {}", there_is_no, entry, size - 1);
    entries.push_back(entry < 0 ? entry + size : entry);
  }
  std::sort(entries.begin(), entries.end());
  entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
  return entries;
}

std::vector<Index> selected(const Selection& selection, Index size, const std::string& what) {
  return entries_of(selection, size, what + ": there is no");
}

std::vector<TokenRow> selected_rows(const BatchLayout& layout, const Selection& sequences, const Selection& positions,
                                    const std::string& what) {
  std::vector<TokenRow> rows;
  for (const Index s : selected(sequences, layout.batch(), what + ", sequences"))
    for (const Index position :
         selected(positions, layout.length(s), fmt::format("{}, positions of sequence {}", what, s)))
      rows.push_back({layout.first_row(s) + position, s, position});
  return rows;
}

}  // namespace kirchhoff::engine
