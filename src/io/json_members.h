#pragma once
#include <nlohmann/json.hpp>

#include <string>   // for string
#include <utility>  // for pair
#include <vector>   // for vector

namespace kirchhoff::io {

/// The members of an object in their order. What is appended to them is not looked up first, which ordered_json does
/// one by one: a large object takes linear time. The caller knows that no key comes twice.
inline std::vector<std::pair<const std::string, nlohmann::ordered_json>>& members(nlohmann::ordered_json& object) {
  return object.get_ref<nlohmann::ordered_json::object_t&>();
}

}  // namespace kirchhoff::io
