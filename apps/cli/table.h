#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/base/types.h"
#include "terminal.h"

namespace kirchhoff::cli {

struct Cell {
  std::string text;
  Style style = Style::plain;
  Cell(std::string text_, Style style_ = Style::plain) : text(std::move(text_)), style(style_) {}
  Cell(const char* text_) : text(text_) {}
};

struct Column {
  std::string title;
  bool right_aligned = false;
};

/// Aligned columns by display width, fitted to the terminal: text columns shrink first (widest first, down to 6 cells),
/// then the rows are cut at the right edge.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.empty(); }
  /// Lines ending in newlines, each indented by two spaces.
  std::string render(const Terminal& terminal) const;
  /// The same as separate lines without indentation, at most `width` cells wide: to set tables side by side.
  std::vector<std::string> lines(const Terminal& terminal, Index width) const;

 private:
  std::vector<Index> widths(Index available) const;
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// Blocks of lines next to each other, `gap` cells apart.
std::string side_by_side(const std::vector<std::vector<std::string>>& blocks, Index gap);
/// The same with as many blocks in a row as fit, in rows below each other.
std::string flowing(const std::vector<std::vector<std::string>>& blocks, Index gap, Index columns);

}  // namespace kirchhoff::cli
