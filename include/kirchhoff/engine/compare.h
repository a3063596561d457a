#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff {

enum class Precision { f32, f64 };

struct CompareOptions {
  Precision precision = Precision::f32;
  double tolerance = 2e-5;  ///< largest relative error that passes
  Progress progress{};      ///< stage "compare", counted in sequences
};

/// The tensors of one kind ("hidden", "blocks.L.attn.hook_z"), all layers and sequences together.
struct KindComparison {
  std::string kind;
  Index tensors = 0;
  double max_abs_error = 0.0;
  double max_rel_error = 0.0;  ///< relative to the largest finite magnitude of the expected tensor
  std::string worst;           ///< the tensor with the largest relative error: "seq0/hidden.2"
  std::string where;           ///< the entry of it that is furthest off: "[3, 17]"
};

struct SkippedKind {
  std::string kind;
  std::string reason;
  Index tensors = 0;
};

struct Comparison {
  std::string directory;
  Precision precision{};
  double tolerance = 0.0;
  Index sites = 0;  ///< tensors compared
  double max_rel_error = 0.0;
  std::string worst;                  ///< name of the tensor that has it
  std::vector<std::string> failures;  ///< a line each: above the tolerance, another shape, no such site, missing
  std::vector<KindComparison> kinds;  ///< in the order of their names
  /// What the program that computed the expected values does wrong, if they agree only with that; empty otherwise.
  std::string reference_defect;
  std::vector<SkippedKind> skipped;  ///< what the files hold and the engine does not compute
  bool passed() const { return failures.empty(); }
};

/// Compares what `model` computes with values computed elsewhere, in one of two formats:
/// - `expected.json` ("sequences": [{"name", "tokens"}], "tensors", "loss") with `expected.safetensors`
///   ("seq0/hidden.2", ...), as tools/ writes it from a Hugging Face model; with "metric" {"a", "b"}, the gradients of
///   logits[last, a] - logits[last, b], too ("seq0/grad.hidden.2", "seq0/grad.param.NAME" as the model's files have
///   NAME);
/// - a TransformerLens cache: `cache.safetensors` (hook names, no batch axis) with `expected.json` ("tokens").
/// Entries that are -inf must be -inf. An expected tensor may have a head axis where the engine has none, if all heads
/// read the same (ln1 under split inputs).
/// Errors: not_found, io, format (the files), usage (tokens that the model cannot read).
Comparison compare_with_expected(const Model& model, const std::string& directory, const CompareOptions& options = {});

}  // namespace kirchhoff
