#include "text/aligned_text.h"

#include "text/utf8.h"

namespace kirchhoff::text {

Origin AlignedText::origin(std::size_t pos) const {
  if (changed_) return origins_[pos];
  const std::string_view part = text();
  return {static_cast<std::uint32_t>(begin_ + character_begin(part, pos)),
          static_cast<std::uint32_t>(begin_ + character_end(part, pos))};
}

AlignedText AlignedText::slice(std::size_t first, std::size_t last) const {
  if (!changed_) return {original_, begin_ + first, begin_ + last};
  AlignedText part(original_, origins_[first].begin, origins_[last - 1].end);
  part.changed_ = true;
  part.changed_text_ = changed_text_.substr(first, last - first);
  part.origins_.assign(origins_.begin() + static_cast<std::ptrdiff_t>(first),
                       origins_.begin() + static_cast<std::ptrdiff_t>(last));
  return part;
}

Rewriter::Rewriter(const AlignedText& from) : from_(from) {
  result_.original_ = from.original_;
  result_.begin_ = from.begin_;
  result_.end_ = from.end_;
  result_.changed_ = true;
  result_.changed_text_.reserve(from.text().size() + 8);
  result_.origins_.reserve(from.text().size() + 8);
}

void Rewriter::copy(std::size_t first, std::size_t last) {
  const std::string_view source = from_.text();
  result_.changed_text_.append(source, first, last - first);
  if (from_.changed_) {
    result_.origins_.insert(result_.origins_.end(), from_.origins_.begin() + static_cast<std::ptrdiff_t>(first),
                            from_.origins_.begin() + static_cast<std::ptrdiff_t>(last));
    return;
  }
  while (first < last) {
    const Utf8Step step = utf8_step(source, first);
    const std::size_t length = step.valid ? step.length : 1;
    const auto begin = static_cast<std::uint32_t>(from_.begin_ + first);
    result_.origins_.insert(result_.origins_.end(), length, {begin, begin + static_cast<std::uint32_t>(length)});
    first += length;
  }
}

void Rewriter::insert(std::string_view bytes, Origin origin) {
  result_.changed_text_ += bytes;
  result_.origins_.insert(result_.origins_.end(), bytes.size(), origin);
}

void Rewriter::insert(char32_t character, Origin origin) {
  append_utf8(result_.changed_text_, character);
  result_.origins_.resize(result_.changed_text_.size(), origin);
}

void transform(Rewriter& rewriter, const AlignedText& from, std::size_t first, std::size_t last,
               const std::vector<Change>& changes) {
  std::size_t pos = first;
  for (const auto& [character, change] : changes) {
    const bool inserted = change > 0 || pos >= last;
    const Origin origin = !inserted ? from.origin(pos)
                          : pos > 0 ? from.origin(pos - 1)
                                    : Origin{from.begin(), from.begin()};
    rewriter.insert(character, origin);
    for (int i = change; i <= 0 && pos < last; ++i) pos += utf8_step(from.text(), pos).length;
  }
}

}  // namespace kirchhoff::text
