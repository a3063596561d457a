#include "reproduce/induction.h"

#include <algorithm>  // for max
#include <utility>    // for move

namespace kirchhoff::reproduce {
namespace {

/// Dense where something happens: the first steps by halves of octaves, then all along.
train::TrainingConfig config_of(const InductionPlan& plan, const InductionRun& run) {
  train::TrainingConfig config = text_model(plan.scale, run.kind, plan.tokens, run.seed);
  train::TrainingOptions& training = config.training;
  training.held_out_passages = training.repeated_passages;
  training.checkpoints = {.every = std::max<Index>(1, training.steps / 20), .per_doubling = 2};
  training.evaluations = {.every = std::max<Index>(1, training.steps / 100), .per_doubling = 2};
  return config;
}

}  // namespace

InductionPlan induction_plan(bool quick) {
  constexpr Index kMillion = 1000000;
  InductionPlan plan{.scale = scale_of_early_induction(),
                     .tokens = 30 * kMillion,
                     .seeds = 3,
                     .minutes_of_layer = 1.3,
                     .minutes_of_rest = 2.0,
                     .sizes = {}};
  if (!quick) return plan;
  plan.tokens = 11 * kMillion;
  plan.seeds = 1;
  plan.minutes_of_layer = 0.6;
  plan.minutes_of_rest = 0.8;
  plan.sizes = {.windows = 512, .ablation_windows = 128};
  return plan;
}

Chain induction_chain(const std::vector<std::string>& data, bool quick, const InductionPlan& plan) {
  InductionSizes sizes = plan.sizes;
  Chain chain{.name = "induction", .quick = quick, .stages = {}};
  chain.stages.push_back(corpus_stage(data, plan.scale));
  std::vector<InductionRun> runs;
  for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(plan.seeds); ++seed)
    for (const ModelKind& kind : {ModelKind{1, false}, {2, false}, {3, false}, {1, true}}) runs.push_back({kind, seed});

  sizes.repeated_passages = config_of(plan, runs.front()).training.held_out_passages;
  std::vector<std::string> trained, vectors;
  for (const InductionRun& run : runs) {
    const double minutes = plan.minutes_of_rest + plan.minutes_of_layer * static_cast<double>(run.kind.layers);
    chain.stages.push_back(training_stage(run.name(), config_of(plan, run), minutes));
    trained.push_back("train/" + run.name());
    vectors.push_back("losses/" + run.name());
  }
  const Json settings = {{"windows", sizes.windows},
                         {"ablation_windows", sizes.ablation_windows},
                         {"context", sizes.context},
                         {"repeated_passages", sizes.repeated_passages}};
  const auto add = [&](Stage stage) {
    stage.settings = settings;
    chain.stages.push_back(std::move(stage));
  };
  for (const InductionRun& run : runs)
    add({.name = "losses/" + run.name(),
         .summary = "losses of single tokens at each checkpoint",
         .inputs = {kCorpusStage, "train/" + run.name()},
         .minutes = quick ? 0.2 : 1.0,
         .published = false,
         .run = [name = run.name(), sizes](const StageRun& stage) {
           return losses_at_checkpoints(stage, name, sizes);
         }});
  add({.name = "curves",
       .summary = "what the runs measured on their way, and their phase changes",
       .inputs = trained,
       .minutes = 0.0,
       .published = true,
       .run = [runs](const StageRun& stage) { return curves_of_runs(stage, runs); }});
  add({.name = "loss-plane",
       .summary = "principal components of the losses of single tokens",
       .inputs = vectors,
       .minutes = 0.1,
       .published = true,
       .run = [runs](const StageRun& stage) { return loss_plane(stage, runs); }});
  for (const InductionRun& run : runs)
    add({.name = "ablations/" + run.name(),
         .summary = "heads ablated with patterns kept",
         .inputs = {kCorpusStage, "train/" + run.name(), "curves", "losses/" + run.name()},
         .minutes = quick ? 0.05 : 0.4,
         .published = true,
         .run = [name = run.name(), reference = InductionRun{{2, false}, run.seed}.name(),
                 sizes](const StageRun& stage) { return ablated_heads(stage, name, reference, sizes); }});
  return chain;
}

}  // namespace kirchhoff::reproduce
