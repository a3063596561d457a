#include "kirchhoff/observe/head_scores.h"

#include <algorithm>  // for find, max, swap, max_element
#include <numeric>    // for iota
#include <utility>    // for pair

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/base/random.h"
#include "kirchhoff/engine/sites.h"
#include "observe/copying.h"
#include "observe/one_sequence.h"

namespace kirchhoff {
namespace {

using observe::CopyingReader;

template <class T>
void shuffle(std::span<T> list, Random& random) {
  for (std::size_t i = list.size(); i > 1; --i)
    std::swap(list[i - 1], list[static_cast<std::size_t>(random.below(static_cast<Index>(i)))]);
}

void check_period(const PeriodicTokens& sequence) {
  const Index n = static_cast<Index>(sequence.tokens.size()), period = sequence.period, offset = sequence.offset;
  check(period >= 1 && offset >= 0, ErrorCode::usage, "a period of {} tokens behind {} others is none", period, offset);
  check(n >= offset + 2 * period, ErrorCode::usage,
        "{} tokens are fewer than {} and two blocks of {}: nothing repeats in whole", n, offset, period);
  for (Index i = offset + period; i < n; ++i) {
    const TokenId now = sequence.tokens[static_cast<std::size_t>(i)];
    const TokenId earlier = sequence.tokens[static_cast<std::size_t>(i - period)];
    check(now == earlier, ErrorCode::usage,
          "the tokens do not repeat with period {}: position {} has {}, position {} {}", period, i - period, earlier, i,
          now);
  }
}

/// One head's pattern over one sequence.
struct PatternReader {
  const float* pattern;  ///< [query, key]
  Index n;
  double at(Index query, Index key) const { return static_cast<double>(pattern[query * n + key]); }

  /// Mean of A[i, i - back] over i >= 1.
  double diagonal(Index back) const {
    double sum = 0.0;
    for (Index i = 1; i < n; ++i) sum += at(i, i - back);
    return n > 1 ? sum / static_cast<double>(n - 1) : 0.0;
  }
  double first_column() const {
    double sum = 0.0;
    for (Index i = 1; i < n; ++i) sum += at(i, 0);
    return n > 1 ? sum / static_cast<double>(n - 1) : 0.0;
  }
  /// Mean over queries behind the first block of the attention to i - k P + shift, summed over k >= 1.
  double stripes(const PeriodicTokens& sequence, Index shift) const {
    double sum = 0.0;
    const Index begin = sequence.offset + sequence.period;
    for (Index i = begin; i < n; ++i)
      for (Index copy = i - sequence.period; copy >= sequence.offset; copy -= sequence.period)
        // With a period of one token the token after the last copy is the query itself.
        sum += at(i, copy + shift);
    return sum / static_cast<double>(n - begin);
  }
};

/// Where a token stood before, by its identity alone.
class EarlierCopies {
 public:
  explicit EarlierCopies(std::span<const TokenId> tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::size_t before = copies_.size();
      for (std::size_t j = 0; j < i; ++j)
        if (tokens[j] == tokens[i]) copies_.emplace_back(static_cast<Index>(i), static_cast<Index>(j));
      queries_ += copies_.size() > before;
    }
  }
  bool none() const { return copies_.empty(); }
  /// Attention to copy + shift, summed for each query that has copies: its mean over these queries.
  double by_query(const PatternReader& pattern, Index shift) const {
    return sum(pattern, shift) / static_cast<double>(queries_);
  }
  /// Its mean over all pairs.
  double by_entry(const PatternReader& pattern, Index shift) const {
    return sum(pattern, shift) / static_cast<double>(copies_.size());
  }

 private:
  double sum(const PatternReader& pattern, Index shift) const {
    double total = 0.0;
    for (const auto& [query, copy] : copies_) total += pattern.at(query, copy + shift);
    return total;
  }
  std::vector<std::pair<Index, Index>> copies_;  ///< (query, earlier copy)
  Index queries_ = 0;
};

/// A score as it grows over the sequences.
struct Running {
  double sum = 0.0, null_sum = 0.0, null_high = -2.0;
  Index count = 0;
  void add(double value, double null) {
    sum += value;
    null_sum += null;
    null_high = std::max(null_high, null);
    ++count;
  }
  Score score() const {
    const auto n = static_cast<double>(std::max<Index>(1, count));
    return {sum / n, {null_sum / n, null_high}};
  }
};

struct HeadTotals {
  Running previous, current, first, induction, duplicate, prefix, copying, weighted, inhibition, entries, shuffled;
  Index skipped = 0;

