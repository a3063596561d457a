#include "kirchhoff/study/induction_story.h"

#include <fmt/format.h>

#include <algorithm>  // for any_of, find, max, max_element, min, stable_sort
#include <utility>    // for pair

#include "kirchhoff/base/random.h"
#include "kirchhoff/engine/kv_cache.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/observe/attention.h"
#include "kirchhoff/observe/key_writers.h"
#include "kirchhoff/observe/ov_logits.h"

namespace kirchhoff {
namespace {

constexpr Index kLongestPatterns = 1024;  // tokens of a prompt of which whole patterns are looked at
constexpr Index kOtherKeys = 16;
constexpr Index kCopyingRank = 3;  // in vocabularies of which a hundredth is less

/// The last position's attention in every head: [layer n_heads + head][key position].
using LastRows = std::vector<std::vector<double>>;

/// Reads what of `tokens` the cache does not hold yet, with whole patterns of no token but the last.
LastRows read_last_rows(const Model& model, const Tokens& tokens, KvCache& cache) {
  const Tokens front(tokens.begin() + cache.length(), tokens.end() - 1);
  if (!front.empty()) run(model, front, {.logits = LogitPositions::none, .cache = &cache});
  const Trace trace = run(model, Tokens{tokens.back()},
                          {.capture = {"blocks.*.attn.hook_pattern"}, .logits = LogitPositions::none, .cache = &cache});
  LastRows rows;
  for (Index layer = 0; layer < model.config.n_layers; ++layer) {
    const Tensor& pattern = trace.at(site_name(Site::pattern, layer));  // [1, head, 1, key]
    const Index keys = pattern.dim(3);
    for (Index head = 0; head < model.config.n_heads; ++head)
      rows.emplace_back(pattern.data() + head * keys, pattern.data() + (head + 1) * keys);
  }
  return rows;
}

double attention_to(const std::vector<double>& row, const std::vector<Index>& keys) {
  double sum = 0.0;
  for (const Index key : keys) sum += row[static_cast<std::size_t>(key)];
  return sum;
}

/// The tokens with others, that the prompt does not have, in the place of the copies.
Tokens without_copies(Tokens tokens, const std::vector<Index>& copies, const std::vector<TokenId>& pool, Index d_vocab,
                      Random& random) {
  const Tokens own = tokens;
  const auto draw = [&] {
    return pool.empty() ? static_cast<TokenId>(random.below(d_vocab))
                        : pool[static_cast<std::size_t>(random.below(static_cast<Index>(pool.size())))];
  };
  for (const Index copy : copies) {
    TokenId token = draw();
    for (int attempt = 0; attempt < 100 && std::find(own.begin(), own.end(), token) != own.end(); ++attempt)
      token = draw();
    tokens[static_cast<std::size_t>(copy)] = token;
  }
  return tokens;
}

/// Null scores as they come.
struct NullScores {
  double sum = 0.0, high = 0.0;
  Index count = 0;
  void add(double x) {
    high = count == 0 ? x : std::max(high, x);
    sum += x;
    ++count;
  }
  ScoreNull null() const { return {count > 0 ? sum / static_cast<double>(count) : 0.0, high}; }
};

class StoryTeller {
 public:
  StoryTeller(const Model& model, const RerunBase& base, const InductionOptions& options)
      : model_(model),
        config_(model.config),
        base_(base),
        tokens_(base.tokens().front()),
        options_(options),
        cache_(model.config) {
    story_.query_pos = static_cast<Index>(tokens_.size()) - 1;
    story_.samples = options.samples;
    story_.resampled = !options.ablation.source.empty() && !options.ablation.mean;
    // Two equal tokens at the end: what followed the first is the query itself, and attention to it says nothing.
    for (Index p = 0; p + 1 < story_.query_pos; ++p)
      if (tokens_[static_cast<std::size_t>(p)] == tokens_.back()) {
        story_.copies.push_back(p);
        targets_.push_back(p + 1);
      }
  }

