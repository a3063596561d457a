#pragma once
#include <map>      // for map
#include <string>   // for string
#include <variant>  // for variant
#include <vector>   // for vector

#include "kirchhoff/io/checkpoint.h"
#include "kirchhoff/io/mapped_file.h"

namespace kirchhoff::io {

/// A metadata value: every integer type becomes int64 (u64 beyond its range is an error), both floats double.
using GgufValue = std::variant<bool, std::int64_t, double, std::string, std::vector<bool>, std::vector<std::int64_t>,
                               std::vector<double>, std::vector<std::string>>;

/// The key-value part of a GGUF file, with typed look-ups whose errors name the file, the key and the type.
class GgufMetadata {
 public:
  GgufMetadata() = default;
  GgufMetadata(std::string path, std::map<std::string, GgufValue, std::less<>> values, int version);
  const std::string& path() const { return path_; }
  int version() const { return version_; }
  const std::map<std::string, GgufValue, std::less<>>& values() const { return values_; }
  bool has(std::string_view key) const;
  const GgufValue* find(std::string_view key) const;
  /// Typed: Error{format} "'FILE': key 'K' is missing / is a number, expected a string".
  const std::string& text(std::string_view key) const;
  std::int64_t integer(std::string_view key) const;
  double number(std::string_view key) const;  ///< integers too
  bool boolean(std::string_view key) const;
  const std::vector<std::string>& texts(std::string_view key) const;
  const std::vector<std::int64_t>& integers(std::string_view key) const;
  const std::vector<double>& numbers(std::string_view key) const;
  /// With a default for an absent key; a present key of the wrong type is still an error.
  std::string text_or(std::string_view key, std::string fallback) const;
  std::int64_t integer_or(std::string_view key, std::int64_t fallback) const;
  double number_or(std::string_view key, double fallback) const;
  bool boolean_or(std::string_view key, bool fallback) const;

 private:
  std::string path_;
  std::map<std::string, GgufValue, std::less<>> values_;
  int version_ = 0;
};

struct GgufFile {
  GgufMetadata metadata;
  Checkpoint checkpoint;
};

/// Checks a GGUF v2 or v3 file (little-endian) and returns its tensors where they lie. Nothing is allocated by a count
/// that the file only claims. Arrays of arrays are unsupported, as in llama.cpp.
GgufFile parse_gguf(const FileBytes& file);
GgufFile read_gguf(const std::string& path);

}  // namespace kirchhoff::io