  void add_copying(const observe::CopyingScore& score) {
    skipped += score.skipped;
    if (score.queries > 0) {
      copying.add(score.value, score.null);
      weighted.add(score.weighted, score.null);
    }
    if (score.lowering > 0) inhibition.add(score.inhibition, score.inhibition_null);
  }

  HeadScores scores(Index layer, Index head) const {
    HeadScores result;
    result.layer = layer;
    result.head = head;
    result.previous_token = previous.score();
    result.current_token = current.score();
    result.first_token = first.score();
    result.induction = induction.score();
    result.duplicate_token = duplicate.score();
    if (prefix.count > 0) result.prefix_matching = prefix.score();
    if (copying.count > 0) result.copying = copying.score();
    result.copying_skipped = skipped;
    if (weighted.count > 0) result.copying_weighted = weighted.score();
    if (inhibition.count > 0) result.inhibition = inhibition.score();
    if (shuffled.count > 0) result.previous_token_shuffled = shuffled.score().value;
    result.induction_per_entry = entries.score().value;
    return result;
  }
};

std::vector<HeadScores> scores_of(const std::vector<HeadTotals>& totals, Index heads) {
  std::vector<HeadScores> result;
  for (std::size_t i = 0; i < totals.size(); ++i)
    result.push_back(totals[i].scores(static_cast<Index>(i) / heads, static_cast<Index>(i) % heads));
  return result;
}

/// How many targets a query behind the first block has on average.
double stripe_entries(const PeriodicTokens& sequence) {
  const Index n = static_cast<Index>(sequence.tokens.size()), begin = sequence.offset + sequence.period;
  Index pairs = 0;
  for (Index i = begin; i < n; ++i) pairs += (i - sequence.offset) / sequence.period;
  return static_cast<double>(pairs) / static_cast<double>(n - begin);
}

/// Of an even spread over what a causal query sees, rows 1 .. n-1.
double even_attention(Index n) {
  double sum = 0.0;
  for (Index i = 1; i < n; ++i) sum += 1.0 / static_cast<double>(i + 1);
  return n > 1 ? sum / static_cast<double>(n - 1) : 0.0;
}

/// Tokens whose heads are scored.
struct ScoredSequence {
  const Tokens* tokens = nullptr;
  std::size_t front = 0;  ///< that many stay in their place in the shuffled twin
  Tokens block{};         ///< whose copying is read
};

/// Runs every sequence and its shuffled twin. What depends on how copies are known is `add_copies`' part: (index of the
/// sequence, copies by token identity, the head's pattern, that of the twin, its totals), called for heads in parallel.
template <class AddCopies>
std::vector<HeadScores> score_sequences(const Model& model, const std::vector<ScoredSequence>& sequences,
                                        const HeadScoreOptions& options, const AddCopies& add_copies) {
  const ModelConfig& config = model.config;
  const Index heads = config.n_heads, all = config.n_layers * heads;
  std::vector<HeadTotals> totals(static_cast<std::size_t>(all));
  const bool copying = options.copying && CopyingReader::defined(config);
  const std::optional<CopyingReader> reader = copying ? std::optional<CopyingReader>(model) : std::nullopt;
  Random random(options.seed);
  const RunOptions patterns{.capture = {"blocks.*.attn.hook_pattern"}, .logits = LogitPositions::none};
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    report(options.progress, "heads", static_cast<Index>(s), static_cast<Index>(sequences.size()));
    const Tokens& tokens = *sequences[s].tokens;
    Tokens shuffled = tokens;
    shuffle(std::span<TokenId>(shuffled).subspan(sequences[s].front), random);
    const Trace trace = run(model, tokens, patterns), null = run(model, shuffled, patterns);
    const Index n = static_cast<Index>(tokens.size());
    const double even = even_attention(n);
    const EarlierCopies copies(tokens);
    parallel_for(all, [&](Index i) {
      const auto read = [&](const Trace& of) {
        return PatternReader{of.at(site_name(Site::pattern, i / heads)).data() + i % heads * n * n, n};
      };
      const PatternReader own = read(trace), chance = read(null);
      HeadTotals& total = totals[static_cast<std::size_t>(i)];
      total.previous.add(own.diagonal(1), even);
      total.current.add(own.diagonal(0), even);
      total.first.add(own.first_column(), even);
      add_copies(s, copies, own, chance, total);
    });
    if (!reader) continue;
    const std::vector<observe::CopyingScore> scores = reader->score(sequences[s].block, random.bits());
    for (std::size_t i = 0; i < scores.size(); ++i) totals[i].add_copying(scores[i]);
  }
  return scores_of(totals, heads);
}

