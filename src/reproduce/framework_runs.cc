// Analyses of runs: of text, and of random tokens that repeat.
#include <algorithm>  // for max_element, count
#include <cmath>      // for abs
#include <map>        // for map

#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/corpus_loss.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/observe/qk_terms.h"
#include "kirchhoff/observe/term_importance.h"
#include "kirchhoff/study/circuit_json.h"
#include "kirchhoff/study/head_roles.h"
#include "kirchhoff/study/term_json.h"
#include "reproduce/framework_stages.h"

namespace kirchhoff::reproduce {
namespace {

Json place_of(const HeadScores& scores, double score) {
  return {
      {"layer", scores.layer}, {"head", scores.head}, {"node", head_node(scores.layer, scores.head)}, {"score", score}};
}

template <class ScoreOf>
Json best_head(const std::vector<NamedHead>& heads, Index layer, const ScoreOf& score_of) {
  const NamedHead* best = nullptr;
  for (const NamedHead& head : heads)
    if (head.scores.layer == layer && (best == nullptr || score_of(head.scores) > score_of(best->scores))) best = &head;
  check(best != nullptr, ErrorCode::internal, "layer {} has no head", layer);
  return place_of(best->scores, score_of(best->scores));
}

/// Mean loss of the tokens of each block.
Json losses_by_block(const Model& model, std::span<const PeriodicTokens> sequences) {
  std::vector<Tokens> windows;
  for (const PeriodicTokens& sequence : sequences) windows.push_back(sequence.tokens);
  const auto losses = corpus_losses(model, windows);
  const Index offset = sequences.front().offset, period = sequences.front().period;
  const Index blocks = (static_cast<Index>(windows.front().size()) - offset) / period;
  Json means = Json::array();
  for (Index block = 0; block < blocks; ++block) {
    WindowMean mean;
    for (const std::vector<double>& window : losses) {
      double sum = 0.0;
      // The first token of the first block follows BOS, that of the second one is not announced: none of the firsts.
      for (Index i = 1; i < period; ++i) sum += window[static_cast<std::size_t>(offset + block * period + i - 1)];
      mean.add(sum, period - 1);
    }
    means.push_back({{"loss", mean.mean().value}, {"error", mean.mean().error}});
  }
  return means;
}

/// A query whose token stands once before, and the key behind that copy.
struct Matching {
  Index query = 0, key = 0;
};
std::vector<Matching> matching_places(const Tokens& window) {
  constexpr Index kApart = 4;  // nearer copies could be found by position
  std::vector<Matching> places;
  for (Index i = 2 * kApart; i < static_cast<Index>(window.size()); ++i) {
    const auto end = window.begin() + i;
    if (std::count(window.begin() + 1, end, *end) != 1) continue;
    const Index copy = std::find(window.begin() + 1, end, *end) - window.begin();
    if (copy >= kApart && i - copy > kApart) places.push_back({i, copy + 1});
  }
  return places;
}

/// What tokens give to a key, by how far behind it they stand.
class ByDistance {
 public:
  void add(const ScoreSources& sources, Index key) {
    std::vector<double> values;
    for (Index at = 0; at <= key; ++at) values.push_back(sources.positions[static_cast<std::size_t>(at)].value());
    const auto largest = std::max_element(values.begin(), values.end()) - values.begin();
    for (Index back = 0; back < kNear; ++back)
      if (back <= key) near_[static_cast<std::size_t>(back)] += values[static_cast<std::size_t>(key - back)];
    for (Index at = 0; at <= key - kNear; ++at) far_ += values[static_cast<std::size_t>(at)];
    constant_ += sources.constant;
    ++(largest == key - 1 ? previous_ : other_);
  }
  Json json() const {
    const double count = static_cast<double>(previous_ + other_);
    Json near = Json::array();
    for (const double sum : near_) near.push_back(count > 0.0 ? Json(sum / count) : Json(nullptr));
    return {{"keys", previous_ + other_},
            {"by_tokens_back", near},
            {"farther", count > 0.0 ? Json(far_ / count) : Json(nullptr)},
            {"constant", count > 0.0 ? Json(constant_ / count) : Json(nullptr)},
            {"previous_is_largest", count > 0.0 ? Json(static_cast<double>(previous_) / count) : Json(nullptr)}};
  }

