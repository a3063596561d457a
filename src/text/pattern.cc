#include "text/pattern.h"

#include <algorithm>  // for reverse
#include <utility>    // for move

#include "text/utf8.h"

namespace kirchhoff::text {
namespace {

void find_literal(std::string_view text, std::string_view wanted, std::vector<Piece>& out) {
  std::size_t covered = 0;
  for (std::size_t at = text.find(wanted); at != std::string_view::npos; at = text.find(wanted, covered)) {
    if (covered < at) out.push_back({covered, at, false});
    covered = at + wanted.size();
    out.push_back({at, covered, true});
  }
  if (covered < text.size()) out.push_back({covered, text.size(), false});
}

void find_characters(std::string_view text, Pattern::Property property, std::vector<Piece>& out) {
  std::size_t covered = 0;
  for (std::size_t pos = 0; pos < text.size();) {
    const Utf8Step step = utf8_step(text, pos);
    const std::size_t end = pos + step.length;
    if (step.valid && property(step.code_point)) {
      if (covered < pos) out.push_back({covered, pos, false});
      out.push_back({pos, end, true});
      covered = end;
    }
    pos = end;
  }
  if (covered < text.size()) out.push_back({covered, text.size(), false});
}

// Joins a match to the part before it, unless the piece before it was a match too.
void merge_with_previous(std::vector<Piece>& pieces) {
  std::size_t kept = 0;
  bool previous_match = false;
  for (const Piece& piece : pieces) {
    if (piece.is_match && !previous_match && kept > 0)
      pieces[kept - 1].end = piece.end;
    else
      pieces[kept++] = piece;
    previous_match = piece.is_match;
  }
  pieces.resize(kept);
}

void merge_with_next(std::vector<Piece>& pieces) {
  std::size_t kept = pieces.size();  // parts are written from the back
  bool previous_match = false;
  for (std::size_t i = pieces.size(); i-- > 0;) {
    const Piece piece = pieces[i];
    if (piece.is_match && !previous_match && kept < pieces.size())
      pieces[kept].begin = piece.begin;
    else
      pieces[--kept] = piece;
    previous_match = piece.is_match;
  }
  pieces.erase(pieces.begin(), pieces.begin() + static_cast<std::ptrdiff_t>(kept));
}

void join_alike(std::vector<Piece>& pieces) {
  std::size_t kept = 0;
  bool previous_match = false;
  for (const Piece& piece : pieces) {
    if (piece.is_match == previous_match && kept > 0)
      pieces[kept - 1].end = piece.end;
    else
      pieces[kept++] = piece;
    previous_match = piece.is_match;
  }
  pieces.resize(kept);
}

}  // namespace

Pattern Pattern::literal(std::string text) {
  // An empty one matches between all characters, as the empty regular expression does.
  if (text.empty()) return Pattern(Regex(text));
  return Pattern(std::move(text));
}
Pattern Pattern::regex(const std::string& pattern) { return Pattern(Regex(pattern)); }
Pattern Pattern::characters(Property property) { return Pattern(property); }

void Pattern::find_all(std::string_view text, std::vector<Piece>& out) const {
  if (const auto* wanted = std::get_if<std::string>(&what_))
    find_literal(text, *wanted, out);
  else if (const auto* regex = std::get_if<Regex>(&what_))
    regex->find_all(text, out);
  else
    find_characters(text, std::get<Property>(what_), out);
}

void apply_behavior(SplitBehavior behavior, std::vector<Piece>& pieces) {
  switch (behavior) {
    case SplitBehavior::isolated:
      break;
    case SplitBehavior::removed:
      std::erase_if(pieces, [](const Piece& piece) { return piece.is_match; });
      break;
    case SplitBehavior::merged_with_previous:
      merge_with_previous(pieces);
      break;
    case SplitBehavior::merged_with_next:
      merge_with_next(pieces);
      break;
    case SplitBehavior::contiguous:
      join_alike(pieces);
      break;
  }
  std::erase_if(pieces, [](const Piece& piece) { return piece.begin == piece.end; });
}

}  // namespace kirchhoff::text
