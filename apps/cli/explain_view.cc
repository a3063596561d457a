#include "explain_view.h"

#include <algorithm>  // for max, min
#include <cmath>      // for abs

#include "attribution_view.h"
#include "generated_text.h"
#include "heat_grid.h"
#include "table.h"
#include "text_width.h"

namespace kirchhoff::cli {
namespace {

constexpr Index kIndent = 2;

/// What a block may take, where `beside` cells are for the one next to it; narrow screens have one block a row.
Index block_width(const Session& session, Index beside) {
  return session.out.columns() - kIndent - (wide(session.out) ? beside : 0);
}

/// The lines of a text that was wrapped.
std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(text.substr(begin, end - begin));
  lines.push_back(text.substr(begin));
  return lines;
}

/// The sources that a head reads most from, with their shares of all that it writes.
std::string sources_text(const Subject& subject, const HeadRead& read) {
  double total = 0.0;
  for (const SourceRead& source : read.sources) total += source.output_weighted;
  std::vector<std::string> texts;
  for (const Index i : read.strongest(3)) {
    const SourceRead& source = read.sources[static_cast<std::size_t>(i)];
    const double share = total > 0.0 ? source.output_weighted / total : 0.0;
    if (share < 0.05 && !texts.empty()) break;
    texts.push_back(fmt::format("{} {:.0f}%", clipped(subject.shown_at(source.pos), 16), 100.0 * share));
  }
  return fmt::format("{}", fmt::join(texts, "  "));
}

}  // namespace

bool wide(const Terminal& terminal) { return terminal.columns() >= 80; }

std::vector<std::string> token_lines(const Session& session, const Subject& subject) {
  constexpr Index kShownInFront = 24, kShownAtEnd = 40;
  std::string text;
  const Index n = subject.length();
  for (Index pos = 0; pos < n; ++pos) {
    if (n > kShownInFront + kShownAtEnd && pos == kShownInFront) {
      pos = n - kShownAtEnd;
      text += fmt::format(" … {} tokens …", pos - kShownInFront);
    }
    const TokenId id = subject.prompt.ids[static_cast<std::size_t>(pos)];
    const Style style = subject.names().special(id) ? Style::warning : Style::token;
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", session.out.paint(Style::faint, fmt::format("{}:", pos)),
                        session.out.paint(style, subject.shown(id)));
  }
  return split_lines(wrapped(text, session.out.columns() - kIndent, ""));
}

std::vector<std::string> top_lines(const Session& session, const Subject& subject, const std::vector<TokenScore>& top) {
  Table table({{"#", true}, {"token"}, {"logit", true}, {"prob", true}, {""}});
  for (std::size_t i = 0; i < top.size(); ++i)
    table.add({std::to_string(i + 1),
               {clipped(subject.shown(top[i].id), 14), Style::token},
               fmt::format("{:.3f}", top[i].logit),
               fmt::format("{:.1f}%", 100.0 * top[i].probability),
               {bar(top[i].probability, 8), Style::positive}});
  return table.lines(session.out, block_width(session, session.out.columns() / 2));
}

std::vector<std::string> sum_lines(const Session& session, const Attribution& attribution) {
  Table table({{"", false}, {"", true}, {""}});
  double largest = 0.0;
  const std::vector<std::pair<const char*, PartKind>> kinds = {{"embedding", PartKind::embed},
                                                               {"positions", PartKind::pos},
                                                               {"heads", PartKind::head},
                                                               {"MLPs", PartKind::mlp},
                                                               {"biases", PartKind::bias}};
  for (const auto& [name, kind] : kinds) largest = std::max(largest, std::abs(attribution.total(kind)));
  for (const auto& [name, kind] : kinds) {
    const double value = attribution.total(kind);
    if (value != 0.0) table.add({name, signed_value(value), signed_bar(value, 2.0 * largest)});
  }
  table.add({{"sum", Style::strong}, {fmt::format("{:+.3f}", attribution.sum), Style::strong}});
  const bool closed = attribution.closure <= 1e-5;
  table.add({attribution.soft_capped ? "before softcap" : "model's own",
             fmt::format("{:+.3f}", attribution.own),
             {fmt::format("closure {:.1e}", attribution.closure), closed ? Style::good : Style::error}});
  if (attribution.soft_capped) table.add({"after softcap", fmt::format("{:+.3f}", *attribution.soft_capped)});
  return table.lines(session.out, block_width(session, session.out.columns() / 2));
}

