#include "generated_text.h"

#include <algorithm>  // for clamp, min
#include <array>      // for array
#include <cmath>      // for lround

namespace kirchhoff::cli {

GeneratedText::GeneratedText(const text::Tokenizer* tokenizer, Tokens prompt)
    : tokenizer_(tokenizer), ids_(std::move(prompt)) {}

std::string GeneratedText::append(TokenId id, bool for_terminal) {
  if (!tokenizer_) return fmt::format("{} ", id);
  // A few tokens before the new one are enough to know whether it begins a text (whose first space is dropped).
  const std::size_t context = std::min<std::size_t>(ids_.size(), 4);
  const std::string before = tokenizer_->decode_bytes(std::span<const TokenId>(ids_).last(context));
  ids_.push_back(id);
  std::string added = tokenizer_->decode_bytes(std::span<const TokenId>(ids_).last(context + 1)).substr(before.size());
  if (!for_terminal) return added;
  std::string safe;
  for (const char c : added) {
    const bool control = (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
    safe += control ? text::visible(std::string_view(&c, 1)) : std::string(1, c);
  }
  return safe;
}

std::string bar(double fraction, Index cells) {
  static constexpr std::array<const char*, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const Index eighths = std::lround(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(8 * cells));
  std::string text;
  for (Index i = 0; i < eighths / 8; ++i) text += "█";
  return text + kEighths[static_cast<std::size_t>(eighths % 8)];
}

}  // namespace kirchhoff::cli
