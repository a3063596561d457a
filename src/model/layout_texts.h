#pragma once
#include <span>         // for span
#include <string_view>  // for string_view

namespace kirchhoff {

/// A file of model/layouts/, compiled in.
struct LayoutText {
  std::string_view name, json;
};
std::span<const LayoutText> layout_texts();

}  // namespace kirchhoff
