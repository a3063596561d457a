#include "text/decoder.h"

#include <algorithm>  // for any_of
#include <optional>   // for optional
#include <utility>    // for move

#include "kirchhoff/base/error.h"
#include "kirchhoff/text/tokenizer.h"
#include "text/byte_level.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/utf8.h"

namespace kirchhoff::text {
namespace {

using Pieces = std::vector<DecodedPiece>;

void join(Pieces& pieces) {
  std::string all;
  for (const DecodedPiece& piece : pieces) all += piece.text;
  pieces.clear();
  pieces.push_back({std::move(all)});
}

void apply_step(ByteLevelDecoding, Pieces& pieces, bool lossless) {
  for (DecodedPiece& piece : pieces) {
    if (lossless && piece.verbatim) continue;
    if (auto bytes = from_byte_level(piece.text)) piece.text = std::move(*bytes);
  }
  join(pieces);
  if (!lossless) pieces[0].text = lossy_utf8(pieces[0].text);
}

std::optional<char> fallback_byte(const std::string& piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
  int value = 0;
  for (const char digit : piece.substr(3, 2)) {
    const char lower = static_cast<char>(digit | 0x20);
    if (digit >= '0' && digit <= '9')
      value = value * 16 + (digit - '0');
    else if (lower >= 'a' && lower <= 'f')
      value = value * 16 + (lower - 'a' + 10);
    else
      return std::nullopt;
  }
  return static_cast<char>(static_cast<unsigned char>(value));
}

void apply_step(ByteFallbackDecoding, Pieces& pieces, bool lossless) {
  Pieces out;
  std::string run;  // of bytes that stand next to each other: valid as a whole, or each is replaced
  const auto flush = [&] {
    if (run.empty()) return;
    if (lossless || valid_utf8_prefix(run) == run.size())
      out.push_back({run});
    else
      out.insert(out.end(), run.size(), {"\uFFFD"});
    run.clear();
  };
  for (DecodedPiece& piece : pieces) {
    const std::optional<char> byte = fallback_byte(piece.text);
    if (byte) {
      run += *byte;
      continue;
    }
    flush();
    out.push_back(std::move(piece));
  }
  flush();
  pieces = std::move(out);
}

void apply_step(FuseDecoding, Pieces& pieces, bool) { join(pieces); }

void apply_step(const ReplaceDecoding& step, Pieces& pieces, bool) {
  std::vector<Piece> found;
  for (DecodedPiece& piece : pieces) {
    found.clear();
    step.pattern.find_all(piece.text, found);
    std::string replaced;
    for (const Piece& part : found)
      replaced += part.is_match ? step.content : piece.text.substr(part.begin, part.end - part.begin);
    piece.text = std::move(replaced);
  }
}

void apply_step(const StripDecoding& step, Pieces& pieces, bool) {
  for (DecodedPiece& piece : pieces) {
    for (std::int64_t i = 0; i < step.start && piece.text.starts_with(step.content); ++i)
      piece.text.erase(0, step.content.size());
    for (std::int64_t i = 0; i < step.stop && piece.text.ends_with(step.content); ++i)
      piece.text.resize(piece.text.size() - step.content.size());
  }
}

std::string with_spaces_for(const std::string& text, const std::string& mark, std::string_view space) {
  std::string out;
  std::size_t pos = 0;
  for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, pos)) {
    out.append(text, pos, at - pos).append(space);
    pos = at + mark.size();
  }
  return out.append(text, pos);
}

void apply_step(const MetaspaceDecoding& step, Pieces& pieces, bool) {
  for (std::size_t i = 0; i < pieces.size(); ++i)
    pieces[i].text = with_spaces_for(pieces[i].text, step.replacement, i == 0 && step.strip_first ? "" : " ");
}

void apply_step(const WordSuffixDecoding& step, Pieces& pieces, bool) {
  if (step.suffix.empty()) return;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    pieces[i].text = with_spaces_for(pieces[i].text, step.suffix, i + 1 < pieces.size() ? " " : "");
}

}  // namespace

Decoder::Decoder(const JsonNode& node) : present_(!node.is_null()) {
  if (present_) add(node, 0);
}

void Decoder::add(const JsonNode& untyped, int depth) {
  check_nesting(untyped, depth);
  const std::string type = untyped.type();
  const JsonNode node = untyped.named(type);
  if (type == "Sequence") {
    node.only({"type", "decoders"});
    for (const JsonNode& element : untyped.elements("decoders")) add(element, depth + 1);
  } else if (type == "ByteLevel") {
    node.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});  // which mean nothing to decoding
    steps_.emplace_back(ByteLevelDecoding{});
  } else if (type == "ByteFallback") {
    node.only({"type"});
    steps_.emplace_back(ByteFallbackDecoding{});
  } else if (type == "Fuse") {
    node.only({"type"});
    steps_.emplace_back(FuseDecoding{});
  } else if (type == "Replace") {
    node.only({"type", "pattern", "content"});
    steps_.emplace_back(ReplaceDecoding{parse_pattern(node), node.text("content")});
  } else if (type == "Strip") {
    node.only({"type", "content", "start", "stop"});
    const std::string content = node.text("content");
    check(!content.empty() && utf8_step(content, 0).length == content.size(), ErrorCode::format,
          "{}.content is \"{}\", expected one character", node.where(), content);
    steps_.emplace_back(StripDecoding{content, node.integer("start"), node.integer("stop")});
  } else if (type == "Metaspace") {
    const MetaspaceStep step = parse_metaspace(node);
    steps_.emplace_back(MetaspaceDecoding{step.replacement, step.prepend != MetaspaceStep::Prepend::never});
  } else if (type == "BPEDecoder") {
    node.only({"type", "suffix"});
    steps_.emplace_back(WordSuffixDecoding{node.text("suffix")});
  } else {
    fail(ErrorCode::unsupported, "{}: type \"{}\" is not supported", untyped.where(), type);
  }
}

std::string Decoder::decode(std::vector<DecodedPiece> pieces, bool lossless) const {
  for (const Step& step : steps_) std::visit([&](const auto& known) { apply_step(known, pieces, lossless); }, step);
  std::string text;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0 && !present_) text += ' ';
    text += pieces[i].text;
  }
  return text;
}

std::string Decoder::bytes_of(DecodedPiece piece) const {
  Pieces pieces{std::move(piece)};
  for (const Step& step : steps_) {
    if (std::holds_alternative<StripDecoding>(step)) continue;
    if (const auto* metaspace = std::get_if<MetaspaceDecoding>(&step))
      apply_step(MetaspaceDecoding{metaspace->replacement, false}, pieces, true);
    else if (const auto* suffix = std::get_if<WordSuffixDecoding>(&step))
      pieces[0].text = with_spaces_for(pieces[0].text, suffix->suffix, " ");
    else
      std::visit([&](const auto& known) { apply_step(known, pieces, true); }, step);
  }
  return pieces.empty() ? std::string() : pieces[0].text;
}

bool Decoder::has_byte_fallback() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return std::holds_alternative<ByteFallbackDecoding>(step); });
}

}  // namespace kirchhoff::text
