#include "reproduce/framework.h"

#include <utility>  // for move

namespace kirchhoff::reproduce {
namespace {

Json sizes_json(const FrameworkSizes& sizes) {
  return {{"windows", sizes.windows},
          {"text_windows", sizes.text_windows},
          {"queries", sizes.queries},
          {"context", sizes.context}};
}

}  // namespace

FrameworkPlan framework_plan(bool quick) {
  constexpr Index kMillion = 1000000;
  if (!quick)
    return {.scale = {.sinusoid_features = 48, .sinusoid_amplitude = 3.0, .repeated_passages = 1.0},
            .tokens = {10 * kMillion, 20 * kMillion, 40 * kMillion},
            .minutes = {2.8, 8.5, 22.0},
            .sizes = {}};
  return {.scale = scale_of_early_induction(),
          .tokens = {2 * kMillion, 4 * kMillion, 12 * kMillion},
          .minutes = {0.2, 0.4, 1.6},
          .sizes = {.windows = 128, .text_windows = 32, .queries = 128}};
}

Chain framework_chain(const std::vector<std::string>& data, bool quick, const FrameworkPlan& plan) {
  const FrameworkSizes sizes = plan.sizes;
  Chain chain{.name = "framework", .quick = quick, .stages = {}};
  chain.stages.push_back(corpus_stage(data, plan.scale));
  for (Index layers = 0; layers < 3; ++layers) {
    const ModelKind kind{.layers = layers};
    const auto i = static_cast<std::size_t>(layers);
    chain.stages.push_back(
        training_stage(kind.name(), text_model(plan.scale, kind, plan.tokens[i], 0), plan.minutes[i]));
  }
  using Analysis = std::function<Json(const StageRun&)>;
  const auto add = [&](const char* name, const char* summary, std::vector<std::string> inputs,
                       const Analysis& analysis) {
    chain.stages.push_back({.name = name,
                            .summary = summary,
                            .inputs = std::move(inputs),
                            .settings = sizes_json(sizes),
                            .minutes = quick ? 0.05 : 0.1,
                            .published = true,
                            .run = analysis});
  };
  add("zero-layer", "the direct path beside the text's bigrams; losses of all models",
      {kCorpusStage, "train/0l", "train/1l", "train/2l"},
      [sizes](const StageRun& run) { return zero_layer(run, sizes); });
  add("one-layer-heads", "copying and positional heads of the one-layer model", {kCorpusStage, "train/1l"},
      [sizes](const StageRun& run) { return one_layer_heads(run, sizes); });
  add("skip-trigrams", "its skip-trigrams and their bugs", {kCorpusStage, "train/1l"}, skip_trigrams);
  add("terms", "losses by order of the path expansion", {kCorpusStage, "train/2l"},
      [sizes](const StageRun& run) { return terms_by_order(run, sizes); });
  add("random-repeats", "heads on random tokens that repeat", {"train/1l", "train/2l"},
      [sizes](const StageRun& run) { return random_repeats(run, sizes); });
  add("composition", "composition of all pairs, true and as in the erratum", {"train/2l"}, composition_scores);
  // A seed of its own: at seed 0 it would be what the trained model began as.
  add("positivity-plane", "QK and OV positivity, beside a model that learned nothing", {"train/2l", "random-repeats"},
      [untrained = text_model(plan.scale, {.layers = 2}, 1, 1)](const StageRun& run) {
        return positivity_plane(run, untrained);
      });
  add("keys-by-token", "an induction head's keys, token by token", {kCorpusStage, "train/2l", "random-repeats"},
      [sizes](const StageRun& run) { return keys_by_token(run, sizes); });
  return chain;
}

}  // namespace kirchhoff::reproduce
