#pragma once
#include <nlohmann/json.hpp>

#include <string>       // for string
#include <string_view>  // for string_view

#include "kirchhoff/base/types.h"

namespace kirchhoff::io {

/// What a JSON text may be. The defaults suit configurations.
struct JsonLimits {
  Index max_bytes = Index{64} << 20;
  int max_depth = 64;  ///< objects and arrays inside each other
  bool object_at_top = false;
};

/// Parses strict JSON (RFC 8259, UTF-8): a key that appears twice in one object is an error, NaN and Infinity are
/// errors that name their key, nothing may follow the value. Error{format} names `path`, the byte offset and the key.
nlohmann::ordered_json parse_json(std::string_view text, const std::string& path, const JsonLimits& limits = {});

/// The same from a file.
nlohmann::ordered_json read_json_file(const std::string& path, const JsonLimits& limits = {});

}  // namespace kirchhoff::io
