#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/study/result_json.h"

namespace kirchhoff::cli {

/// A row of a data set: an object whose values are strings (CSV) or whatever the line says (JSON Lines).
struct Record {
  std::string where;  ///< "pairs.csv:3"
  Json fields;
};

/// Reads FILE.csv (RFC 4180: quoted fields may hold commas, quotes and line breaks; the first row names the columns) or
/// FILE.jsonl. Errors: not_found, format (naming the line), usage (another extension).
std::vector<Record> read_records(const std::string& path);

}  // namespace kirchhoff::cli
