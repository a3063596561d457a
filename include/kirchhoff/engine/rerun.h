#pragma once
#include <functional>  // for function
#include <memory>      // for shared_ptr
#include <span>        // for span
#include <vector>      // for vector

#include "kirchhoff/engine/intervention.h"
#include "kirchhoff/engine/run.h"

namespace kirchhoff {

namespace engine {
template <class Real>
struct BaseState;
}

/// A run that variants branch off, with everything that they share: by layer the stream, queries, keys, values and z of
/// every token. Real as in BasicTrace.
template <class Real>
class BasicRerunBase {
 public:
  /// Runs the batch. `options`: what to record in `trace()` beside; no cache. Edges and freezes among its interventions
  /// hold for the variants too, before their own; interventions at sites are Error{unsupported}. Errors as run().
  BasicRerunBase(const Model& model, std::span<const Tokens> batch, const RunOptions& options = {});

  const BasicTrace<Real>& trace() const { return trace_; }
  const std::vector<Tokens>& tokens() const { return trace_.tokens; }
  const Interventions& interventions() const { return interventions_; }
  Index bytes() const { return bytes_; }
  const engine::BaseState<Real>& state() const { return *state_; }

 private:
  BasicTrace<Real> trace_;
  std::shared_ptr<const engine::BaseState<Real>> state_;
  Interventions interventions_;
  Index bytes_ = 0;
};
using RerunBase = BasicRerunBase<float>;
using RerunBaseF64 = BasicRerunBase<double>;

struct RerunOptions {
  /// Which logits a variant gives: at these positions of each sequence, ascending; negative ones count from its end.
  /// Empty: at all of them (sequences of one length only).
  std::vector<Index> positions{-1};
  std::vector<Index> columns{};  ///< and of these tokens; empty: of all
  /// A position whose stream differs from the base's by less than this part of its norm is taken for unchanged, after
  /// each sublayer, and not computed further. The default is what float32 rounds away; 0: nothing is dropped.
  double vanish = 0x1p-24;
  /// Bytes that the variants may take beside the base and the model; 0: a quarter of what is free. Error{out_of_memory}
  /// if one variant needs more.
  Index memory = 0;
  /// Sites to record of each variant, as in RunOptions::capture, which the base must have recorded. All positions are
  /// computed then, and nothing vanishes. Not unembed.hook_out.
  std::vector<std::string> capture{};
  Progress progress{};  ///< stage "variants"; the total is 0 where it is not known
};

/// What all variants together cost.
struct RerunCost {
  Index variants = 0;
  double flops = 0.0;  ///< of all matrix products
  Index bytes = 0;     ///< the most held at once, beside model and base
  Index batches = 0;   ///< groups of variants that went through the layers together
  Index rows = 0;      ///< of the groups' buffers together: rows / batches is how large the products are
  /// Rows (one position of one variant) that vanished on their way; 0 in an estimate.
  Index dropped_rows = 0;
};

/// One variant's answer, valid during the call that hands it over.
template <class Real>
struct BasicVariant {
  Index number = 0;                         ///< in the order in which variants came
  View<const Real, 3> logits;               ///< [sequences of the base, positions, columns]
  const BasicTrace<Real>* trace = nullptr;  ///< the sites that were asked for, without logits; null if none were
};
using Variant = BasicVariant<float>;
using VariantF64 = BasicVariant<double>;

/// Fills in the next variant, or says that there is none (false).
using NextVariant = std::function<bool(Interventions& variant)>;
/// A list as a generator; the list must outlive it.
NextVariant each_of(std::span<const Interventions> variants);

/// Runs variants of one run: what run() gives with each one's interventions (to rounding), in their order, one call of
/// `receive` for each. Only what can differ is computed: from the first place that an intervention touches, at the
/// positions that it touches and those that attend to them, up to the positions whose logits are asked for. Variants go
/// through the layers together, as many as `memory` allows, those that start later joining on the way.
///
/// Errors: as run() with the interventions, and as said in RerunOptions.
RerunCost rerun(const Model& model, const RerunBase& base, const NextVariant& variants, const RerunOptions& options,
                const std::function<void(const Variant&)>& receive);
RerunCost rerun(const Model& model, const RerunBaseF64& base, const NextVariant& variants, const RerunOptions& options,
                const std::function<void(const VariantF64&)>& receive);

/// What rerun() would cost, without computing anything: FLOPs as if nothing vanished, bytes as rerun() takes them.
RerunCost estimate_rerun(const ModelConfig& config, std::span<const Tokens> batch, const NextVariant& variants,
                         const RerunOptions& options);

}  // namespace kirchhoff
