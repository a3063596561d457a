#include "trigram_view.h"

#include <algorithm>  // for min, stable_sort

#include "attribution_view.h"
#include "table.h"

namespace kirchhoff::cli {
namespace {

constexpr Index kPatternPositions = 512, kDistances = 64, kShownDistances = 8;

std::string title(const Session& session, const std::string& text) {
  return fmt::format("\n{}\n", session.out.paint(Style::title, text));
}

/// "␣in +3.1, ␣mind +2.4".
std::string token_list(const WeightsSubject& subject, const std::vector<TrigramToken>& tokens, Index count) {
  std::string text;
  for (Index i = 0; i < count && i < static_cast<Index>(tokens.size()); ++i) {
    const TrigramToken& entry = tokens[static_cast<std::size_t>(i)];
    text +=
        fmt::format("{}{} {:+.1f}", i > 0 ? ", " : "", subject.shown(static_cast<TokenId>(entry.token)), entry.value);
  }
  return text;
}

std::string percent(Index part, Index all) {
  return all > 0 ? fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(all)) : "–";
}

}  // namespace

HeadPositions head_positions(const Model& model, const HeadChain& chain, std::optional<Index> length, bool raw) {
  const ModelConfig& config = model.config;
  HeadPositions result;
  const auto [layer, head] = chain.heads.back();
  if (chain.is_virtual()) {
    result.why_not = "the pattern of a virtual head is a product of two patterns";
  } else if (config.positions == Positions::none) {
    result.why_not = "the model has no positions";
  } else if (config.positions == Positions::learned || config.positions == Positions::shortformer) {
    PositionalPattern pattern =
        positional_pattern(model, layer, head, length.value_or(std::min(config.n_ctx, kPatternPositions)), raw);
    result = {
        .pattern = true, .by_distance = std::move(pattern.by_offset), .preferred = pattern.preferred, .why_not = {}};
  } else if (raw) {
    result.why_not = "scores by distance are those of folded weights: without '--raw'";
  } else {
    DistanceCurve curve = score_by_distance(model, layer, head, length.value_or(kDistances));
    result = {.pattern = false, .by_distance = std::move(curve.score), .preferred = curve.preferred, .why_not = {}};
  }
  return result;
}

Json to_json(const HeadPositions& positions) {
  if (!positions.why_not.empty()) return nullptr;
  return {{"kind", positions.pattern ? "pattern" : "score"},
          {"by_distance", positions.by_distance},
          {"preferred", positions.preferred}};
}

std::string preference(const HeadPositions& positions) {
  if (!positions.why_not.empty()) return "–";
  const double value = positions.by_distance[static_cast<std::size_t>(positions.preferred)];
  return positions.pattern ? fmt::format("{} back, {:.2f}", positions.preferred, value)
                           : fmt::format("{} back, {:+.2f}", positions.preferred, value);
}

std::string source_sections(const Session& session, const WeightsSubject& subject, const HeadTrigrams& head,
                            const TokenLikeness* likeness) {
  const SourceTrigrams& source = head.sources.front();
  const auto list = [&](const std::string& heading, const std::vector<TrigramToken>& tokens, bool outs) {
    std::vector<Column> columns = {{heading}, {"", true}, {"sd", true}};
    if (outs && likeness != nullptr) columns.push_back({"copy"});
    Table table(columns);
    for (const TrigramToken& entry : tokens) {
      std::vector<Cell> row = {{subject.shown(static_cast<TokenId>(entry.token)), Style::token},
                               signed_value(static_cast<double>(entry.value)),
                               fmt::format("{:+.1f}", entry.deviation)};
      if (outs && likeness != nullptr) row.emplace_back(kirchhoff::name(likeness->of(source.source, entry.token)));
      table.add(std::move(row));
    }
    return table.lines(session.out, 48);
  };
  return title(session, fmt::format("{} … [destination] → [out] in {}",
                                    subject.shown(static_cast<TokenId>(source.source)), name(head.chain))) +
         flowing({list("destination: attends", source.destinations, false), list("out: raised", source.outs, true)}, 3,
                 session.out.columns());
}

