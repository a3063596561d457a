#include "table.h"

#include <fmt/format.h>

#include <algorithm>  // for max
#include <numeric>    // for accumulate

#include "text_width.h"

namespace kirchhoff::cli {
namespace {
constexpr Index kGap = 2, kNarrowest = 6;
}

std::vector<Index> Table::widths(Index available) const {
  std::vector<Index> width;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    width.push_back(display_width(columns_[c].title));
    for (const auto& row : rows_)
      if (c < row.size()) width[c] = std::max(width[c], display_width(row[c].text));
  }
  const Index gaps = kGap * (static_cast<Index>(columns_.size()) - 1);
  while (std::accumulate(width.begin(), width.end(), gaps) > available) {
    std::size_t widest = columns_.size();
    for (std::size_t c = 0; c < columns_.size(); ++c)
      if (!columns_[c].right_aligned && width[c] > kNarrowest &&
          (widest == columns_.size() || width[c] > width[widest]))
        widest = c;
    if (widest == columns_.size()) break;
    --width[widest];
  }
  return width;
}

std::vector<std::string> Table::lines(const Terminal& terminal, Index width) const {
  const std::vector<Index> cells = widths(width);
  std::vector<std::string> result;
  const auto add_line = [&](const auto& text_of, const auto& style_of) {
    std::string line;
    Index used = 0, pending = 0;  // spaces wait until something follows them
    for (std::size_t c = 0; c < columns_.size() && used + pending < width; ++c) {
      const Index room = std::min(cells[c], width - used - pending);
      const std::string text = clipped(text_of(c), room);
      const Index blank = room - display_width(text);
      if (columns_[c].right_aligned) pending += blank;
      if (!text.empty()) {
        line += std::string(static_cast<std::size_t>(pending), ' ') + terminal.paint(style_of(c), text);
        used += pending + display_width(text);
        pending = 0;
      }
      pending += (columns_[c].right_aligned ? 0 : blank) + kGap;
    }
    result.push_back(std::move(line));
  };
  const bool titled = std::any_of(columns_.begin(), columns_.end(), [](const Column& c) { return !c.title.empty(); });
  if (titled) add_line([&](std::size_t c) { return columns_[c].title; }, [](std::size_t) { return Style::faint; });
  for (const auto& row : rows_)
    add_line([&](std::size_t c) { return c < row.size() ? row[c].text : std::string(); },
             [&](std::size_t c) { return c < row.size() ? row[c].style : Style::plain; });
  return result;
}

std::string Table::render(const Terminal& terminal) const {
  std::string text;
  for (const std::string& line : lines(terminal, std::max<Index>(10, terminal.columns() - 2)))
    text += fmt::format("  {}\n", line);
  return text;
}

std::string flowing(const std::vector<std::vector<std::string>>& blocks, Index gap, Index columns) {
  std::string text;
  std::vector<std::vector<std::string>> row;
  Index used = 2;
  for (const auto& block : blocks) {
    Index width = 0;
    for (const std::string& line : block) width = std::max(width, display_width(line));
    if (!row.empty() && used + gap + width > columns) {
      text += side_by_side(row, gap);
      row.clear();
      used = 2;
    }
    used += (row.empty() ? 0 : gap) + width;
    row.push_back(block);
  }
  return text + side_by_side(row, gap);
}

std::string side_by_side(const std::vector<std::vector<std::string>>& blocks, Index gap) {
  std::size_t height = 0;
  std::vector<Index> width;
  for (const auto& block : blocks) {
    height = std::max(height, block.size());
    width.push_back(0);
    for (const std::string& line : block) width.back() = std::max(width.back(), display_width(line));
  }
  std::string text;
  for (std::size_t i = 0; i < height; ++i) {
    std::string line = "  ";
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      const std::string part = i < blocks[b].size() ? blocks[b][i] : "";
      line += b + 1 < blocks.size() ? padded(part, width[b] + gap) : part;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace kirchhoff::cli
