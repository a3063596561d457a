#pragma once
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>     // for getenv
#include <filesystem>  // for exists, path
#include <fstream>     // for ifstream
#include <map>         // for map
#include <sstream>     // for stringstream
#include <string>      // for string
#include <vector>      // for vector

#include "kirchhoff/text/tokenizer.h"

namespace kirchhoff::text {

/// The folder of data that does not belong to the repository; tests that need it skip where it is absent.
inline std::filesystem::path shared_data() {
  const char* folder = std::getenv("KIRCHHOFF_SHARED");
  return folder != nullptr ? folder : KIRCHHOFF_SOURCE_DIR "/../shared";
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

inline nlohmann::json read_json(const std::filesystem::path& path) { return nlohmann::json::parse(read_file(path)); }

/// "ids", or the run-length form that long lists have in golden files.
inline std::vector<TokenId> golden_ids(const nlohmann::json& entry, const std::string& key = "ids") {
  if (entry.contains(key)) return entry[key].get<std::vector<TokenId>>();
  std::vector<TokenId> ids;
  for (const auto& run : entry.at(key + "_rle"))
    ids.insert(ids.end(), run[1].get<std::size_t>(), run[0].get<TokenId>());
  return ids;
}

inline std::vector<TokenId> golden_ids_or(const nlohmann::json& entry, const std::string& key,
                                          const std::vector<TokenId>& fallback) {
  return entry.contains(key) || entry.contains(key + "_rle") ? golden_ids(entry, key) : fallback;
}

/// The texts that all golden tokenizers were run on, by name.
inline std::map<std::string, std::string> golden_strings() {
  std::map<std::string, std::string> texts;
  for (const auto& entry : read_json(shared_data() / "golden-tokenizers/strings.json"))
    texts[entry["name"]] = entry["text"];
  return texts;
}

inline std::vector<std::int64_t> flat(const std::vector<ByteSpan>& spans) {
  std::vector<std::int64_t> values;
  for (const ByteSpan& span : spans) values.insert(values.end(), {span.begin, span.end});
  return values;
}

}  // namespace kirchhoff::text
