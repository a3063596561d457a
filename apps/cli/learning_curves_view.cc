#include "learning_curves_view.h"

#include <fmt/format.h>

#include <algorithm>   // for any_of, max, min
#include <functional>  // for function
#include <set>         // for set

#include "attribution_view.h"
#include "table.h"
#include "text_plot.h"
#include "units.h"

namespace kirchhoff::cli {
namespace {

using train::HeadEvaluation;
using train::HistoryRecord;

double x_of(Index step, Index tokens, const CurvesView& view) {
  return static_cast<double>(view.tokens ? tokens : step);
}

/// What some points have, as a curve.
ShownCurve curve_of(std::string name, const RunGroup& group, const CurvesView& view,
                    const std::function<std::optional<Spread>(const CurvePoint&)>& value) {
  ShownCurve curve{.name = std::move(name), .x = {}, .mean = {}, .low = {}, .high = {}};
  for (const CurvePoint& point : group.points) {
    const std::optional<Spread> spread = value(point);
    if (!spread) continue;
    curve.x.push_back(x_of(point.step, point.tokens, view));
    curve.mean.push_back(spread->mean);
    curve.low.push_back(spread->low);
    curve.high.push_back(spread->high);
  }
  return curve;
}

/// What training tries to lower: of tasks the loss of the scored tokens alone, for the others are random.
const std::optional<Spread>& held_out_loss(const CurvePoint& point) {
  return point.task_loss ? point.task_loss : point.held_out;
}

/// "attn-2l: held-out" where there are several groups.
std::string named(const RunGroup& group, bool several, const std::string& what) {
  if (!several) return what;
  return what.empty() ? group.name : fmt::format("{}: {}", group.name, what);
}

Index layers_of(const RunGroup& group) {
  std::size_t layers = 0;
  for (const CurvePoint& point : group.points) layers = std::max(layers, point.prefix_matching.size());
  return static_cast<Index>(layers);
}

using LayerScores = std::vector<Spread> CurvePoint::*;
using HeadScore = double HeadEvaluation::*;

ShownCurve best_of_layer(std::string name, const RunGroup& group, const CurvesView& view, LayerScores scores,
                         Index layer) {
  return curve_of(std::move(name), group, view, [&](const CurvePoint& point) -> std::optional<Spread> {
    const std::vector<Spread>& layers = point.*scores;
    const auto at = static_cast<std::size_t>(layer);
    return at < layers.size() ? std::optional(layers[at]) : std::nullopt;
  });
}

/// Heads of a run that reach the bound at some step, by layer and head.
std::set<std::pair<Index, Index>> heads_above(const TrainingRun& run, HeadScore score, double bound) {
  std::set<std::pair<Index, Index>> heads;
  for (const HistoryRecord& record : run.history.records)
    if (record.evaluation)
      for (const HeadEvaluation& head : record.evaluation->heads)
        if (head.*score >= bound) heads.emplace(head.layer, head.head);
  return heads;
}

ShownCurve curve_of_head(const TrainingRun& run, Index layer, Index head, HeadScore score, const CurvesView& view) {
  ShownCurve curve{.name = head_name(layer, head), .x = {}, .mean = {}, .low = {}, .high = {}};
  for (const HistoryRecord& record : run.history.records) {
    if (!record.evaluation) continue;
    for (const HeadEvaluation& one : record.evaluation->heads) {
      if (one.layer != layer || one.head != head) continue;
      curve.x.push_back(x_of(record.step, record.tokens, view));
      curve.mean.push_back(one.*score);
    }
  }
  curve.low = curve.high = curve.mean;
  return curve;
}

/// Of one run the heads that reach the bound, and the best of each layer that has none; of several runs the best of
/// each layer, since another head may be it in each.
ShownPanel heads_panel(std::string title, std::span<const RunGroup> groups, const CurvesView& view, LayerScores layers,
                       HeadScore score) {
  ShownPanel panel{.title = std::move(title), .curves = {}};
  const bool several = groups.size() > 1;
  for (const RunGroup& group : groups) {
    std::set<Index> shown;
    if (!several && group.runs.size() == 1)
      for (const auto& [layer, head] : heads_above(*group.runs.front(), score, view.bound)) {
        panel.curves.push_back(curve_of_head(*group.runs.front(), layer, head, score, view));
        shown.insert(layer);
      }
    for (Index layer = 0; layer < layers_of(group); ++layer)
      if (!shown.contains(layer))
        panel.curves.push_back(
            best_of_layer(named(group, several, fmt::format("best of layer {}", layer)), group, view, layers, layer));
  }
  return panel;
}

void keep_drawable(std::vector<ShownPanel>& panels) {
  for (ShownPanel& panel : panels) std::erase_if(panel.curves, [](const ShownCurve& curve) { return curve.x.empty(); });
  std::erase_if(panels, [](const ShownPanel& panel) { return panel.curves.empty(); });
}

/// The stretches of all runs' phase changes: of each group from the first to begin to the last to end.
std::vector<std::pair<double, double>> phase_stretches(std::span<const RunGroup> groups, const CurvesView& view) {
  std::vector<std::pair<double, double>> stretches;
  for (const RunGroup& group : groups) {
    std::optional<std::pair<double, double>> whole;
    for (const TrainingRun* run : group.runs) {
      const auto change = find_phase_change(run->history).change;
      if (!change) continue;
      const double from = x_of(change->from_step, change->from_tokens, view),
                   to = x_of(change->to_step, change->to_tokens, view);
      whole = whole ? std::pair{std::min(whole->first, from), std::max(whole->second, to)} : std::pair{from, to};
    }
    if (whole) stretches.push_back(*whole);
  }
  return stretches;
}

std::string shown(const std::optional<Spread>& spread, int digits, bool spread_too, bool sign = false) {
  if (!spread) return "";
  const auto number = [&](double value) {
    return sign ? fmt::format("{:+.{}f}", value, digits) : fmt::format("{:.{}f}", value, digits);
  };
  if (!spread_too) return number(spread->mean);
  return fmt::format("{} ({} … {})", number(spread->mean), number(spread->low), number(spread->high));
}

std::vector<const CurvePoint*> chosen_points(const RunGroup& group, Index rows) {
  std::vector<const CurvePoint*> evaluated;
  for (const CurvePoint& point : group.points)
    if (point.held_out) evaluated.push_back(&point);
  if (evaluated.empty())
    for (const CurvePoint& point : group.points) evaluated.push_back(&point);
  const auto count = static_cast<Index>(evaluated.size());
  if (rows == 0 || count <= rows) return evaluated;
  std::vector<const CurvePoint*> chosen;
  for (Index i = 0; i < rows; ++i) {
    const Index at = rows == 1 ? count - 1 : i * (count - 1) / (rows - 1);
    chosen.push_back(evaluated[static_cast<std::size_t>(at)]);
  }
  return chosen;
}

/// The loss of the last record of training up to a point: evaluations need not fall on one.
std::optional<Spread> loss_until(const RunGroup& group, Index step) {
  std::optional<Spread> loss;
  for (const CurvePoint& point : group.points) {
    if (point.step > step) break;
    if (point.loss) loss = point.loss;
  }
  return loss;
}

}  // namespace

std::vector<ShownPanel> curve_panels(std::span<const RunGroup> groups, const CurvesView& view) {
  const bool several = groups.size() > 1;
  ShownPanel losses{.title = "loss, nats", .curves = {}}, icl{.title = "ICL score, nats", .curves = {}},
      accuracy{.title = "task accuracy", .curves = {}};
  for (const RunGroup& group : groups) {
    losses.curves.push_back(
        curve_of(named(group, several, "training"), group, view, [](const CurvePoint& p) { return p.loss; }));
    losses.curves.push_back(curve_of(named(group, several, "held-out"), group, view, held_out_loss));
    icl.curves.push_back(curve_of(named(group, several, ""), group, view, [](const CurvePoint& p) { return p.icl; }));
    accuracy.curves.push_back(
        curve_of(named(group, several, ""), group, view, [](const CurvePoint& p) { return p.accuracy; }));
  }
  std::vector<ShownPanel> panels = {std::move(losses), std::move(icl), std::move(accuracy)};
  panels.push_back(
      heads_panel("prefix matching", groups, view, &CurvePoint::prefix_matching, &HeadEvaluation::prefix_matching));
  panels.push_back(heads_panel("attention to the previous token", groups, view, &CurvePoint::previous_token,
                               &HeadEvaluation::previous_token));
  keep_drawable(panels);
  return panels;
}

std::string panels_text(const Session& session, std::span<const ShownPanel> panels, std::span<const RunGroup> groups,
                        const CurvesView& view) {
  constexpr Index kGap = 3, kNarrowest = 46;
  const Index available = session.out.columns() - 2;
  const Index beside = std::max<Index>(1, (available + kGap) / (kNarrowest + kGap));
  const Index width = (available + kGap) / std::min<Index>(beside, 2) - kGap;
  std::vector<std::vector<std::string>> blocks;
  for (const ShownPanel& panel : panels) {
    TextPlot plot{.title = panel.title, .series = {}, .log_x = view.log_x, .marked = phase_stretches(groups, view)};
    for (const ShownCurve& curve : panel.curves) {
      TextPlot::Series series{.name = curve.name, .points = {}};
      for (std::size_t i = 0; i < curve.x.size(); ++i) series.points.emplace_back(curve.x[i], curve.mean[i]);
      plot.series.push_back(std::move(series));
    }
    std::vector<std::string> lines = text_plot_lines(session.out, plot, width);
    if (!lines.empty()) blocks.push_back(std::move(lines));
  }
  std::string text;
  for (std::size_t i = 0; i < blocks.size(); i += static_cast<std::size_t>(std::min<Index>(beside, 2))) {
    const std::size_t end = std::min(blocks.size(), i + static_cast<std::size_t>(std::min<Index>(beside, 2)));
    text += side_by_side(
                {blocks.begin() + static_cast<std::ptrdiff_t>(i), blocks.begin() + static_cast<std::ptrdiff_t>(end)},
                kGap) +
            "\n";
  }
  return text;
}

std::string points_table(const Session& session, const RunGroup& group, const CurvesView& view) {
  const bool several = group.runs.size() > 1;
  const Index layers = layers_of(group);
  const std::vector<const CurvePoint*> points = chosen_points(group, view.rows);
  const auto any = [&](const std::optional<Spread> CurvePoint::*value) {
    return std::any_of(points.begin(), points.end(),
                       [&](const CurvePoint* point) { return (point->*value).has_value(); });
  };
  const bool losses =
      std::any_of(group.points.begin(), group.points.end(), [](const CurvePoint& p) { return p.loss.has_value(); });
  const bool held_out = any(&CurvePoint::held_out), icl = any(&CurvePoint::icl), task = any(&CurvePoint::accuracy);
  std::vector<Column> columns = {{"step", true}, {"tokens", true}};
  if (losses) columns.push_back({"training", true});
  if (held_out) columns.push_back({"held-out", true});
  if (icl) columns.push_back({"ICL score", true});
  if (task) columns.push_back({"accuracy", true});
  for (Index layer = 0; layer < layers; ++layer) columns.push_back({fmt::format("prefix L{}", layer), true});
  for (Index layer = 0; layer < layers; ++layer) columns.push_back({fmt::format("prev L{}", layer), true});
  Table table(columns);
  for (const CurvePoint* point : points) {
    std::vector<Cell> row = {std::to_string(point->step), readable_count(point->tokens)};
    if (losses) row.emplace_back(shown(loss_until(group, point->step), 3, several));
    if (held_out) row.emplace_back(shown(held_out_loss(*point), 3, several));
    if (icl) row.emplace_back(shown(point->icl, 3, several, true));
    if (task) row.emplace_back(shown(point->accuracy, 3, several));
    for (const LayerScores scores : {&CurvePoint::prefix_matching, &CurvePoint::previous_token})
      for (std::size_t layer = 0; layer < static_cast<std::size_t>(layers); ++layer)
        row.emplace_back(layer < (point->*scores).size() ? shown((point->*scores)[layer], 2, several) : "");
    table.add(std::move(row));
  }
  return table.render(session.out);
}

std::vector<std::string> phase_lines(std::span<const RunGroup> groups) {
  std::vector<std::string> lines;
  for (const RunGroup& group : groups)
    for (const TrainingRun* run : group.runs) {
      const PhaseFinding phase = find_phase_change(run->history);
      if (!phase.change) {
        lines.push_back(fmt::format("{}: no phase change: {}", run->name, phase.why_not));
        continue;
      }
      const PhaseChange& change = *phase.change;
      lines.push_back(
          fmt::format("{}: phase change from step {} to {} ({} to {} tokens): prefix matching {:.2f} to {:.2f}, ICL "
                      "score {:+.3f} before and {:+.3f} after; head {} matches prefixes from step {} on",
                      run->name, change.from_step, change.to_step, readable_count(change.from_tokens),
                      readable_count(change.to_tokens), change.prefix_before, change.prefix_after, change.before,
                      change.after, head_name(change.layer, change.head), change.head_step));
    }
  return lines;
}

draw::Figure curves_figure(draw::Caption caption, std::span<const ShownPanel> panels, std::span<const RunGroup> groups,
                           const CurvesView& view) {
  draw::CurvePanels figure;
  std::vector<draw::Curves::Stretch> marked;
  for (const auto& [from, to] : phase_stretches(groups, view)) marked.push_back({from, to, "phase change"});
  for (const ShownPanel& panel : panels) {
    draw::Curves curves{
        .x_axis = view.tokens ? "tokens" : "step", .y_axis = panel.title, .log_x = view.log_x, .marked = marked};
    for (const ShownCurve& curve : panel.curves) {
      draw::Curves::Curve drawn{.name = curve.name, .x = curve.x, .y = curve.mean};
      if (curve.low != curve.high) drawn.low = curve.low, drawn.high = curve.high;
      curves.curves.push_back(std::move(drawn));
    }
    figure.panels.push_back(std::move(curves));
  }
  return {std::move(caption), std::move(figure)};
}

}  // namespace kirchhoff::cli
