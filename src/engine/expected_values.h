#pragma once
#include <optional>  // for optional
#include <string>    // for string
#include <vector>    // for vector

#include "kirchhoff/engine/run.h"
#include "kirchhoff/io/checkpoint.h"

namespace kirchhoff::engine {

/// Values of a model that were computed elsewhere, as compare_with_expected (engine/compare.h) finds them on disk.
struct ExpectedValues {
  struct Sequence {
    std::string prefix;  ///< of its tensors' names: "seq0/", or empty
    Tokens tokens;
    std::optional<double> loss;  ///< mean cross-entropy in nats
  };
  /// The function whose gradients the files hold: logits[last, target] - logits[last, foil].
  struct LogitDifference {
    TokenId target = 0, foil = 0;
  };
  std::vector<Sequence> sequences;
  std::optional<LogitDifference> metric;
  io::Checkpoint checkpoint;
  std::vector<std::string> listed;  ///< tensors that expected.json promises
  bool hooks = false;               ///< a TransformerLens cache: the names are hook names
  std::string directory;
  std::string transformers_version;  ///< that computed them: "5.24.0"; empty if another program did
};

/// What an expected tensor is to the engine.
struct Meaning {
  std::string kind;    ///< its name without sequence and layer
  std::string site;    ///< the engine's name, "logits" too; a stored parameter's; empty: skipped
  std::string reason;  ///< why it is skipped
  enum class What { value, gradient, parameter_gradient } what = What::value;
};

/// Errors: not_found, io, format, naming the file and the key.
ExpectedValues read_expected_values(const std::string& directory);

/// `name` is a tensor's, without the sequence's prefix.
Meaning meaning_of(const ExpectedValues& expected, const std::string& name, Index n_layers);

}  // namespace kirchhoff::engine