void check_causal(const ModelConfig& config) {
  check(config.causal, ErrorCode::unsupported,
        "head scores need a causal model: in this one queries see later tokens, and what repeats is no earlier copy");
}

}  // namespace

std::vector<PeriodicTokens> repeated_random_tokens(const ModelConfig& config, const RepeatOptions& options) {
  check(options.period >= 1 && options.repeats >= 2 && options.samples >= 1, ErrorCode::usage,
        "{} samples of {} blocks of {} tokens: at least one sample of two blocks of one token", options.samples,
        options.repeats, options.period);
  std::vector<TokenId> pool = options.allowed;
  if (pool.empty()) {
    pool.resize(static_cast<std::size_t>(config.d_vocab));
    std::iota(pool.begin(), pool.end(), TokenId{0});
  }
  if (options.bos) pool.erase(std::remove(pool.begin(), pool.end(), *options.bos), pool.end());
  check(!pool.empty(), ErrorCode::usage, "there is no token to draw from");
  Random random(options.seed);
  std::vector<PeriodicTokens> sequences;
  for (Index s = 0; s < options.samples; ++s) {
    PeriodicTokens sequence{{}, options.period, options.bos ? 1 : 0};
    if (options.bos) sequence.tokens.push_back(*options.bos);
    Tokens block;
    const auto period = static_cast<std::size_t>(options.period);
    while (block.size() < period) {
      const TokenId token = pool[static_cast<std::size_t>(random.below(static_cast<Index>(pool.size())))];
      if (pool.size() < period || std::find(block.begin(), block.end(), token) == block.end()) block.push_back(token);
    }
    for (Index r = 0; r < options.repeats; ++r)
      sequence.tokens.insert(sequence.tokens.end(), block.begin(), block.end());
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

std::vector<HeadScores> score_heads(const Model& model, std::span<const PeriodicTokens> sequences,
                                    const HeadScoreOptions& options) {
  check_causal(model.config);
  check(!sequences.empty(), ErrorCode::usage, "no sequence to score heads on");
  std::vector<ScoredSequence> scored;
  for (const PeriodicTokens& sequence : sequences) {
    check_period(sequence);
    const auto block = sequence.tokens.begin() + sequence.offset;
    scored.push_back(
        {&sequence.tokens, static_cast<std::size_t>(sequence.offset), Tokens(block, block + sequence.period)});
  }
  return score_sequences(model, scored, options,
                         [&sequences](std::size_t s, const EarlierCopies& copies, const PatternReader& own,
                                      const PatternReader& chance, HeadTotals& total) {
                           const PeriodicTokens& sequence = sequences[s];
                           total.induction.add(own.stripes(sequence, 1), chance.stripes(sequence, 1));
                           total.duplicate.add(own.stripes(sequence, 0), chance.stripes(sequence, 0));
                           total.entries.add(own.stripes(sequence, 1) / stripe_entries(sequence), 0.0);
                           // The null keeps the places of the matches and loses the tokens.
                           total.prefix.add(copies.by_query(own, 1), copies.by_query(chance, 1));
                         });
}

std::vector<HeadScores> score_heads_on_text(const Model& model, std::span<const Tokens> windows,
                                            std::optional<TokenId> bos, const HeadScoreOptions& options) {
  check_causal(model.config);
  check(!windows.empty(), ErrorCode::usage, "no window to score heads on");
  std::vector<ScoredSequence> scored;
  for (const Tokens& window : windows) {
    const std::size_t front = bos && !window.empty() && window.front() == *bos ? 1 : 0;
    scored.push_back({&window, front, Tokens(window.begin() + static_cast<std::ptrdiff_t>(front), window.end())});
  }
  return score_sequences(model, scored, options,
                         [](std::size_t, const EarlierCopies& copies, const PatternReader& own,
                            const PatternReader& chance, HeadTotals& total) {
                           total.shuffled.add(chance.diagonal(1), 0.0);
                           if (copies.none()) return;
                           const double induction = copies.by_query(own, 1), by_chance = copies.by_query(chance, 1);
                           total.induction.add(induction, by_chance);
                           total.prefix.add(induction, by_chance);
                           total.duplicate.add(copies.by_query(own, 0), copies.by_query(chance, 0));
                           total.entries.add(copies.by_entry(own, 1), 0.0);
                         });
}

}  // namespace kirchhoff
