#pragma once
#include <functional>  // for function
#include <map>         // for map
#include <string>      // for string
#include <vector>      // for vector

#include "kirchhoff/engine/pull.h"
#include "kirchhoff/train/parameters.h"

namespace kirchhoff::train {

/// The sequences of one step.
struct Batch {
  std::vector<Tokens> sequences;
  /// The first token of each sequence whose loss counts, from 1 on; empty: 1, all that are predicted.
  std::vector<Index> first_scored{};
};
/// The batch of step 1, 2, ...: a pure function of the step, so that going on from a step needs nothing else.
using BatchSource = std::function<Batch(Index step)>;

/// What one step found, before it changed the weights.
struct StepReport {
  Index step = 0;
  Index tokens = 0;            ///< read so far, those of this step included
  double loss = 0.0;           ///< nats per scored token: the mean over sequences of each one's mean
  double gradient_norm = 0.0;  ///< of the mean loss, before clipping
  double learning_rate = 0.0;
};

/// Gradient descent by the engine's own backward (engine/pull.h): AdamW with warm-up, decay of the learning rate and
/// clipping. The same bits for any number of threads, and whether it was stopped and restored or not.
class Trainer {
 public:
  /// Errors: usage (options out of range).
  Trainer(const ModelFormat& format, const TrainingOptions& options, BatchSource batches);

  Index step() const { return step_; }  ///< steps done
  bool done() const { return step_ >= options_.steps; }
  const Parameters& parameters() const { return parameters_; }
  const Model& model() const { return parameters_.model(); }
  const TrainingOptions& options() const { return options_; }

  /// One step. Errors: usage (a batch that the model cannot read); numerical (loss or gradient is not finite: the step,
  /// and nothing has changed).
  StepReport advance();

  /// Writes everything that the rest of the run depends on, whole or not at all, with `notes` of the caller's.
  void save(const std::string& path, const std::map<std::string, std::string>& notes = {}) const;
  /// Goes on from a saved state; gives its notes. Errors: as reading safetensors; format (no state, or one of another
  /// model: what differs). Nothing has changed then.
  std::map<std::string, std::string> restore(const std::string& path);

  /// Floating-point operations of one step's products, forward and backward (twice the forward's): what its speed is
  /// measured by. 2 a multiply-add; attention at the pairs that a causal mask leaves.
  double flops_per_step() const;

 private:
  std::vector<double> pull_lanes(const Batch& batch);
  double sum_lanes(const std::string& name);

  TrainingOptions options_;
  BatchSource batches_;
  Parameters parameters_;
  Tensor first_, second_;  // AdamW's moments, as the parameters lie
  std::vector<Gradients> lanes_;
  Index step_ = 0, tokens_ = 0;
};

}  // namespace kirchhoff::train
