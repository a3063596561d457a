#pragma once
#include <cstdint>   // for uint64_t
#include <optional>  // for optional
#include <vector>    // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/observe/in_context.h"
#include "kirchhoff/train/tasks.h"

// What a model can do at a moment of its training, on sequences that it was not trained on.

namespace kirchhoff::train {

/// Sequences to evaluate on, all equally long.
struct HeldOut {
  std::vector<Tokens> windows;             ///< BOS first
  std::vector<std::vector<Index>> scored;  ///< tasks: the positions of each that count; empty: there is no task
};
/// Examples of a task. They are of a seed of their own, mixed from `seed`: a run that is seeded with `seed` draws
/// others.
HeldOut held_out_examples(const Task& task, std::uint64_t seed, Index count);

struct EvaluationOptions {
  Index windows = 64;  ///< the first so many of the held-out ones; 0: all
  /// Heads are scored on BOS and a block of `period` random tokens, repeated (observe/head_scores.h); period and
  /// repeats become smaller where the context is too short, and below blocks of 4 tokens there are no head scores.
  Index period = 25, repeats = 4;
  Index samples = 4;  ///< such sequences; 0: no head scores
  std::optional<TokenId> bos{};
  std::vector<TokenId> allowed{};  ///< tokens to draw from; empty: all but BOS
  std::uint64_t seed = 0;          ///< of these sequences: the same at every step of a run
  Progress progress{};
};

/// One head on repeated random tokens: means of observe/head_scores.h.
struct HeadEvaluation {
  Index layer = 0, head = 0;
  double prefix_matching = 0.0, previous_token = 0.0;
  std::optional<double> copying{};  ///< none where the head raises no token
};

/// How a task is solved: over all scored tokens of all examples.
struct TaskEvaluation {
  double loss = 0.0;      ///< nats a token
  double accuracy = 0.0;  ///< how often the right token has the largest logit (of equal ones the first)
  Index tokens = 0;       ///< that were scored
};

struct Evaluation {
  Index windows = 0, context = 0;
  MeanLoss loss;  ///< nats per predicted token, all but the first of each window
  /// Means over positions in bins of half an octave (loss_by_context).
  std::vector<PositionBin> by_position;
  /// Over icl_bands(context). None below 32 tokens, and of tasks: nothing says which of their tokens can be predicted.
  std::optional<BandedIclScore> icl{};
  std::vector<HeadEvaluation> heads{};  ///< all of them, layer by layer; empty where they were not scored
  std::optional<TaskEvaluation> task{};
};

/// Runs forwards only, holding no logits of text. Errors: usage (no window, windows of different lengths or longer than
/// the model's context, a scored position that is none); unsupported (a model that predicts other tokens than it reads,
/// or that sees later ones); numerical (a loss that is not finite).
Evaluation evaluate(const Model& model, const HeldOut& held_out, const EvaluationOptions& options = {});

}  // namespace kirchhoff::train
