#pragma once
#include <cstdint>      // for uint32_t
#include <string>       // for string
#include <string_view>  // for string_view
#include <utility>      // for pair
#include <vector>       // for vector

#include "kirchhoff/text/tokenizer.h"

namespace kirchhoff::text {

/// A stretch of the original text, in bytes.
struct Origin {
  std::uint32_t begin = 0, end = 0;
};

/// A part of the original text, changed or not, in which every byte knows where it comes from. Characters are never
/// cut: a byte's origin is that of its whole character.
///
/// The conventions about what an inserted or changed character's origin is are those of Hugging Face's
/// NormalizedString, because offsets must agree with it.
class AlignedText {
 public:
  AlignedText() = default;
  /// original[begin, end), unchanged. `original` must outlive the object.
  AlignedText(std::string_view original, std::size_t begin, std::size_t end)
      : original_(original), begin_(begin), end_(end) {}

  std::string_view text() const {
    return changed_ ? std::string_view(changed_text_) : original_.substr(begin_, end_ - begin_);
  }
  /// Of the byte at `pos` < text().size().
  Origin origin(std::size_t pos) const;
  /// Of the bytes [first, last), first < last.
  ByteSpan origin(std::size_t first, std::size_t last) const { return {origin(first).begin, origin(last - 1).end}; }
  /// The bytes [first, last), first < last.
  AlignedText slice(std::size_t first, std::size_t last) const;
  /// Where this part begins in the original.
  std::uint32_t begin() const { return static_cast<std::uint32_t>(begin_); }

 private:
  friend class Rewriter;
  std::string_view original_;
  std::size_t begin_ = 0, end_ = 0;
  bool changed_ = false;
  std::string changed_text_;
  std::vector<Origin> origins_;  // one per byte of changed_text_
};

/// Builds a changed copy of an AlignedText from left to right.
class Rewriter {
 public:
  explicit Rewriter(const AlignedText& from);
  std::size_t size() const { return result_.changed_text_.size(); }  ///< bytes written so far
  void copy(std::size_t first, std::size_t last);                    ///< bytes [first, last) of the source
  void insert(std::string_view bytes, Origin origin);
  void insert(char32_t character, Origin origin);
  AlignedText finish() { return std::move(result_); }

 private:
  const AlignedText& from_;
  AlignedText result_;
};

/// A character of a rewritten text and how it came about: 0 replaces the next source character, > 0 is inserted (and
/// shares the origin of what precedes it), -n replaces the next one and removes the n after it.
using Change = std::pair<char32_t, int>;
/// Writes what `changes` make of the source's bytes [first, last).
void transform(Rewriter& rewriter, const AlignedText& from, std::size_t first, std::size_t last,
               const std::vector<Change>& changes);

}  // namespace kirchhoff::text
