#include "attribution_view.h"

#include <algorithm>  // for stable_sort
#include <cmath>      // for abs

#include "generated_text.h"
#include "text_width.h"

namespace kirchhoff::cli {
namespace {
Style sign_style(double value) { return value < 0.0 ? Style::negative : Style::positive; }
}  // namespace

Cell signed_value(double value) { return {fmt::format("{:+.3f}", value), sign_style(value)}; }

Cell signed_bar(double value, double largest) {
  return {bar(largest > 0.0 ? std::abs(value) / largest : 0.0, 20), sign_style(value)};
}

std::string totals_lines(const Terminal& terminal, const Attribution& attribution) {
  std::string text =
      fmt::format("{} = embed {:+.3f}", terminal.paint(Style::strong, fmt::format("{:+.4f}", attribution.sum)),
                  attribution.total(PartKind::embed));
  const auto add = [&](const char* name, PartKind kind) {
    if (std::any_of(attribution.parts.begin(), attribution.parts.end(), [&](const auto& p) { return p.kind == kind; }))
      text += fmt::format(", {} {:+.3f}", name, attribution.total(kind));
  };
  add("positions", PartKind::pos);
  add("heads", PartKind::head);
  add("MLPs", PartKind::mlp);
  add("biases", PartKind::bias);
  const bool closed = attribution.closure <= 1e-5;
  text = fmt::format("  {}\n  model's own {:+.4f}; closure {}\n", wrapped(text, terminal.columns() - 2, "    "),
                     attribution.own,
                     terminal.paint(closed ? Style::good : Style::error, fmt::format("{:.1e}", attribution.closure)));
  if (attribution.soft_capped) text += fmt::format("  after the logit soft-cap {:+.4f}\n", *attribution.soft_capped);
  return text;
}

std::vector<std::string> attribution_assumptions(const ModelConfig& config) {
  std::vector<std::string> lines;
  if (config.final_norm && config.norm != NormKind::none)
    lines.emplace_back("the final norm's scale is held at its value in this run");
  if (config.post_norm) lines.emplace_back("so are the scales of the norms behind the attentions");
  lines.emplace_back("direct effects only: what a part does through later layers is counted there");
  if (config.logit_softcap > 0.0) lines.emplace_back("the logit is taken before the soft-cap, which is not linear");
  return lines;
}

std::vector<AttributionPart> strongest_parts(const Attribution& attribution, PartKind kind, Index count) {
  std::vector<AttributionPart> parts;
  for (const AttributionPart& part : attribution.parts)
    if (part.kind == kind) parts.push_back(part);
  std::stable_sort(parts.begin(), parts.end(), [](const AttributionPart& a, const AttributionPart& b) {
    return std::abs(a.value) > std::abs(b.value);
  });
  if (static_cast<Index>(parts.size()) > count) parts.resize(static_cast<std::size_t>(count));
  return parts;
}

std::string next_head_line(const Session& session, const Subject& subject, const Attribution& attribution) {
  const auto heads = strongest_parts(attribution, PartKind::head, 1);
  if (heads.empty()) return next_line(session, "lens", subject);
  return next_line(session, "attn", subject, fmt::format("--head {}.{}", heads.front().layer, heads.front().head));
}

std::string note(const Terminal& terminal, const std::string& text) {
  return terminal.paint(Style::faint, fmt::format("· {}", wrapped(text, terminal.columns() - 2, "  "))).append("\n");
}

}  // namespace kirchhoff::cli