  InductionFinding tell() {
    if (targets_.empty()) return {{}, "the last token has not appeared before"};
    report(options_.progress, "induction", 0, 3);
    std::vector<InductionHead> heads = matching_heads();
    if (heads.empty())
      return {{},
              fmt::format("no head attends to what followed the earlier copy with {} or more because of the copy",
                          kInductionAttention)};
    story_.matching = static_cast<Index>(heads.size());
    record(heads);
    report(options_.progress, "induction", 1, 3);
    for (InductionHead& head : heads) {
      tell_copying(head);
      tell_key(head);
    }
    name_writers(heads);
    report(options_.progress, "induction", 2, 3);
    std::vector<std::pair<std::pair<int, double>, std::size_t>> order;
    for (std::size_t i = 0; i < heads.size(); ++i) {
      const double cost = tell_cost(heads[i], heads);
      const InductionHead& head = heads[i];
      if (head.copying || head.cost)
        order.push_back({{head.key.has_value() + head.copying.has_value() + head.cost.has_value(), cost}, i});
    }
    std::stable_sort(order.begin(), order.end(), [](const auto& x, const auto& y) { return x.first > y.first; });
    order.resize(std::min(order.size(), static_cast<std::size_t>(options_.heads)));
    for (const auto& [place, i] : order) story_.heads.push_back(std::move(heads[i]));
    report(options_.progress, "induction", 3, 3);
    if (story_.heads.empty())
      return {
          {},
          fmt::format("{} to what followed the earlier copy because of it, and nothing says that this does anything "
                      "to the prediction: no copying, no cost of ablation",
                      story_.matching == 1 ? "1 head attends" : fmt::format("{} heads attend", story_.matching))};
    return {std::move(story_), {}};
  }

 private:
  /// The heads whose attention to the targets is there because of the copies, layer by layer.
  std::vector<InductionHead> matching_heads() {
    const LastRows own = read_last_rows(model_, tokens_, cache_);
    std::vector<double> attention;
    for (const std::vector<double>& row : own) attention.push_back(attention_to(row, targets_));
    if (*std::max_element(attention.begin(), attention.end()) < kInductionAttention) return {};
    std::vector<NullScores> nulls(own.size());
    Random random(options_.seed);
    for (Index sample = 0; sample < options_.samples; ++sample) {
      cache_.truncate(story_.copies.front());
      const LastRows rows = read_last_rows(
          model_, without_copies(tokens_, story_.copies, options_.allowed, config_.d_vocab, random), cache_);
      for (std::size_t i = 0; i < rows.size(); ++i) nulls[i].add(attention_to(rows[i], targets_));
    }
    std::vector<InductionHead> heads;
    for (std::size_t i = 0; i < own.size(); ++i) {
      const ScoreNull null = nulls[i].null();
      if (attention[i] < kInductionAttention || attention[i] < kInductionOverNull * null.high) continue;
      InductionHead head;
      head.layer = static_cast<Index>(i) / config_.n_heads;
      head.head = static_cast<Index>(i) % config_.n_heads;
      head.attention = attention[i];
      head.null = null;
      head.key_pos = *std::max_element(targets_.begin(), targets_.end(), [&](Index a, Index b) {
        return own[i][static_cast<std::size_t>(a)] < own[i][static_cast<std::size_t>(b)];
      });
      head.key_attention = own[i][static_cast<std::size_t>(head.key_pos)];
      heads.push_back(std::move(head));
    }
    return heads;
  }

  /// One run with what the clauses read.
  void record(const std::vector<InductionHead>& heads) {
    std::vector<std::string> sites;
    const auto add = [&sites](const std::vector<std::string>& more) {
      for (const std::string& site : more)
        if (std::find(sites.begin(), sites.end(), site) == sites.end()) sites.push_back(site);
    };
    for (const InductionHead& head : heads) {
      add(ov_logit_sites(config_, head.layer));
      add(key_writer_sites(config_, head.layer));
    }
    trace_ = run(model_, tokens_, {.capture = sites, .logits = LogitPositions::none});
  }

  TokenId token_at(Index pos) const { return tokens_[static_cast<std::size_t>(pos)]; }

  void tell_copying(InductionHead& head) {
    const TokenId token = token_at(head.key_pos);
    if (token >= config_.d_vocab_out) {
      head.untold.push_back({"copying", "the model predicts other tokens than it reads"});
      return;
    }
    const std::vector<double> logits =
        ov_logits(model_, trace_, {head.layer, head.head, story_.query_pos, head.key_pos});
    InductionCopying copying;
    const double own = logits[static_cast<std::size_t>(token)];
    copying.value = head.key_attention * own;
    copying.rank = 1;
    for (const double logit : logits) copying.rank += logit > own;
    NullScores null;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const auto first = std::find(tokens_.begin(), tokens_.end(), tokens_[i]);
      if (tokens_[i] == token || first != tokens_.begin() + static_cast<std::ptrdiff_t>(i) ||
          tokens_[i] >= config_.d_vocab_out)
        continue;
      null.add(head.key_attention * logits[static_cast<std::size_t>(tokens_[i])]);
    }
    copying.null = null.null();
    const Index highest = std::max(kCopyingRank, config_.d_vocab_out / 100);
    if (copying.value > std::max(0.0, copying.null.high) && copying.rank <= highest)
      head.copying = copying;
    else
      head.untold.push_back(
          {"copying", fmt::format("its direct effect on the token at the key is {:+.2f}, rank {} of {}; "
                                  "on another token of the prompt {:+.2f}",
                                  copying.value, copying.rank, logits.size(), copying.null.high)});
  }

