#include <algorithm>  // for all_of, any_of, find

#include "kirchhoff/base/error.h"
#include "kirchhoff/study/result_table.h"

namespace kirchhoff {
namespace {

using Row = std::vector<std::pair<std::string, std::string>>;  // column, field

bool is_object_list(const Json& value) { return value.is_array() && !value.empty() && value.front().is_object(); }

std::string csv_field(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string text = "\"";
  for (const char c : field) text.append(c == '"' ? 2 : 1, c);
  return text + '"';
}

std::string scalar_text(const Json& value) {
  if (value.is_null()) return {};
  if (value.is_string()) return value.get<std::string>();
  return value.dump();
}

/// "embed > a0.h1"; nothing for lists of other things.
std::string words_text(const Json& list) {
  std::string text;
  for (const Json& word : list) {
    if (!word.is_string()) return {};
    text += (text.empty() ? "" : " > ") + word.get<std::string>();
  }
  return text;
}

/// The columns of an object but for lists of objects, which go to `nested`.
void flatten(const Json& object, const std::string& prefix, Row& row,
             std::vector<std::pair<std::string, const Json*>>& nested) {
  for (const auto& [key, value] : object.items()) {
    const std::string name = prefix + key;
    if (value.is_object())
      flatten(value, name + ".", row, nested);
    else if (is_object_list(value))
      nested.emplace_back(name + ".", &value);
    else if (!value.is_array() || (!value.empty() && value.front().is_string()))
      row.emplace_back(name, value.is_array() ? words_text(value) : scalar_text(value));
  }
}

void add_rows(const Json& object, const std::string& prefix, const Row& outer, std::vector<Row>& rows) {
  Row row = outer;
  std::vector<std::pair<std::string, const Json*>> nested;
  flatten(object, prefix, row, nested);
  if (nested.empty()) rows.push_back(row);
  for (const auto& [name, list] : nested)
    for (const Json& entry : *list) add_rows(entry, name, row, rows);
}

std::string csv_text(const std::vector<Row>& rows) {
  std::vector<std::string> columns;
  for (const Row& row : rows)
    for (const auto& [column, field] : row)
      if (std::find(columns.begin(), columns.end(), column) == columns.end()) columns.push_back(column);
  std::string text;
  for (std::size_t i = 0; i < columns.size(); ++i) text += (i == 0 ? "" : ",") + csv_field(columns[i]);
  text += "\n";
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const auto found =
          std::find_if(row.begin(), row.end(), [&](const auto& cell) { return cell.first == columns[i]; });
      if (i > 0) text += ",";
      if (found != row.end()) text += csv_field(found->second);
    }
    text += "\n";
  }
  return text;
}

bool is_matrix(const Json& value) {
  return value.is_array() && !value.empty() && std::all_of(value.begin(), value.end(), [&](const Json& row) {
           return row.is_array() && row.size() == value.front().size() &&
                  std::all_of(row.begin(), row.end(), [](const Json& x) { return x.is_number() || x.is_null(); });
         });
}

}  // namespace

std::string csv_of(const Json& result) {
  std::vector<std::pair<std::string, const Json*>> lists;
  for (const auto& [key, value] : result.items())
    if (key != "ids" && is_object_list(value)) lists.emplace_back(key, &value);
  std::vector<Row> rows;
  for (const auto& [key, list] : lists) {
    const Row outer = lists.size() > 1 ? Row{{"list", key}} : Row{};
    for (const Json& object : *list) add_rows(object, "", outer, rows);
  }
  for (const auto& [key, value] : result.items()) {
    if (!rows.empty() || !is_matrix(value)) continue;
    for (const Json& numbers : value) {
      Row row;
      for (std::size_t i = 0; i < numbers.size(); ++i)
        row.emplace_back(key == "eigenvalues" ? (i == 0 ? "re" : "im") : std::to_string(i), scalar_text(numbers[i]));
      rows.push_back(row);
    }
  }
  check(!rows.empty(), ErrorCode::usage, "this result has no list that would make a table: use JSON");
  return csv_text(rows);
}

}  // namespace kirchhoff
