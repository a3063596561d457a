#pragma once
#include <optional>  // for optional
#include <string>    // for string

#include "command_line.h"
#include "kirchhoff/study/result_json.h"
#include "session.h"

namespace kirchhoff::cli {

/// "--json" and "--json=top,loss".
struct JsonOption {
  std::optional<std::string> fields;  ///< "" means all

  void declare(Command& command);
  bool wanted() const { return fields.has_value(); }
  /// Prints one line of JSON: everything, or "schema", "version" and the chosen keys. Error{usage} for an unknown key.
  void print(Session& session, const Json& result) const;
};

/// One line of JSON for `result`. Strings that are not UTF-8 (file names) get U+FFFD.
std::string json_line(const Json& result);

}  // namespace kirchhoff::cli