  void tell_key(InductionHead& head) {
    if (head.layer == 0) return head.untold.push_back({"key", "it is in the first layer: no head has written before"});
    std::vector<Index> keys = {head.key_pos};
    const std::vector<Index> others = other_keys();
    keys.insert(keys.end(), others.begin(), others.end());
    const KeyWriters written = key_writers(model_, trace_, head.layer, head.head, story_.query_pos, keys);
    InductionKey key;
    key.others = static_cast<Index>(others.size());
    const auto lead_of = [&](auto&& value_at) {
      double lead = value_at(std::size_t{0});
      for (std::size_t k = 1; k < keys.size(); ++k) lead -= value_at(k) / static_cast<double>(others.size());
      return lead;
    };
    key.lead = lead_of([&](std::size_t k) { return written.scores[k]; });
    if (others.empty() || key.lead <= 0.0)
      return head.untold.push_back({"key", "the key's score does not lead those of other keys"});

    NullScores elsewhere;
    const std::vector<double> reads = read_before(head.key_pos);
    std::optional<Index> best;
    for (Index i = 0; i < head.layer * config_.n_heads; ++i) {
      const double value = lead_of([&](std::size_t k) { return written.heads[k][static_cast<std::size_t>(i)]; });
      if (reads[static_cast<std::size_t>(i)] < kRoleScore) {
        elsewhere.add(value / key.lead);
      } else if (!best || value > key.value) {
        best = i;
        key.value = value;
      }
    }
    key.null = elsewhere.null();
    if (!best) return head.untold.push_back({"key", "no earlier head attends from the key to the copy before it"});
    key.layer = *best / config_.n_heads;
    key.head = *best % config_.n_heads;
    key.share = key.value / key.lead;
    key.attention = reads[static_cast<std::size_t>(*best)];
    if (key.share >= kInductionKeyShare && key.share > key.null.high)
      head.key = key;
    else
      head.untold.push_back(
          {"key",
           fmt::format("of the heads that read the copy, {}.{} wrote most of the key's lead: {:.0f} %; a head that "
                       "reads elsewhere wrote {:.0f} %",
                       key.layer, key.head, 100.0 * key.share, 100.0 * key.null.high)});
  }

  /// Every head's attention from a position to the one before it.
  std::vector<double> read_before(Index pos) {
    cache_.truncate(std::min(cache_.length(), pos));
    std::vector<double> attention;
    for (const std::vector<double>& row :
         read_last_rows(model_, Tokens(tokens_.begin(), tokens_.begin() + pos + 1), cache_))
      attention.push_back(row[static_cast<std::size_t>(pos - 1)]);
    return attention;
  }

  /// How much the keys' writers are previous-token heads on this prompt, where it is not too long.
  void name_writers(std::vector<InductionHead>& heads) const {
    std::vector<std::string> sites;
    for (const InductionHead& head : heads)
      if (head.key) sites.push_back(site_name(Site::pattern, head.key->layer));
    if (sites.empty() || static_cast<Index>(tokens_.size()) > kLongestPatterns) return;
    const Trace trace = run(model_, tokens_, {.capture = sites, .logits = LogitPositions::none});
    double even = 0.0;
    for (Index i = 1; i <= story_.query_pos; ++i) even += 1.0 / static_cast<double>((i + 1) * story_.query_pos);
    for (InductionHead& head : heads) {
      if (!head.key) continue;
      const ConstMatrix pattern =
          trace.at(site_name(Site::pattern, head.key->layer)).view<4>().at(0).at(head.key->head);
      head.key->previous_token = Score{head_habits(pattern, tokens_).previous, {even, even}};
    }
  }

