#include "record_file.h"

#include <fmt/format.h>

#include <filesystem>  // for path
#include <sstream>     // for istringstream

#include "kirchhoff/base/error.h"
#include "kirchhoff/io/mapped_file.h"

namespace kirchhoff::cli {
namespace {

/// Cuts CSV into rows. `line` counts lines of the file, so that messages can name one.
class CsvReader {
 public:
  CsvReader(const std::string& path, const std::string& text) : path_(path), text_(text) {}

  /// The next row with anything in it; false at the end.
  bool next(std::vector<std::string>& row) {
    do {
      if (at_ >= text_.size()) return false;
      row_line_ = line_;
      row.assign(1, {});
      while (!field(row.back())) row.emplace_back();
    } while (row.size() == 1 && row.front().empty());
    return true;
  }
  std::size_t row_line() const { return row_line_; }

 private:
  /// Reads one field and what ends it; true if that is the row's end.
  bool field(std::string& value) {
    bool quoted = false;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') ++line_;
      if (quoted) {
        if (c != '"')
          value += c;
        else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"')
          value += text_[++at_];
        else
          quoted = false;
      } else if (c == '"' && value.empty()) {
        quoted = true;
      } else if (c == ',') {
        ++at_;
        return false;
      } else if (c == '\n') {
        ++at_;
        return true;
      } else if (c != '\r') {
        value += c;
      }
    }
    check(!quoted, ErrorCode::format, "'{}': the quotes of the row at line {} are not closed", path_, row_line_);
    return true;
  }

  const std::string& path_;
  const std::string& text_;
  std::size_t at_ = 0, line_ = 1, row_line_ = 1;
};

std::vector<Record> read_csv(const std::string& path, const std::string& text) {
  CsvReader reader(path, text);
  std::vector<std::string> names, row;
  std::vector<Record> records;
  if (!reader.next(names)) return records;
  while (reader.next(row)) {
    check(row.size() == names.size(), ErrorCode::format, "'{}': line {} has {} fields, the first row {}", path,
          reader.row_line(), row.size(), names.size());
    Record& record = records.emplace_back();
    record.where = fmt::format("{}:{}", path, reader.row_line());
    for (std::size_t i = 0; i < names.size(); ++i) record.fields[names[i]] = row[i];
  }
  return records;
}

std::vector<Record> read_json_lines(const std::string& path, const std::string& text) {
  std::vector<Record> records;
  std::istringstream stream(text);
  std::size_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    Record record{fmt::format("{}:{}", path, number), Json::parse(line, nullptr, false)};
    check(record.fields.is_object(), ErrorCode::format, "'{}': line {} is not a JSON object", path, number);
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace

std::vector<Record> read_records(const std::string& path) {
  const std::string extension = std::filesystem::path(path).extension().string();
  check(extension == ".csv" || extension == ".jsonl", ErrorCode::usage, "'{}' is neither a .csv nor a .jsonl file",
        path);
  const std::string text(io::map_file(path).text());
  std::vector<Record> records = extension == ".csv" ? read_csv(path, text) : read_json_lines(path, text);
  check(!records.empty(), ErrorCode::format, "'{}' has no rows", path);
  return records;
}

}  // namespace kirchhoff::cli
