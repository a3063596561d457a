#include "model/recipe.h"

namespace kirchhoff {

void Recipe::add(std::string slot, std::string tensor, std::string axes) {
  rules.push_back({std::move(slot), std::move(tensor), std::move(axes)});
}

void Recipe::linear(const std::string& name, const std::string& module, bool bias, const std::string& axes) {
  add("W_" + name, module + ".weight", axes);
  if (bias) add("b_" + name, module + ".bias");
}

void Recipe::fused(const std::string& name, const std::string& module, bool bias, const std::string& rows,
                   const std::string& target_rows) {
  const bool renamed = !target_rows.empty();
  add("W_" + name, module + ".weight", rows + " m" + (renamed ? " -> " + target_rows + " m" : ""));
  if (bias) add("b_" + name, module + ".bias", rows + (renamed ? " -> " + target_rows : ""));
}

void Recipe::norm(const std::string& slot, const std::string& module, bool bias, double plus) {
  rules.push_back({slot + ".w", module + ".weight", {}, plus});
  if (bias) rules.push_back({slot + ".b", module + ".bias", {}});
}

std::string tensor_name(std::string name, const std::string& prefix, Index layer) {
  for (const auto& [mark, text] : {std::pair<std::string, std::string>{"{P}", prefix}, {"{L}", std::to_string(layer)}})
    if (const auto at = name.find(mark); at != std::string::npos) name.replace(at, mark.size(), text);
  return name;
}

bool matches(std::string_view pattern, std::string_view name) {
  const auto star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == name;
  if (name.substr(0, star) != pattern.substr(0, star)) return false;
  for (std::size_t skip = star; skip <= name.size(); ++skip)
    if (matches(pattern.substr(star + 1), name.substr(skip))) return true;
  return false;
}

}  // namespace kirchhoff
