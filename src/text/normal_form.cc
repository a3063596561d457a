#include "text/normal_form.h"

#include <utf8proc.h>

#include <algorithm>  // for all_of, stable_sort
#include <array>      // for array
#include <optional>   // for optional

#include "text/utf8.h"

namespace kirchhoff::text {
namespace {

struct Mark {
  char32_t character;
  int change;
  int combining_class;
};

int combining_class(char32_t c) {
  return c < 0x300 ? 0 : utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
}

/// The one character that `first` followed by `second` is, canonically.
std::optional<char32_t> compose(char32_t first, char32_t second) {
  if (second < 0x300) return std::nullopt;
  std::array<utf8proc_int32_t, 3> pair{static_cast<utf8proc_int32_t>(first), static_cast<utf8proc_int32_t>(second), 0};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  if (utf8proc_normalize_utf32(pair.data(), 2, options) != 1) return std::nullopt;
  return static_cast<char32_t>(pair[0]);
}

/// Full decompositions, in canonical order. The first character of a decomposition replaces (0), the others are new
/// (1); sorting carries these along, as in the reference.
std::vector<Mark> decompose(bool compatible, std::string_view text) {
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<Mark> marks;
  marks.reserve(text.size());
  std::size_t pending = 0;  // marks from here on are not sorted yet
  const auto sort_pending = [&] {
    std::stable_sort(marks.begin() + static_cast<std::ptrdiff_t>(pending), marks.end(),
                     [](const Mark& a, const Mark& b) { return a.combining_class < b.combining_class; });
    pending = marks.size();
  };
  std::array<utf8proc_int32_t, 32> parts{};  // the longest decomposition has 18 characters
  for (std::size_t pos = 0; pos < text.size();) {
    const Utf8Step step = utf8_step(text, pos);
    pos += step.length;
    int boundary = 0;
    const auto count = step.code_point < 0x80
                           ? 0
                           : utf8proc_decompose_char(static_cast<utf8proc_int32_t>(step.code_point), parts.data(),
                                                     static_cast<utf8proc_ssize_t>(parts.size()), options, &boundary);
    if (count < 1) parts[0] = static_cast<utf8proc_int32_t>(step.code_point);
    for (utf8proc_ssize_t i = 0; i < std::max<utf8proc_ssize_t>(count, 1); ++i) {
      const auto c = static_cast<char32_t>(parts[static_cast<std::size_t>(i)]);
      const int order = combining_class(c);
      if (order == 0) sort_pending();
      marks.push_back({c, i == 0 ? 0 : 1, order});
      if (order == 0) pending = marks.size();
    }
  }
  sort_pending();
  return marks;
}

/// Canonical composition: each starter takes in the marks after it that nothing blocks.
std::vector<Change> recompose(const std::vector<Mark>& marks) {
  std::vector<Change> out;
  out.reserve(marks.size());
  std::size_t starter = SIZE_MAX;  // its place in `out`
  int last_class = -1;             // of the marks kept after the starter; -1: none
  for (const Mark& mark : marks) {
    if (starter != SIZE_MAX && last_class < mark.combining_class) {
      if (const auto composed = compose(out[starter].first, mark.character)) {
        out[starter] = {*composed, out[starter].second + mark.change - 1};
        continue;
      }
    }
    if (mark.combining_class == 0) {
      starter = out.size();
      last_class = -1;
    } else {
      last_class = mark.combining_class;
    }
    out.emplace_back(mark.character, mark.change);
  }
  return out;
}

}  // namespace

bool is_surely_normal(NormalForm form, std::string_view text) {
  // The lead bytes below 0xCC are those of characters below U+0300, all of which are their own NFC.
  const unsigned char limit = form.compose && !form.compatible ? 0xCC : 0x80;
  return std::all_of(text.begin(), text.end(), [&](char byte) { return static_cast<unsigned char>(byte) < limit; });
}

std::vector<Change> normal_form(NormalForm form, std::string_view text) {
  const std::vector<Mark> marks = decompose(form.compatible, text);
  if (form.compose) return recompose(marks);
  std::vector<Change> out;
  out.reserve(marks.size());
  for (const Mark& mark : marks) out.emplace_back(mark.character, mark.change);
  return out;
}

}  // namespace kirchhoff::text