  /// Keys that the query sees and that follow no copy: at most kOtherKeys, evenly spaced.
  std::vector<Index> other_keys() const {
    std::vector<Index> all;
    for (Index key = 0; key <= story_.query_pos; ++key)
      if (std::find(targets_.begin(), targets_.end(), key) == targets_.end()) all.push_back(key);
    const Index n = static_cast<Index>(all.size()), count = std::min(n, kOtherKeys);
    std::vector<Index> chosen;
    for (Index i = 0; i < count; ++i)
      chosen.push_back(all[static_cast<std::size_t>(count > 1 ? i * (n - 1) / (count - 1) : 0)]);
    return chosen;
  }
  /// Returns the cost in logits.
  double tell_cost(InductionHead& head, const std::vector<InductionHead>& matching) {
    const TokenId token = token_at(head.key_pos);
    if (token >= config_.d_vocab_out) return 0.0;  // said of copying
    std::vector<std::pair<Index, Index>> ablated = {{head.layer, head.head}};
    for (Index other = 0; other < config_.n_heads; ++other)
      if (std::none_of(matching.begin(), matching.end(),
                       [&](const InductionHead& has) { return has.layer == head.layer && has.head == other; }))
        ablated.emplace_back(head.layer, other);
    const HeadAblation ablation =
        options_.ablation.source.empty() ? HeadAblation{.source = base_.trace()} : options_.ablation;
    const std::span<const float> own(base_.trace().logits.values());
    const PatchMetric logit{.target = token};
    const PatchMetric nats{.target = token, .kind = PatchMetric::Kind::log_probability};
    const std::vector<double> logits = ablate_heads(model_, base_, ablated, logit, ablation);
    NullScores others;
    for (std::size_t i = 1; i < logits.size(); ++i) others.add(logit.of_row(own) - logits[i]);
    const InductionCost cost{
        logit.of_row(own) - logits.front(),
        nats.of_row(own) - ablate_heads(model_, base_, std::span(ablated).first(1), nats, ablation).front(),
        others.null()};
    if (cost.logit >= kInductionCost && cost.logit > cost.null.high)
      head.cost = cost;
    else
      head.untold.push_back(
          {"ablation", fmt::format("ablating it costs {:+.2f} logits of the token at the key, another "
                                   "head of its layer {:+.2f}",
                                   cost.logit, cost.null.high)});
    return cost.logit;
  }

  const Model& model_;
  const ModelConfig& config_;
  const RerunBase& base_;
  const Tokens& tokens_;
  const InductionOptions& options_;
  InductionStory story_;
  std::vector<Index> targets_;
  Trace trace_;
  KvCache cache_;  ///< of the prompt's first tokens
};

Json score_null_json(const ScoreNull& null) { return {{"mean", null.mean}, {"high", null.high}}; }

Json key_json(const InductionKey& key) {
  return {{"evidence", name(Evidence::attributional)},
          {"head", fmt::format("a{}.h{}", key.layer, key.head)},
          {"attention", key.attention},
          {"previous_token", key.previous_token ? Json{{"score", key.previous_token->value},
                                                       {"null", score_null_json(key.previous_token->null)}}
                                                : Json()},
          {"lead", key.lead},
          {"others", key.others},
          {"value", key.value},
          {"share", key.share},
          {"null", score_null_json(key.null)}};
}

Json head_json(const InductionHead& head) {
  Json result = {{"head", fmt::format("a{}.h{}", head.layer, head.head)},
                 {"key_pos", head.key_pos},
                 {"key_attention", head.key_attention}};
  result["pattern"] = {
      {"evidence", name(Evidence::observational)}, {"attention", head.attention}, {"null", score_null_json(head.null)}};
  result["key"] = head.key ? key_json(*head.key) : Json();
  result["copying"] = head.copying ? Json{{"evidence", name(Evidence::attributional)},
                                          {"value", head.copying->value},
                                          {"rank", head.copying->rank},
                                          {"null", score_null_json(head.copying->null)}}
                                   : Json();
  result["ablation"] = head.cost ? Json{{"evidence", name(Evidence::causal)},
                                        {"logit", head.cost->logit},
                                        {"nats", head.cost->nats},
                                        {"null", score_null_json(head.cost->null)}}
                                 : Json();
  result["untold"] = Json::array();
  for (const UntoldClause& clause : head.untold)
    result["untold"].push_back({{"clause", clause.clause}, {"why", clause.why}});
  return result;
}

}  // namespace

InductionFinding find_induction(const Model& model, const RerunBase& base, const InductionOptions& options) {
  check(base.tokens().size() == 1, ErrorCode::usage, "induction is told of one sequence, the run has {}",
        base.tokens().size());
  check(options.heads >= 1 && options.samples >= 1, ErrorCode::usage,
        "{} heads to tell, {} samples: at least one of each", options.heads, options.samples);
  if (!model.config.causal) return {{}, "queries of this model see later tokens: what repeats is no earlier copy"};
  return StoryTeller(model, base, options).tell();
}

Json to_json(const InductionStory& story) {
  Json result = {{"query", story.query_pos},
                 {"copies", story.copies},
                 {"matching", story.matching},
                 {"samples", story.samples},
                 {"ablation", story.resampled ? "resample" : "mean"}};
  result["heads"] = Json::array();
  for (const InductionHead& head : story.heads) result["heads"].push_back(head_json(head));
  return result;
}

}  // namespace kirchhoff
