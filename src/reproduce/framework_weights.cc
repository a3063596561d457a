// Analyses by weights alone, and the text's bigrams.
#include <algorithm>  // for min, stable_sort

#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/corpus_loss.h"
#include "kirchhoff/observe/head_scores.h"
#include "kirchhoff/study/circuit_json.h"
#include "kirchhoff/study/trigram_json.h"
#include "kirchhoff/train/parameters.h"
#include "reproduce/bigram_table.h"
#include "reproduce/framework_stages.h"

namespace kirchhoff::reproduce {
namespace {

/// How far beyond chance a head's spectrum is to be called copying: standard deviations of the null band.
constexpr double kSignificant = 4.0;
/// Mean attention by positions alone to one offset from which on a head is called positional.
constexpr double kPositional = 0.4;
constexpr Index kNullSamples = 64;
/// How often a token has to occur in the training text for its skip-trigrams to be looked at.
constexpr Index kCommon = 50;

MeanLoss held_out_loss(const Model& model, std::span<const Tokens> windows, const Progress& progress) {
  WindowMean mean;
  for (const std::vector<double>& losses : corpus_losses(model, windows, {.progress = progress})) {
    double sum = 0.0;
    for (const double loss : losses) sum += loss;
    mean.add(sum, static_cast<Index>(losses.size()));
  }
  return mean.mean();
}

/// The `count` sources that occur most often, as JSON.
Json frequent_sources(const BigramComparison& comparison, Index count, const TokenNames& names) {
  BigramComparison shown = comparison;
  std::stable_sort(shown.sources.begin(), shown.sources.end(),
                   [](const BigramSource& a, const BigramSource& b) { return a.count > b.count; });
  if (static_cast<Index>(shown.sources.size()) > count) shown.sources.resize(static_cast<std::size_t>(count));
  return to_json(shown, names);
}

std::vector<SourceTrigrams> trigrams_of(const Model& model, Index head, Index k, const Progress& progress) {
  return all_source_trigrams(head_tables(model, head_matrices(model, 0, head)), k, progress);
}

/// How often each token occurs in the training text.
std::vector<Index> token_counts(const StageRun& run, Index d_vocab) {
  std::vector<Index> counts(static_cast<std::size_t>(d_vocab), 0);
  const TokenCorpus text = whole_text(run, false);  // which the loop does not keep
  for (const text::TokenId token : text.windows.front()) ++counts[static_cast<std::size_t>(token)];
  return counts;
}

/// Without tokens that training has hardly seen: what the tables say of those is what they began as. `shown` entries of
/// each list are left.
void keep_common(std::vector<SourceTrigrams>& sources, const std::vector<Index>& counts, std::size_t shown) {
  const auto rare = [&](Index token) { return counts[static_cast<std::size_t>(token)] < kCommon; };
  std::erase_if(sources, [&](const SourceTrigrams& source) { return rare(source.source); });
  for (SourceTrigrams& source : sources)
    for (std::vector<TrigramToken>* list : {&source.destinations, &source.outs}) {
      std::erase_if(*list, [&](const TrigramToken& entry) { return rare(entry.token); });
      if (list->size() > shown) list->resize(shown);
    }
  std::erase_if(sources,
                [](const SourceTrigrams& source) { return source.destinations.empty() || source.outs.empty(); });
  for (SourceTrigrams& source : sources)
    source.strength = std::min(source.destinations.front().deviation, source.outs.front().deviation);
}

Json positivities(const Model& model, const std::string& which, Index writer, const VocabularySpectra& ov,
                  const VocabularySpectra& qk) {
  Json list = Json::array();
  const HeadMatrices through = head_matrices(model, 0, writer);
  for (Index head = 0; head < model.config.n_heads; ++head) {
    const HeadMatrices matrices = head_matrices(model, 1, head);
    list.push_back({{"head", head_node(1, head)},
                    {"model", which},
                    {"ov", positivity(ov.of(matrices))},
                    {"qk", positivity(qk.of(keys_through(matrices, through)))}});
  }
  return list;
}

}  // namespace

Json zero_layer(const StageRun& run, const FrameworkSizes& sizes) {
  const Subject subject = open_subject(model_directory(run, "0l"));
  const ModelConfig& config = subject.model.config;
  const std::vector<BigramRow> training = count_bigrams(whole_text(run, false), config.d_vocab, config.d_vocab_out);
  const std::vector<BigramRow> held_out = count_bigrams(whole_text(run, true), config.d_vocab, config.d_vocab_out);
  const BigramComparison of_training = compare_bigrams(subject.model, training, {.progress = run.progress});
  const BigramComparison of_held_out = compare_bigrams(subject.model, held_out, {.progress = run.progress});
  const TableLoss table = table_loss(training, held_out, config.d_vocab);
  const std::vector<Tokens> windows = held_out_windows(run, sizes.context, sizes.windows);
  Json result = frequent_sources(of_training, 12, subject.names());
  result["kl"] = of_training.loss - of_training.entropy;
  result["held_out"] = {{"direct_path", of_held_out.loss}, {"bigram_table", table.bigram}, {"unigrams", table.unigram}};
  result["windows"] = windows.size();
  for (const char* name : {"0l", "1l", "2l"}) {
    const MeanLoss loss = held_out_loss(open_subject(model_directory(run, name)).model, windows, run.progress);
    result["losses"][name] = {{"loss", loss.value}, {"error", loss.error}};
  }
  result["d_vocab"] = config.d_vocab;
  return result;
}

Json one_layer_heads(const StageRun& run, const FrameworkSizes& sizes) {
  const Subject subject = open_subject(model_directory(run, "1l"));
  const Model& model = subject.model;
  const VocabularySpectra spectra(model, CircuitKind::ov, false, run.progress);
  const NullBand band = spectra.null_band(model.config.d_head, kNullSamples, 0);
  const TokenLikeness likeness(model, subject.tokenizer.get());
  const std::vector<Tokens> windows = held_out_windows(run, sizes.context, sizes.text_windows);
  const std::vector<HeadScores> scores =
      score_heads_on_text(model, windows, windows.front().front(), {.copying = false, .progress = run.progress});
  const Index length = std::min<Index>(64, model.config.n_ctx);
  Json heads = Json::array();
  Index copying = 0, positional = 0, either = 0;
  for (Index head = 0; head < model.config.n_heads; ++head) {
    const CopyingCounts counts = copying_counts(likeness, trigrams_of(model, head, 1, run.progress));
    const PositionalPattern pattern = positional_pattern(model, 0, head, length);
    const double value = positivity(spectra.of(head_matrices(model, 0, head)));
    const double attention = pattern.by_offset[static_cast<std::size_t>(pattern.preferred)];
    const HeadScores& score = scores[static_cast<std::size_t>(head)];
    const bool copies = value > band.mean + kSignificant * band.sd, by_position = attention >= kPositional;
    copying += copies ? 1 : 0;
    positional += by_position ? 1 : 0;
    either += copies || by_position ? 1 : 0;
    Json offsets = Json::array();
    for (Index offset = 0; offset < std::min<Index>(16, length); ++offset)
      offsets.push_back(pattern.by_offset[static_cast<std::size_t>(offset)]);
    heads.push_back({{"head", head_node(0, head)},
                     {"positivity", value},
                     {"copying", copies},
                     {"largest_out", to_json(counts)},
                     {"offset", pattern.preferred},
                     {"offset_attention", attention},
                     {"positional", by_position},
                     {"by_offset", offsets},
                     {"previous_token", score.previous_token.value},
                     {"current_token", score.current_token.value},
                     {"first_token", score.first_token.value}});
  }
  return {{"heads", heads},           {"null", to_json(band)},    {"significant", band.mean + kSignificant * band.sd},
          {"copying", copying},       {"positional", positional}, {"either", either},
          {"windows", windows.size()}};
}

Json skip_trigrams(const StageRun& run) {
  const Subject subject = open_subject(model_directory(run, "1l"));
  const Model& model = subject.model;
  const TokenLikeness likeness(model, subject.tokenizer.get());
  constexpr Index kShown = 4, kSources = 6, kListed = 8, kCandidates = 32;
  const std::vector<Index> counts = token_counts(run, model.config.d_vocab);
  Json heads = Json::array(), bugs = Json::array();
  std::vector<std::pair<double, Json>> found;
  for (Index head = 0; head < model.config.n_heads; ++head) {
    std::vector<SourceTrigrams> sources = trigrams_of(model, head, kCandidates, run.progress);
    keep_common(sources, counts, kListed);
    for (const TrigramBug& bug : trigram_bugs(model, sources, {.count = 6, .progress = run.progress}))
      found.emplace_back(bug.contrast, to_json(head_node(0, head), bug, subject.names()));
    Json list = Json::array();
    for (const Index index : strongest_sources(sources, TrigramRanking::both, kSources)) {
      SourceTrigrams& source = sources[static_cast<std::size_t>(index)];
      source.destinations.resize(std::min<std::size_t>(source.destinations.size(), kShown));
      source.outs.resize(std::min<std::size_t>(source.outs.size(), kShown));
      add_json(list, head_node(0, head), source, &likeness, subject.names());
    }
    heads.push_back({{"head", head_node(0, head)}, {"entries", list}});
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [contrast, bug] : found)
    if (bugs.size() < 16) bugs.push_back(bug);
  return {{"heads", heads}, {"bugs", bugs}, {"bugs_found", found.size()}, {"occurring_at_least", kCommon}};
}

Json composition_scores(const StageRun& run) {
  const Subject subject = open_subject(model_directory(run, "2l"));
  return to_json(composition(subject.model, {.form = {}, .induction_match = true, .progress = run.progress}));
}

Json positivity_plane(const StageRun& run, const train::TrainingConfig& untrained) {
  const Subject subject = open_subject(model_directory(run, "2l"));
  const Index writer = run.inputs.at("random-repeats").at("previous_token").at("head").get<Index>();
  Json model = untrained.model;
  model["d_vocab"] = subject.model.config.d_vocab;
  model["n_ctx"] = subject.model.config.n_ctx;
  const train::Parameters parameters(ModelFormat(model, untrained.path), untrained.training);
  Json points = Json::array();
  Json bands = Json::object();
  const auto add = [&](const Model& of, const std::string& which) {
    const VocabularySpectra ov(of, CircuitKind::ov, false, run.progress), qk(of, CircuitKind::qk, false, run.progress);
    for (const Json& point : positivities(of, which, writer, ov, qk)) points.push_back(point);
    bands[which] = to_json(ov.null_band(of.config.d_head, kNullSamples, 0));
  };
  add(subject.model, "trained");
  add(parameters.model(), "random");
  return {{"through", head_node(0, writer)}, {"points", points}, {"null", bands}};
}

}  // namespace kirchhoff::reproduce
