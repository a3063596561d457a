#include "text/utf8.h"

#include <algorithm>  // for min
#include <cstdint>    // for uint8_t, uint64_t
#include <cstring>    // for memcpy

#include "kirchhoff/text/tokenizer.h"

namespace kirchhoff::text {

Utf8Step utf8_step(std::string_view text, std::size_t pos) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  constexpr char32_t kReplacement = 0xFFFD;
  const std::uint8_t lead = byte(pos);
  if (lead < 0x80) return {lead, 1, true};
  // The second byte's range depends on the lead: no overlong forms, no surrogates, nothing above U+10FFFF.
  std::size_t length = 0;
  std::uint8_t low = 0x80, high = 0xBF;
  char32_t value = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2, value = lead & 0x1FU;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3, value = lead & 0x0FU;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4, value = lead & 0x07U;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {kReplacement, 1, false};
  }
  for (std::size_t i = 1; i < length; ++i) {
    if (pos + i >= text.size() || byte(pos + i) < low || byte(pos + i) > high) return {kReplacement, i, false};
    value = value << 6U | (byte(pos + i) & 0x3FU);
    low = 0x80, high = 0xBF;
  }
  return {value, length, true};
}

std::size_t character_begin(std::string_view text, std::size_t pos) {
  if (!is_utf8_continuation(text[pos])) return pos;
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, pos); ++back) {
    if (is_utf8_continuation(text[pos - back])) continue;
    const Utf8Step step = utf8_step(text, pos - back);
    return step.valid && step.length > back ? pos - back : pos;
  }
  return pos;
}

std::size_t character_end(std::string_view text, std::size_t pos) {
  const std::size_t begin = character_begin(text, pos);
  const Utf8Step step = utf8_step(text, begin);
  return step.valid ? begin + step.length : pos + 1;
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(static_cast<std::uint8_t>(byte))); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6U), put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12U), put(0x80 | (code_point >> 6U & 0x3F)), put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18U), put(0x80 | (code_point >> 12U & 0x3F));
    put(0x80 | (code_point >> 6U & 0x3F)), put(0x80 | (code_point & 0x3F));
  }
}

std::string lossy_utf8(std::string_view bytes) {
  std::size_t pos = valid_utf8_prefix(bytes);
  std::string out(bytes.substr(0, pos));
  while (pos < bytes.size()) {
    const Utf8Step step = utf8_step(bytes, pos);
    if (step.valid)
      out.append(bytes, pos, step.length);
    else
      append_utf8(out, 0xFFFD);
    pos += step.length;
  }
  return out;
}

std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t pos = 0;
  while (pos < text.size()) {
    std::uint64_t eight = 0;
    if (text.size() - pos >= sizeof eight) {  // most text is ASCII: eight bytes at a time
      std::memcpy(&eight, text.data() + pos, sizeof eight);
      if ((eight & 0x8080808080808080U) == 0) {
        pos += sizeof eight;
        continue;
      }
    }
    const Utf8Step step = utf8_step(text, pos);
    if (!step.valid) return pos;
    pos += step.length;
  }
  return pos;
}

}  // namespace kirchhoff::text