std::vector<std::string> lens_lines(const Session& session, const Subject& subject, const std::vector<LensRow>& rows) {
  constexpr Index kToken = 8, kWidth = kToken + 15, kTallest = 12;
  const Index available = session.out.columns() - kIndent;
  const Index blocks = std::clamp<Index>((available + 1) / (kWidth + 1), 1, 4);
  const Index total = static_cast<Index>(rows.size());
  const Index step = (total + blocks * kTallest - 1) / (blocks * kTallest);
  std::vector<Index> shown;
  for (Index i = total - 1; i >= 0; i -= step) shown.insert(shown.begin(), i);
  const Index height = (static_cast<Index>(shown.size()) + blocks - 1) / blocks;
  std::vector<std::string> lines(static_cast<std::size_t>(height));
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const LensRow& row = rows[static_cast<std::size_t>(shown[i])];
    const bool last = shown[i] + 1 == total;
    const std::string label = last ? "out" : row.label.substr(0, row.label.find('_'));
    const RankedToken& target = row.tokens.front();
    std::string& line = lines[i % static_cast<std::size_t>(height)];
    line += session.out.paint(Style::faint, padded(label, 3, true));
    line += fmt::format(
        " {}{}", session.out.paint(Style::token, padded(clipped(subject.shown(row.top.front().id), kToken), kToken)),
        padded(fmt::format("{:.0f}%", 100.0 * row.top.front().probability), 5, true));
    const std::string rank = padded(fmt::format("#{}", target.rank), 6, true);
    line += session.out.paint(target.rank == 1 ? Style::positive : Style::plain, rank);
    if (i + static_cast<std::size_t>(height) < shown.size()) line += " ";
  }
  return lines;
}

bool CausalEffects::disagrees(std::size_t i, double direct) const {
  double largest = 0.0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  const double most = std::max(std::abs(values[i]), std::abs(direct));
  return most > 0.1 * largest && std::abs(values[i] - direct) > 0.5 * most;
}

std::vector<std::string> head_lines(const Session& session, const Subject& subject,
                                    const std::vector<AttributionPart>& heads, const std::vector<HeadRead>& reads,
                                    const CausalEffects& causal) {
  Table table({{"head"}, {"share", true}, {"ablated", true}, {""}, {"reads most from"}});
  for (std::size_t i = 0; i < heads.size(); ++i)
    table.add({head_name(heads[i].layer, heads[i].head), signed_value(heads[i].value), signed_value(causal.values[i]),
               causal.disagrees(i, heads[i].value) ? "≠" : "", sources_text(subject, reads[i])});
  return table.lines(session.out, block_width(session, 20));
}

std::string disagreement_lines(const Session& session, const std::vector<AttributionPart>& heads,
                               const CausalEffects& causal) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < heads.size(); ++i)
    if (causal.disagrees(i, heads[i].value)) names.push_back(head_name(heads[i].layer, heads[i].head));
  if (names.empty()) return {};
  const std::string text =
      fmt::format("≠ {}: later parts pass on, or make up for, what the head writes", fmt::join(names, ", "));
  return fmt::format("  {}\n", wrapped(text, session.out.columns() - 4, "    "));
}

std::vector<std::string> mlp_lines(const Session& session, const std::vector<AttributionPart>& mlps) {
  if (mlps.empty()) return {};
  Table table({{"MLP"}, {"share", true}});
  for (const AttributionPart& mlp : mlps) table.add({mlp.node, signed_value(mlp.value)});
  return table.lines(session.out, 20);
}

std::vector<std::string> grid_lines(const Session& session, const ModelConfig& config, const Attribution& attribution) {
  constexpr Index kTallest = 16;
  const Index rows = config.n_heads + (config.attn_only ? 0 : 1);
  if (config.n_layers == 0 || rows > kTallest + 1) return {};
  std::vector<double> values(static_cast<std::size_t>(rows * config.n_layers), 0.0);
  HeatGrid grid;
  grid.full = 0.0;
  for (const AttributionPart& part : attribution.parts) {
    if (part.kind != PartKind::head && part.kind != PartKind::mlp) continue;
    const Index row = part.kind == PartKind::head ? part.head : config.n_heads;
    values[static_cast<std::size_t>(row * config.n_layers + part.layer)] = part.value;
    grid.full = std::max(grid.full, std::abs(part.value));
  }
  grid.values = {values.data(), {rows, config.n_layers}};
  for (Index head = 0; head < config.n_heads; ++head) grid.rows.push_back(fmt::format("h{}", head));
  if (!config.attn_only) grid.rows.emplace_back("MLP");
  for (Index layer = 0; layer < config.n_layers; ++layer) grid.columns.push_back(std::to_string(layer));
  return heat_grid_lines(session.out, grid, session.out.columns() - kIndent);
}

}  // namespace kirchhoff::cli