 private:
  static constexpr Index kNear = 5;
  double near_[kNear] = {}, far_ = 0.0, constant_ = 0.0;
  Index previous_ = 0, other_ = 0;
};

}  // namespace

Json terms_by_order(const StageRun& run, const FrameworkSizes& sizes) {
  const Subject subject = open_subject(model_directory(run, "2l"));
  const std::vector<Tokens> windows = held_out_windows(run, sizes.context, sizes.windows);
  return to_json(term_importance(subject.model, windows, {.by_layer = true, .progress = run.progress}));
}

Json random_repeats(const StageRun& run, const FrameworkSizes& sizes) {
  Json result;
  constexpr Index kRepeats = 4, kSamples = 10;
  for (const char* name : {"1l", "2l"}) {
    const Subject subject = open_subject(model_directory(run, name));
    const ModelConfig& config = subject.model.config;
    const Index period = std::min<Index>(25, (sizes.context - 1) / kRepeats);
    const std::vector<PeriodicTokens> sequences =
        repeated_random_tokens(config, {.period = period,
                                        .repeats = kRepeats,
                                        .samples = kSamples,
                                        .bos = TokenId{0},
                                        .allowed = ordinary_tokens(config.d_vocab)});
    std::vector<NamedHead> heads = name_heads(score_heads(subject.model, sequences, {.progress = run.progress}));
    check_roles(subject.model, sequences, heads, {.progress = run.progress});
    Json list = Json::array();
    Index induction = 0;
    for (const NamedHead& head : heads) {
      list.push_back(to_json(head));
      for (const HeadRole& role : head.roles) induction += role.role == Role::induction ? 1 : 0;
    }
    result[name] = {
        {"heads", list},    {"induction_heads", induction}, {"losses", losses_by_block(subject.model, sequences)},
        {"period", period}, {"repeats", kRepeats},          {"samples", kSamples}};
    if (config.n_layers == 2) {
      result["previous_token"] =
          best_head(heads, 0, [](const HeadScores& scores) { return scores.previous_token.value; });
      result["induction"] = best_head(heads, 1, [](const HeadScores& scores) { return scores.induction.value; });
    }
  }
  return result;
}

Json keys_by_token(const StageRun& run, const FrameworkSizes& sizes) {
  const Subject subject = open_subject(model_directory(run, "2l"));
  const Json& place = run.inputs.at("random-repeats").at("induction");
  const Index layer = place.at("layer").get<Index>(), head = place.at("head").get<Index>();
  constexpr Index kOfWindow = 8, kExamples = 8;
  ByDistance matching, others;
  double attention = 0.0;
  Index queries = 0;
  Json examples = Json::array();
  for (const Tokens& window : held_out_windows(run, sizes.context, sizes.windows)) {
    if (queries >= sizes.queries) break;
    report(run.progress, "keys", queries, sizes.queries);
    std::vector<Matching> places = matching_places(window);
    if (places.empty()) continue;
    std::vector<std::string> sites = score_path_sites(subject.model.config, layer);
    const std::string pattern_site = site_name(Site::pattern, layer);
    sites.push_back(pattern_site);
    const Trace trace = kirchhoff::run(subject.model, window, {.capture = sites, .logits = LogitPositions::none});
    const auto pattern = trace.at(pattern_site).view<4>();
    const std::size_t stride = (places.size() + kOfWindow - 1) / kOfWindow;
    for (std::size_t i = 0; i < places.size() && queries < sizes.queries; i += stride, ++queries) {
      const auto [query, key] = places[i];
      const ScoreSources sources =
          expand_score_sources(subject.model, trace, {layer, head, query, key}, ScoreSide::key);
      matching.add(sources, key);
      // The key in the middle between the copy and the query: whatever stands there.
      const Index other = (key + query) / 2;
      others.add(expand_score_sources(subject.model, trace, {layer, head, query, other}, ScoreSide::key), other);
      const double attended = static_cast<double>(pattern(0, head, query, key));
      attention += attended;
      if (static_cast<Index>(examples.size()) < kExamples && attended > 0.5) {
        Json values = Json::array();
        for (Index back = 0; back < 3; ++back) {
          const auto at = static_cast<std::size_t>(key - back);
          values.push_back({{"token", to_json(window[at], subject.names())}, {"value", sources.positions[at].value()}});
        }
        examples.push_back({{"query", to_json(window[static_cast<std::size_t>(query)], subject.names())},
                            {"query_pos", query},
                            {"key_pos", key},
                            {"attention", attended},
                            {"by_tokens_back", values}});
      }
    }
  }
  return {{"head", head_node(layer, head)},
          {"queries", queries},
          {"attention", queries > 0 ? attention / static_cast<double>(queries) : 0.0},
          {"matching", matching.json()},
          {"others", others.json()},
          {"examples", examples}};
}

}  // namespace kirchhoff::reproduce
