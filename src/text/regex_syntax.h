#pragma once
#include <string>       // for string
#include <string_view>  // for string_view

namespace kirchhoff::text {

/// A regular expression of tokenizer.json (Oniguruma, Ruby syntax, which Hugging Face's tokenizers use) in PCRE2's
/// syntax, for PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE. They differ in what \s, \w and \h match, in classes within
/// classes, \uXXXX, and in the letters of inline options. Error (unsupported): a construct that PCRE2 lacks.
std::string pcre2_from_oniguruma(std::string_view pattern);

/// A pattern as messages show it: its beginning, if it is long.
std::string shown_pattern(std::string_view pattern);

}  // namespace kirchhoff::text
