#include <cmath>     // for nan
#include <optional>  // for optional

#include "kirchhoff/study/result_table.h"

namespace kirchhoff {
namespace {

using Arrays = std::vector<std::pair<std::string, TensorF64>>;

bool is_number(const Json& value) { return value.is_number() || value.is_boolean() || value.is_null(); }

double number_of(const Json& value) {
  if (value.is_null()) return std::nan("");
  return value.is_boolean() ? (value.get<bool>() ? 1.0 : 0.0) : value.get<double>();
}

/// The shape of nested lists of numbers; none if they differ or hold anything else.
std::optional<Shape> shape_of(const Json& value) {
  if (is_number(value)) return Shape{};
  if (!value.is_array() || value.empty()) return std::nullopt;
  const auto inner = shape_of(value.front());
  if (!inner) return std::nullopt;
  for (const Json& entry : value)
    if (shape_of(entry) != inner) return std::nullopt;
  Shape shape = {static_cast<Index>(value.size())};
  shape.insert(shape.end(), inner->begin(), inner->end());
  return shape;
}

void numbers_of(const Json& value, std::vector<double>& numbers) {
  if (!value.is_array()) {
    numbers.push_back(number_of(value));
    return;
  }
  for (const Json& entry : value) numbers_of(entry, numbers);
}

/// [{"a": 1}, {"a": 2}] as {"a": [1, 2]}, at the depth at which the objects lie; null where one lacks the key.
Json gathered(const Json& list, const std::string& key) {
  Json values = Json::array();
  for (const Json& entry : list) {
    if (entry.is_array())
      values.push_back(gathered(entry, key));
    else
      values.push_back(entry.is_object() && entry.contains(key) ? entry.at(key) : Json());
  }
  return values;
}

const Json* first_object(const Json& list) {
  for (const Json& entry : list) {
    if (entry.is_object()) return &entry;
    if (!entry.is_array()) continue;
    if (const Json* found = first_object(entry)) return found;
  }
  return nullptr;
}

void collect(const Json& value, const std::string& name, Arrays& arrays) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) collect(inner, name.empty() ? key : name + "." + key, arrays);
    return;
  }
  if (const auto shape = shape_of(value); shape && !value.is_null()) {
    std::vector<double> numbers;
    numbers_of(value, numbers);
    TensorF64 tensor(*shape);
    for (Index i = 0; i < tensor.size(); ++i) tensor[i] = numbers[static_cast<std::size_t>(i)];
    arrays.emplace_back(name, std::move(tensor));
    return;
  }
  if (!value.is_array()) return;
  if (const Json* object = first_object(value))
    for (const auto& item : object->items()) collect(gathered(value, item.key()), name + "." + item.key(), arrays);
}

}  // namespace

Arrays arrays_of(const Json& result) {
  Arrays arrays;
  for (const auto& [key, value] : result.items())
    if (key != "version" && key != "provenance") collect(value, key, arrays);
  return arrays;
}

}  // namespace kirchhoff
