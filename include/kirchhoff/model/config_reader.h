#pragma once
#include <nlohmann/json.hpp>

#include <initializer_list>  // for initializer_list
#include <set>               // for set
#include <string>            // for string
#include <string_view>       // for string_view
#include <vector>            // for vector

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/types.h"

namespace kirchhoff {

using Json = nlohmann::ordered_json;

/// Bounds that no real model reaches; they are checked before anything is allocated by a number that a file claims.
inline constexpr Index kMaxLayers = 4096;
inline constexpr Index kMaxWidth = Index{1} << 20;  ///< d_model, d_mlp, heads, ...
inline constexpr Index kMaxVocabulary = Index{1} << 24;
inline constexpr Index kMaxPositions = Index{1} << 30;

/// Typed look-ups in a config that remember which keys were used, so that `finish` can refuse every key that nobody
/// has looked at: a key that could change the result is never a silent default. `null` counts as absent.
///
/// Errors name the file, the key and the value: Error{format} for what is missing, of the wrong type or out of range,
/// Error{unsupported} for what is well formed but not implemented.
class ConfigReader {
 public:
  /// `scope` is the path of a nested object, for messages ("rope_scaling.").
  ConfigReader(const Json& object, std::string file, std::string scope = {});

  const std::string& file() const { return file_; }
  bool has(std::string_view key) const;       ///< present and not null; does not count as use
  bool mentions(std::string_view key) const;  ///< present, null included: some classes' defaults differ from null
  /// The first of several names of one key that is present, otherwise the first of all.
  std::string_view first_of(std::initializer_list<std::string_view> keys) const;

  /// A whole number in [1, max].
  Index count(std::string_view key, Index max);
  Index count_or(std::string_view key, Index fallback, Index max);
  double number(std::string_view key);
  double number_or(std::string_view key, double fallback);
  double positive(std::string_view key);
  double positive_or(std::string_view key, double fallback);
  bool boolean_or(std::string_view key, bool fallback);
  std::string text(std::string_view key);
  std::string text_or(std::string_view key, std::string_view fallback);
  std::vector<std::string> texts(std::string_view key);
  /// A nested object; the caller finishes it.
  ConfigReader object(std::string_view key);
  /// Any value; null if absent.
  const Json& value(std::string_view key);

  /// If present, the key must have this value: nothing else is implemented.
  void expect(std::string_view key, const Json& value);
  /// Fails if one of these is absent: the classes' own defaults for them are sizes of some published model.
  void require(std::initializer_list<std::string_view> keys);
  /// Keys that are known to carry nothing that could change the result.
  void ignore(std::initializer_list<std::string_view> keys);
  /// Fails if a key was neither used nor ignored.
  void finish() const;

  /// "'config.json': key 'hidden_act' is \"swishy\", expected ..."
  [[noreturn]] void bad_value(std::string_view key, std::string_view expected,
                              ErrorCode code = ErrorCode::format) const;
  /// `whole` must be a multiple of `part`; both keys and values are named.
  Index divided(std::string_view whole_key, Index whole, std::string_view part_key, Index part) const;

 private:
  const Json* find(std::string_view key);
  const Json& required(std::string_view key, std::string_view expected);
  Index to_count(std::string_view key, const Json& value, Index max) const;
  double to_number(std::string_view key, const Json& value) const;

  const Json* object_;
  std::string file_, scope_;
  std::set<std::string, std::less<>> used_;
};

}  // namespace kirchhoff