std::string ranked_sources(const Session& session, const WeightsSubject& subject, const HeadTrigrams& head,
                           Index tokens) {
  Table table({{"source"}, {"strength", true}, {"attended to from"}, {"raises"}});
  for (const SourceTrigrams& source : head.sources)
    table.add({{subject.shown(static_cast<TokenId>(source.source)), Style::token},
               fmt::format("{:.1f} sd", source.strength),
               token_list(subject, source.destinations, tokens),
               token_list(subject, source.outs, tokens)});
  return title(session, fmt::format("Skip-trigrams of {}, the strongest sources", name(head.chain))) +
         table.render(session.out);
}

std::string bug_list(const Session& session, const WeightsSubject& subject, const HeadTrigrams& head) {
  const auto shown = [&](const TrigramToken& entry) { return subject.shown(static_cast<TokenId>(entry.token)); };
  Table table({{"source"}, {"believed"}, {"raised as well"}, {"contrast", true}, {"strength", true}});
  for (const TrigramBug& bug : head.bugs) {
    const auto pair = [&](int b, int c) {
      return fmt::format("{} → {}", shown(bug.destination[b]), shown(bug.out[c]));
    };
    table.add({{subject.shown(static_cast<TokenId>(bug.source)), Style::token},
               fmt::format("{}, {}", pair(0, 0), pair(1, 1)),
               fmt::format("{}, {}", pair(0, 1), pair(1, 0)),
               fmt::format("{:.1f}", bug.contrast),
               fmt::format("{:.1f} sd", bug.strength)});
  }
  return title(session, "Skip-trigram bugs: pairs that the head cannot tell apart") +
         (table.empty() ? std::string("  none: no source has two destinations and two outs so far out\n")
                        : table.render(session.out));
}

std::string copying_lines(const Session& session, const WeightsSubject& subject, const HeadTrigrams& head) {
  std::string text = title(session, "Copying");
  if (head.copying) {
    const CopyingCounts& c = *head.copying;
    text += fmt::format(
        "  largest out of {} sources: the source itself {}, a variant (space, case) {}, a similar token {}\n",
        c.sources, percent(c.same, c.sources), percent(c.variant, c.sources), percent(c.similar, c.sources));
  }
  if (!head.splits) return text;
  const SplitCopying& splits = *head.splits;
  text += fmt::format(
      "  tokens that split, [ab] … [a] → [b]: {} spellings; both entries beyond 1 sd {:.1f} %, by chance {:.1f} %\n",
      splits.tokens, 100.0 * splits.far_out, 100.0 * splits.chance);
  Table table({{"source"}, {"destination → out"}, {"attention", true}, {"output", true}, {"strength", true}});
  for (const SplitCopy& copy : splits.strongest)
    table.add({{subject.shown(static_cast<TokenId>(copy.token.whole)), Style::token},
               fmt::format("{} → {}", subject.shown(static_cast<TokenId>(copy.token.first)),
                           subject.shown(static_cast<TokenId>(copy.token.second))),
               signed_value(static_cast<double>(copy.destination.value)),
               signed_value(static_cast<double>(copy.out.value)),
               fmt::format("{:.1f} sd", copy.strength)});
  return text + (table.empty() ? std::string() : table.render(session.out));
}

