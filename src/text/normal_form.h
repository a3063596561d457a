#pragma once
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "text/aligned_text.h"

namespace kirchhoff::text {

/// Unicode normalization forms (Unicode Annex 15).
struct NormalForm {
  bool compatible = false;  ///< the K forms
  bool compose = true;      ///< the C forms
};

/// True if the form surely leaves `text` as it is (ASCII; for NFC also Latin up to U+02FF). Fast.
bool is_surely_normal(NormalForm form, std::string_view text);

/// The normal form of valid UTF-8, with what each character comes from.
std::vector<Change> normal_form(NormalForm form, std::string_view text);

}  // namespace kirchhoff::text
