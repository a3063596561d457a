#include "kirchhoff/train/evaluation.h"

#include <algorithm>  // for max, max_element, min
#include <cmath>      // for isfinite
#include <span>       // for span

#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/corpus_loss.h"
#include "kirchhoff/engine/loss.h"
#include "kirchhoff/observe/head_scores.h"
#include "kirchhoff/train/sequence_seed.h"

namespace kirchhoff::train {
namespace {

constexpr Index kLogitMemory = Index{64} << 20;  ///< bytes of a batch's logits
constexpr Index kShortestBlock = 4;

void check_windows(const HeldOut& held_out) {
  check(!held_out.windows.empty(), ErrorCode::usage, "no held-out window to evaluate on");
  const std::size_t length = held_out.windows.front().size();
  check(length >= 2, ErrorCode::usage, "held-out windows of {} tokens predict nothing", length);
  for (const Tokens& window : held_out.windows)
    check(window.size() == length, ErrorCode::usage, "held-out windows of {} and of {} tokens: expected one length",
          length, window.size());
  check(held_out.scored.empty() || held_out.scored.size() == held_out.windows.size(), ErrorCode::usage,
        "{} examples have scored positions of {}", held_out.windows.size(), held_out.scored.size());
  for (const std::vector<Index>& scored : held_out.scored)
    for (const Index p : scored)
      check(p >= 1 && p < static_cast<Index>(length), ErrorCode::usage,
            "position {} cannot be scored in examples of {} tokens", p, length);
}

MeanLoss mean_over_windows(std::span<const std::vector<double>> losses) {
  WindowMean mean;
  for (const std::vector<double>& window : losses)
    mean.add(mean_loss(window) * static_cast<double>(window.size()), static_cast<Index>(window.size()));
  return mean.mean();
}

/// How many of an example's scored tokens have the largest logit.
Index right_answers(View<const float, 2> logits, const Tokens& tokens, std::span<const Index> scored) {
  Index right = 0;
  for (const Index p : scored) {
    const std::span<const float> row = logits.row(p - 1);
    const auto best = std::max_element(row.begin(), row.end()) - row.begin();
    right += best == tokens[static_cast<std::size_t>(p)];
  }
  return right;
}

TaskEvaluation evaluate_task(const Model& model, std::span<const Tokens> windows,
                             std::span<const std::vector<Index>> scored, std::span<const std::vector<double>> losses) {
  TaskEvaluation result;
  const Index bytes = static_cast<Index>(sizeof(float)) * model.config.d_vocab_out;
  double loss = 0.0;
  Index right = 0;
  for (Index first = 0; first < static_cast<Index>(windows.size());) {
    throw_if_interrupted();
    const Index batch = batch_of(windows, first, bytes, kLogitMemory);
    const Trace trace = run(model, windows.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(batch)));
    for (Index s = 0; s < batch; ++s) {
      const auto w = static_cast<std::size_t>(first + s);
      right += right_answers(trace.logits_of(s), windows[w], scored[w]);
      for (const Index p : scored[w]) loss += losses[w][static_cast<std::size_t>(p - 1)];
      result.tokens += static_cast<Index>(scored[w].size());
    }
    first += batch;
  }
  check(result.tokens > 0, ErrorCode::usage, "no token of the {} examples is scored", windows.size());
  result.loss = loss / static_cast<double>(result.tokens);
  result.accuracy = static_cast<double>(right) / static_cast<double>(result.tokens);
  return result;
}

std::vector<HeadEvaluation> evaluate_heads(const Model& model, Index context, const EvaluationOptions& options) {
  const Index room = context - (options.bos ? 1 : 0), period = std::min(options.period, room / 2);
  if (options.samples == 0 || period < kShortestBlock || model.config.n_layers == 0) return {};
  const std::vector<PeriodicTokens> sequences =
      repeated_random_tokens(model.config, {.period = period,
                                            .repeats = std::min(options.repeats, room / period),
                                            .samples = options.samples,
                                            .bos = options.bos,
                                            .allowed = options.allowed,
                                            .seed = options.seed});
  std::vector<HeadEvaluation> heads;
  for (const HeadScores& head : score_heads(model, sequences, {.seed = options.seed})) {
    HeadEvaluation found{.layer = head.layer, .head = head.head};
    found.prefix_matching = head.prefix_matching ? head.prefix_matching->value : 0.0;
    found.previous_token = head.previous_token.value;
    if (head.copying) found.copying = head.copying->value;
    heads.push_back(found);
  }
  return heads;
}

}  // namespace

HeldOut held_out_examples(const Task& task, std::uint64_t seed, Index count) {
  check(count >= 1, ErrorCode::usage, "{} held-out examples: expected at least one", count);
  // Steps of training are not negative, so this seed is none of theirs.
  const std::uint64_t own = sequence_seed(seed, -1, 0);
  HeldOut held_out;
  for (Index i = 0; i < count; ++i) {
    Example example = task.example(own, 0, i, Use::measuring);
    held_out.windows.push_back(std::move(example.tokens));
    held_out.scored.push_back(std::move(example.scored));
  }
  return held_out;
}

Evaluation evaluate(const Model& model, const HeldOut& held_out, const EvaluationOptions& options) {
  check_windows(held_out);
  check(options.windows >= 0 && options.samples >= 0 && options.period >= 1 && options.repeats >= 2, ErrorCode::usage,
        "evaluation on {} windows and {} sequences of {} x {} tokens: expected numbers that are not negative and at "
        "least two repeats",
        options.windows, options.samples, options.repeats, options.period);
  const auto all = static_cast<Index>(held_out.windows.size());
  const auto count = static_cast<std::size_t>(options.windows == 0 ? all : std::min(options.windows, all));
  const std::span<const Tokens> windows = std::span(held_out.windows).first(count);
  const auto context = static_cast<Index>(windows.front().size());
  report(options.progress, "evaluate", 0, 2);
  const std::vector<std::vector<double>> losses = corpus_losses(model, windows);

  Evaluation result{.windows = static_cast<Index>(count),
                    .context = context,
                    .loss = mean_over_windows(losses),
                    .by_position = loss_by_context(loss_by_position(losses))};
  check(std::isfinite(result.loss.value), ErrorCode::numerical, "the held-out loss is {}", result.loss.value);
  if (context >= 32 && held_out.scored.empty()) result.icl = icl_score(losses, icl_bands(context));
  if (!held_out.scored.empty())
    result.task = evaluate_task(model, windows, std::span(held_out.scored).first(count), losses);
  report(options.progress, "evaluate", 1, 2);
  result.heads = evaluate_heads(model, context, options);
  report(options.progress, "evaluate", 2, 2);
  return result;
}

}  // namespace kirchhoff::train