std::string position_lines(const Session& session, const HeadTrigrams& head) {
  const HeadPositions& p = head.positions;
  if (!p.why_not.empty())
    return title(session, "Positions") + note(session.out, fmt::format("not defined here: {}", p.why_not));
  std::vector<Column> columns = {{p.pattern ? "attention by offset" : "score by distance"}};
  std::vector<Cell> row = {p.pattern ? "mean of the subdiagonal" : "mean over all token pairs"};
  const Index shown = std::min(kShownDistances, static_cast<Index>(p.by_distance.size()));
  for (Index d = 0; d < shown; ++d) {
    columns.push_back({std::to_string(d), true});
    const double value = p.by_distance[static_cast<std::size_t>(d)];
    row.emplace_back(p.pattern ? fmt::format("{:.3f}", value) : fmt::format("{:+.2f}", value));
  }
  Table table(columns);
  table.add(std::move(row));
  return title(session, fmt::format("Positions alone: prefers {}", preference(p))) + table.render(session.out);
}

std::string head_table(const Session& session, const WeightsSubject& subject, const std::vector<HeadTrigrams>& heads) {
  Table table({{"head"}, {"copies", true}, {"like", true}, {"position"}, {"strongest source"}, {"from"}, {"raises"}});
  for (const HeadTrigrams& head : heads) {
    const SourceTrigrams& best = head.sources.front();
    const CopyingCounts counts = head.copying.value_or(CopyingCounts{});
    table.add({name(head.chain),
               percent(counts.same, counts.sources),
               percent(counts.variant + counts.similar, counts.sources),
               preference(head.positions),
               {subject.shown(static_cast<TokenId>(best.source)), Style::token},
               token_list(subject, best.destinations, 2),
               token_list(subject, best.outs, 2)});
  }
  return title(session, "Skip-trigrams, head by head") + table.render(session.out) +
         note(session.out, "copies, like: sources whose largest out is the source itself, a variant or similar token");
}

std::string bigram_lines(const Session& session, const WeightsSubject& subject, const BigramComparison& comparison,
                         Index least_count, Index count) {
  Table summary({{"rank correlation with the text"}, {"direct path", true}, {"unigrams", true}});
  summary.add({"each source's row over all outputs, weighted by count", fmt::format("{:+.3f}", comparison.correlation),
               fmt::format("{:+.3f}", comparison.unigram_correlation)});
  summary.add({"all bigrams that occur, ln p", fmt::format("{:+.3f}", comparison.seen_correlation),
               fmt::format("{:+.3f}", comparison.seen_unigram_correlation)});
  summary.add(
      {"loss, nats a bigram", fmt::format("{:.3f}", comparison.loss), fmt::format("{:.3f}", comparison.unigram_loss)});
  std::vector<BigramSource> worst;
  for (const BigramSource& source : comparison.sources)
    if (source.count >= least_count && source.correlation) worst.push_back(source);
  std::stable_sort(worst.begin(), worst.end(),
                   [](const BigramSource& a, const BigramSource& b) { return *a.correlation < *b.correlation; });
  const auto list = [&](const std::vector<Index>& tokens) {
    std::string text;
    for (std::size_t i = 0; i < tokens.size() && i < 3; ++i)
      text += (i > 0 ? " " : "") + subject.shown(static_cast<TokenId>(tokens[i]));
    return text;
  };
  Table table({{"source"}, {"count", true}, {"corr", true}, {"loss", true}, {"follows in the text"}, {"direct path"}});
  for (std::size_t i = 0; i < worst.size() && i < static_cast<std::size_t>(count); ++i)
    table.add({{subject.shown(static_cast<TokenId>(worst[i].source)), Style::token},
               std::to_string(worst[i].count),
               signed_value(*worst[i].correlation),
               fmt::format("{:.2f}", worst[i].loss),
               list(worst[i].in_text),
               list(worst[i].in_path)});
  return title(session, fmt::format("The direct path and {} bigrams", comparison.pairs)) + summary.render(session.out) +
         fmt::format("  the text's own entropy behind a token: {:.3f} nats\n", comparison.entropy) +
         title(session,
               fmt::format("Least alike, of {} sources that occur {} times or more", worst.size(), least_count)) +
         table.render(session.out);
}

}  // namespace kirchhoff::cli
