#pragma once
#include <map>       // for map
#include <optional>  // for optional
#include <span>      // for span
#include <string>    // for string
#include <vector>    // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/engine/intervention.h"
#include "kirchhoff/model/model.h"
#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff {

using TokenId = std::int32_t;
using Tokens = std::vector<TokenId>;

/// At which positions logits are computed: the unembedding is a large part of a short run.
enum class LogitPositions { all, last, none };

class KvCache;

struct RunOptions {
  /// Site names (engine/sites.h): exact ("blocks.3.attn.hook_pattern"), or with `*` for any run of characters between
  /// dots
  /// ("blocks.*.hook_resid_post"). A name that matches no site of this model is an error that says why.
  std::vector<std::string> capture{};
  LogitPositions logits = LogitPositions::all;
  KvCache* cache = nullptr;       ///< keys and values of earlier tokens; the run appends its own. One sequence only.
  bool pad_left = true;           ///< where captured tensors of shorter sequences are padded (with zeros)
  Interventions interventions{};  ///< what the run does differently
  Progress progress{};
};

/// What one run recorded. Real is float (the engine) or double (the reference path).
template <class Real>
struct BasicTrace {
  std::vector<Tokens> tokens;                      ///< as run, BOS included
  std::map<std::string, BasicTensor<Real>> sites;  ///< by name; shapes and axes as in engine/sites.h, batch first
  BasicTensor<Real> logits;                        ///< [batch, pos, d_vocab_out] (pos = 1 for `last`)
  bool pad_left = true;                            ///< where shorter sequences are padded

  /// Error{usage} naming what was captured if `site` was not.
  const BasicTensor<Real>& at(const std::string& site) const;
  /// Where a sequence begins on the padded position axis.
  Index padding_before(Index sequence) const;
  /// The logits of one sequence without its padding, [pos, d_vocab_out].
  View<const Real, 2> logits_of(Index sequence) const;
};
using Trace = BasicTrace<float>;
using TraceF64 = BasicTrace<double>;

/// The forward pass in float32. Batches may be ragged: no padding is computed, so a batch equals its singles.
/// Errors: usage (token out of range, prompt longer than the context: both numbers, unknown site).
Trace run(const Model& model, std::span<const Tokens> batch, const RunOptions& options = {});
Trace run(const Model& model, const Tokens& tokens, const RunOptions& options = {});
/// The same forward through the double-precision twins of the kernels: exact, slow.
TraceF64 run_f64(const Model& model, std::span<const Tokens> batch, const RunOptions& options = {});
TraceF64 run_f64(const Model& model, const Tokens& tokens, const RunOptions& options = {});

}  // namespace kirchhoff
