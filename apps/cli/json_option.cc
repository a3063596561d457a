#include "json_option.h"

#include <sstream>  // for istringstream

#include "kirchhoff/base/error.h"
#include "suggest.h"

namespace kirchhoff::cli {

void JsonOption::declare(Command& command) {
  command.optional_value("--json", "[=KEYS]", fields, "",
                         "print one JSON object; with KEYS (a,b,c) only these of its keys");
}

std::string json_line(const Json& result) {
  return result.dump(-1, ' ', false, Json::error_handler_t::replace).append("\n");
}

void JsonOption::print(Session& session, const Json& result) const {
  if (fields->empty()) {
    session.out.write(json_line(result));
    return;
  }
  Json chosen = {{"schema", result.at("schema")}, {"version", result.at("version")}};
  std::vector<std::string> keys;
  for (const auto& item : result.items()) keys.push_back(item.key());
  std::istringstream list(*fields);
  for (std::string key; std::getline(list, key, ',');) {
    if (!result.contains(key)) {
      const std::string near = closest(key, keys);
      throw Error(ErrorCode::usage, fmt::format("option '--json': the result has no key '{}'", key),
                  near.empty() ? fmt::format("keys: {}", fmt::join(keys, ", "))
                               : fmt::format("a similar key exists: '{}'", near));
    }
    chosen[key] = result.at(key);
  }
  session.out.write(json_line(chosen));
}

}  // namespace kirchhoff::cli
