#include "expected_pattern_option.h"

#include <filesystem>  // for exists

#include "kirchhoff/base/error.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/io/numpy_file.h"

namespace kirchhoff::cli {
namespace {

TensorF64 matrix_of_json(const std::string& path, const Json& rows) {
  const auto refuse = [&path](bool ok) {
    check(ok, ErrorCode::usage, "option '--expect': '{}' holds no list of equally long rows of numbers", path);
  };
  refuse(rows.is_array() && !rows.empty() && rows.front().is_array());
  const auto n = static_cast<Index>(rows.size()), width = static_cast<Index>(rows.front().size());
  TensorF64 matrix({n, width});
  Index i = 0;
  for (const Json& row : rows) {
    refuse(row.is_array() && static_cast<Index>(row.size()) == width);
    for (const Json& entry : row) {
      refuse(entry.is_number());
      matrix[i++] = entry.get<double>();
    }
  }
  return matrix;
}

}  // namespace

void ExpectedPatternOption::declare(Command& command) {
  command.option("--expect", "PATTERN", what,
                 "compare with previous, current, first, duplicate, induction, or a [query, key] matrix in a .json or "
                 ".npy file");
  command.flag("--exclude-first", excluded.exclude_first, "attention to position 0 does not count there");
  command.flag("--exclude-current", excluded.exclude_current, "nor attention of a position to itself");
}

TensorF64 ExpectedPatternOption::matrix(const Tokens& tokens) const {
  if (const auto named = expected_pattern_named(*what)) return expected_pattern(*named, tokens);
  std::error_code ignored;
  check(std::filesystem::exists(*what, ignored), ErrorCode::usage,
        "option '--expect': '{}' is no file and none of previous, current, first, duplicate, induction", *what);
  const bool numpy = what->ends_with(".npy");
  return expected_pattern(
      numpy ? io::decode_f64(io::read_npy(*what).tensors.at(0)) : matrix_of_json(*what, io::read_json_file(*what)),
      static_cast<Index>(tokens.size()));
}

Json ExpectedPatternOption::json() const {
  return {{"pattern", *what}, {"exclude_first", excluded.exclude_first}, {"exclude_current", excluded.exclude_current}};
}

}  // namespace kirchhoff::cli
