#pragma once
#include <string>  // for u32string

/// Unicode properties of one code point, as Rust's standard library and regex crate define them, because the reference
/// implementation of tokenizer.json asks those.
namespace kirchhoff::text {

bool is_white_space(char32_t c);  ///< White_Space
bool is_numeric(char32_t c);      ///< general category N
bool is_punctuation(char32_t c);  ///< general category P, or ASCII punctuation (with symbols such as $ and +)
bool is_mark(char32_t c);         ///< general category M
bool is_word(char32_t c);         ///< regex \w: Alphabetic, M, Nd, Pc, Join_Control
bool is_invisible(char32_t c);    ///< controls, format characters, odd spaces, and what no font shows

/// Lower case without context; one character becomes two for U+0130 alone.
std::u32string lower_case(char32_t c);

}  // namespace kirchhoff::text
