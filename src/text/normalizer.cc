#include "text/normalizer.h"

#include <algorithm>    // for any_of, max
#include <type_traits>  // for is_same_v, decay_t

#include "kirchhoff/base/error.h"
#include "text/byte_level.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace kirchhoff::text {
namespace {

/// Rewrites the valid stretches of a text by `changes_of(stretch)`; invalid bytes stay.
template <class ChangesOf>
AlignedText rewrite_valid(const AlignedText& from, const ChangesOf& changes_of) {
  const std::string_view text = from.text();
  Rewriter rewriter(from);
  for (std::size_t pos = 0; pos < text.size();) {
    const std::size_t valid = valid_utf8_prefix(text.substr(pos));
    if (valid > 0) transform(rewriter, from, pos, pos + valid, changes_of(text.substr(pos, valid)));
    pos += valid;
    if (pos < text.size()) rewriter.copy(pos, pos + 1), ++pos;
  }
  return rewriter.finish();
}

/// Rewrites a text character by character: `write(step, pos)` writes what becomes of the one at `pos`.
template <class Write>
AlignedText rewrite_characters(const AlignedText& from, const Write& write) {
  Rewriter rewriter(from);
  for (std::size_t pos = 0; pos < from.text().size();) {
    const Utf8Step step = utf8_step(from.text(), pos);
    if (step.valid)
      write(rewriter, step, pos);
    else
      rewriter.copy(pos, pos + step.length);
    pos += step.length;
  }
  return rewriter.finish();
}

void apply_step(NormalForm form, AlignedText& text) {
  if (is_surely_normal(form, text.text())) return;
  text = rewrite_valid(text, [&](std::string_view stretch) { return normal_form(form, stretch); });
}

void apply_step(const PrependText& step, AlignedText& text) {
  if (text.text().empty() || step.text.empty()) return;
  Rewriter rewriter(text);
  rewriter.insert(step.text, text.origin(0));  // it borrows the origin of the character that it precedes
  rewriter.copy(0, text.text().size());
  text = rewriter.finish();
}

void apply_step(const ReplaceText& step, AlignedText& text, std::size_t most) {
  std::vector<Piece> pieces;
  step.pattern.find_all(text.text(), pieces);
  std::size_t size = 0;
  for (const Piece& piece : pieces)
    check_growth(size += piece.is_match ? step.content.size() : piece.end - piece.begin, most);
  if (std::none_of(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.is_match; })) return;
  Rewriter rewriter(text);
  for (const Piece& piece : pieces) {
    if (!piece.is_match)
      rewriter.copy(piece.begin, piece.end);
    else  // the content comes from the last character of what it replaces
      rewriter.insert(step.content, piece.end > 0 ? text.origin(piece.end - 1) : Origin{text.begin(), text.begin()});
  }
  text = rewriter.finish();
}

void apply_step(StripSpace step, AlignedText& text) {
  const std::string_view source = text.text();
  std::size_t begin = 0, end = source.size();
  const auto is_space = [&](std::size_t pos) {
    const Utf8Step character = utf8_step(source, pos);
    return character.valid && is_white_space(character.code_point);
  };
  if (step.left)
    while (begin < end && is_space(begin)) begin += utf8_step(source, begin).length;
  if (step.right)
    while (begin < end && is_space(character_begin(source, end - 1))) end = character_begin(source, end - 1);
  if (begin == 0 && end == source.size()) return;
  Rewriter rewriter(text);
  rewriter.copy(begin, end);
  text = rewriter.finish();
}

void apply_step(StripAccents, AlignedText& text) {
  text = rewrite_characters(text, [](Rewriter& rewriter, const Utf8Step& step, std::size_t pos) {
    if (!is_mark(step.code_point)) rewriter.copy(pos, pos + step.length);
  });
}

void apply_step(Lowercase, AlignedText& text) {
  text = rewrite_characters(text, [&](Rewriter& rewriter, const Utf8Step& step, std::size_t pos) {
    for (const char32_t c : lower_case(step.code_point)) rewriter.insert(c, text.origin(pos));
  });
}

void apply_step(ByteLevelText, AlignedText& text) {
  Rewriter rewriter(text);
  write_byte_level(rewriter, text, 0, text.text().size());
  text = rewriter.finish();
}

}  // namespace

Normalizer::Normalizer(const JsonNode& node) {
  if (!node.is_null()) add(node, 0);
}

void Normalizer::add(const JsonNode& untyped, int depth) {
  check_nesting(untyped, depth);
  const std::string type = untyped.type();
  const JsonNode node = untyped.named(type);
  if (type == "Sequence") {
    node.only({"type", "normalizers"});
    for (const JsonNode& element : untyped.elements("normalizers")) add(element, depth + 1);
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    node.only({"type"});
    steps_.emplace_back(NormalForm{type.size() == 4, type.back() == 'C'});
  } else if (type == "Prepend") {
    node.only({"type", "prepend"});
    steps_.emplace_back(PrependText{node.text("prepend")});
  } else if (type == "Replace") {
    node.only({"type", "pattern", "content"});
    steps_.emplace_back(ReplaceText{parse_pattern(node), node.text("content")});
  } else if (type == "Strip") {
    node.only({"type", "strip_left", "strip_right"});
    steps_.emplace_back(StripSpace{node.boolean("strip_left"), node.boolean("strip_right")});
  } else if (type == "StripAccents") {
    node.only({"type"});
    steps_.emplace_back(StripAccents{});
  } else if (type == "Lowercase") {
    node.only({"type"});
    steps_.emplace_back(Lowercase{});
  } else if (type == "ByteLevel") {
    node.only({"type"});
    steps_.emplace_back(ByteLevelText{});
  } else {
    fail(ErrorCode::unsupported, "{}: type \"{}\" is not supported", untyped.where(), type);
  }
}

void Normalizer::apply(AlignedText& text) const {
  const std::size_t most = most_bytes_from(text.text().size());
  const auto apply_one = [&](const auto& step) {
    if constexpr (std::is_same_v<std::decay_t<decltype(step)>, ReplaceText>)
      apply_step(step, text, most);
    else
      apply_step(step, text);
    check_growth(text.text().size(), most);
  };
  for (const Step& step : steps_) std::visit(apply_one, step);
}

std::size_t most_bytes_from(std::size_t size) { return std::max(std::size_t{1} << 20, 64 * size); }

void check_growth(std::size_t size, std::size_t most) {
  check(size <= most, ErrorCode::unsupported,
        "the tokenizer's normalizer and pre_tokenizer make a text grow beyond {} bytes: that is no use of theirs",
        most);
}

bool Normalizer::makes_byte_level() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return std::holds_alternative<ByteLevelText>(step); });
}

void write_byte_level(Rewriter& rewriter, const AlignedText& from, std::size_t first, std::size_t last) {
  for (std::size_t pos = first; pos < last; ++pos)
    rewriter.insert(byte_level_character(static_cast<std::uint8_t>(from.text()[pos])), from.origin(pos));
}

Pattern parse_pattern(const JsonNode& owner) {
  const JsonNode node = owner.at("pattern");
  node.only({"String", "Regex"});
  if (node.has("String")) return Pattern::literal(node.text("String"));
  try {
    return Pattern::regex(node.text("Regex"));
  } catch (const Error& error) {
    throw Error(error.raised(), fmt::format("{}: {}", owner.where(), error.what()));
  }
}

void check_nesting(const JsonNode& node, int depth) {
  check(depth <= kMaxNesting, ErrorCode::unsupported, "{}: nested more than {} deep", node.where(), kMaxNesting);
}

}  // namespace kirchhoff::text
