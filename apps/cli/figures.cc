#include "figures.h"

#include <algorithm>  // for find, sort, stable_sort, unique
#include <cmath>      // for abs, exp, nan

#include "attribution_view.h"

namespace kirchhoff::cli {
namespace {

std::vector<std::string> head_names(const ModelConfig& config) {
  std::vector<std::string> names;
  for (Index head = 0; head < config.n_heads; ++head) names.push_back(fmt::format("h{}", head));
  return names;
}

std::vector<std::string> layer_names(Index n_layers) {
  std::vector<std::string> names;
  for (Index layer = 0; layer < n_layers; ++layer) names.push_back(std::to_string(layer));
  return names;
}

/// The place of a head in a list of them.
using Heads = std::vector<std::pair<Index, Index>>;
Index place_in(const Heads& heads, std::pair<Index, Index> head) {
  return std::find(heads.begin(), heads.end(), head) - heads.begin();
}

void make_set(Heads& heads) {
  std::sort(heads.begin(), heads.end());
  heads.erase(std::unique(heads.begin(), heads.end()), heads.end());
}

std::vector<std::string> names_of(const Heads& heads) {
  std::vector<std::string> names;
  for (const auto& [layer, head] : heads) names.push_back(head_name(layer, head));
  return names;
}

}  // namespace

draw::Caption caption(std::string title, const Subject& subject, const std::string& metric,
                      std::vector<std::string> notes) {
  draw::Caption result{.title = std::move(title), .notes = std::move(notes)};
  result.header = {model_text(subject.opened, subject.model),
                   fmt::format("prompt ({} tokens): {}", subject.length(), readable_prompt(subject.prompt))};
  if (!metric.empty()) result.header.push_back(metric);
  return result;
}

draw::Caption caption(std::string title, const WeightsSubject& subject, std::vector<std::string> notes) {
  return {.title = std::move(title), .header = {model_text(subject.opened, subject.model)}, .notes = std::move(notes)};
}

draw::Caption caption(std::string title, const CorpusSubject& subject, std::vector<std::string> notes) {
  const TokenCorpus& corpus = subject.corpus;
  return {.title = std::move(title),
          .header = {model_text(subject.opened, subject.model),
                     fmt::format("{}: {} tokens in {} windows", corpus.path, corpus.tokens, corpus.windows.size())},
          .notes = std::move(notes)};
}

draw::Figure pattern_figure(draw::Caption caption, const Subject& subject,
                            std::span<const std::pair<std::string, ConstMatrix>> patterns) {
  draw::Heatmap map{.row_axis = "query", .column_axis = "key", .value_name = "attention", .full = 1.0};
  for (Index pos = 0; pos < subject.length(); ++pos) map.rows.push_back(subject.shown_at(pos));
  map.columns = map.rows;
  for (const auto& [title, pattern] : patterns) {
    draw::Heatmap::Panel panel{.title = title, .values = {}};
    for (Index q = 0; q < pattern.dim[0]; ++q)
      for (Index k = 0; k < pattern.dim[1]; ++k)
        panel.values.push_back(k > q && subject.model.config.causal ? std::nan("") : double{pattern(q, k)});
    map.panels.push_back(std::move(panel));
  }
  return {std::move(caption), std::move(map)};
}

draw::Figure eigenvalue_figure(draw::Caption caption, std::span<const std::complex<double>> values,
                               std::span<const std::complex<double>> random) {
  draw::Plane plane{.x_axis = "real part / largest |λ|", .y_axis = "imaginary part / largest |λ|", .same_scale = true};
  const auto add = [&](const std::string& name, std::span<const std::complex<double>> spectrum) {
    double largest = 0.0;
    for (const auto& value : spectrum) largest = std::max(largest, std::abs(value));
    if (largest == 0.0) largest = 1.0;
    draw::Plane::Series series{.name = name, .points = {}};
    for (const auto& value : spectrum) series.points.push_back({value.real() / largest, value.imag() / largest});
    plane.series.push_back(std::move(series));
  };
  add("this head", values);
  add("a random head", random);
  return {std::move(caption), std::move(plane)};
}

draw::Figure composition_figure(draw::Caption caption, const Composition& composition) {
  constexpr std::size_t kEdges = 40;  // of a kind: more would be a tangle
  using Score = double (*)(const CompositionPair&);
  const std::pair<const char*, Score> kinds[] = {{"Q: queries", [](const CompositionPair& p) { return p.q; }},
                                                 {"K: keys", [](const CompositionPair& p) { return p.k; }},
                                                 {"V: values", [](const CompositionPair& p) { return p.v; }}};
  std::vector<std::vector<CompositionPair>> shown;
  Heads writers, readers;
  for (const auto& [title, score] : kinds) {
    const auto above = [score = score, &composition](const CompositionPair& p) {
      return std::abs(score(p) - composition.baseline);
    };
    std::vector<CompositionPair> pairs = composition.pairs;
    std::stable_sort(pairs.begin(), pairs.end(),
                     [&](const CompositionPair& a, const CompositionPair& b) { return above(a) > above(b); });
    if (pairs.size() > kEdges) pairs.resize(kEdges);
    for (const CompositionPair& pair : pairs) {
      writers.emplace_back(pair.from_layer, pair.from_head);
      readers.emplace_back(pair.to_layer, pair.to_head);
    }
    shown.push_back(std::move(pairs));
  }
  make_set(writers);
  make_set(readers);
  draw::Bipartite diagram{.left = names_of(writers),
                          .right = names_of(readers),
                          .left_axis = "writes",
                          .right_axis = "reads",
                          .weight_name = "score − 1/√d_model"};
  for (std::size_t i = 0; i < shown.size(); ++i) {
    draw::Bipartite::Panel panel{.title = kinds[i].first, .edges = {}};
    for (const CompositionPair& pair : shown[i])
      panel.edges.push_back({place_in(writers, {pair.from_layer, pair.from_head}),
                             place_in(readers, {pair.to_layer, pair.to_head}),
                             kinds[i].second(pair) - composition.baseline});
    diagram.panels.push_back(std::move(panel));
  }
  if (composition.pairs.size() > kEdges)
    caption.notes.push_back(
        fmt::format("of each kind the {} of {} pairs that are farthest from chance", kEdges, composition.pairs.size()));
  return {std::move(caption), std::move(diagram)};
}

draw::Figure parts_figure(draw::Caption caption, const Attribution& attribution, Index top) {
  std::vector<AttributionPart> parts = attribution.parts;
  std::stable_sort(parts.begin(), parts.end(), [](const AttributionPart& a, const AttributionPart& b) {
    return std::abs(a.value) > std::abs(b.value);
  });
  draw::Bars bars{.value_axis = "logit"};
  double rest = 0.0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (static_cast<Index>(i) < top)
      bars.bars.push_back({parts[i].node, parts[i].value});
    else
      rest += parts[i].value;
  }
  if (const auto left = static_cast<Index>(parts.size()) - top; left > 0)
    bars.bars.push_back({fmt::format("{} others", left), rest});
  bars.bars.push_back({"sum", attribution.sum});
  caption.notes.push_back(fmt::format("closure {:.1e}", attribution.closure));
  return {std::move(caption), std::move(bars)};
}

draw::Figure positions_figure(draw::Caption caption, const Subject& subject,
                              std::span<const Attribution> attributions) {
  const ModelConfig& config = subject.model.config;
  draw::Heatmap map{.rows = layer_names(config.n_layers),
                    .row_axis = "layer",
                    .column_axis = "position",
                    .value_name = "logit",
                    .is_signed = true};
  for (const Attribution& at : attributions) map.columns.push_back(subject.shown_at(at.target.pos));
  const std::pair<const char*, PartKind> kinds[] = {{"attention", PartKind::head}, {"MLP", PartKind::mlp}};
  for (const auto& [title, kind] : kinds) {
    if (kind == PartKind::mlp && config.attn_only) continue;
    draw::Heatmap::Panel panel{.title = title,
                               .values = std::vector<double>(map.rows.size() * map.columns.size(), 0.0)};
    for (std::size_t column = 0; column < attributions.size(); ++column)
      for (const AttributionPart& part : attributions[column].parts)
        if (part.kind == kind)
          panel.values[static_cast<std::size_t>(part.layer) * map.columns.size() + column] += part.value;
    map.panels.push_back(std::move(panel));
  }
  return {std::move(caption), std::move(map)};
}

draw::Figure terms_figure(draw::Caption caption, const TermImportance& terms) {
  draw::Bars bars{.value_axis = "nats by which the loss is lowered, ± 2 standard errors"};
  const auto add = [&bars](std::string name, const MeanLoss& loss) {
    bars.bars.push_back({std::move(name), loss.value, loss.value - 2.0 * loss.error, loss.value + 2.0 * loss.error});
  };
  // Orders behind the last one that a reader could see are one bar.
  constexpr double kVisible = 1e-3;
  std::size_t shown = terms.orders.size();
  while (shown > 2 && std::abs(terms.orders[shown - 1].marginal.value) < kVisible) --shown;
  for (std::size_t i = 0; i < shown; ++i) {
    const TermOrder& order = terms.orders[i];
    add(order.order == 0 ? "direct path" : fmt::format("order {} ({:.3g} terms)", order.order, order.terms),
        order.marginal);
  }
  const double rest = terms.orders[shown - 1].loss.value - terms.full.value;
  if (shown < terms.orders.size() || terms.longer.terms > 0.0) bars.bars.push_back({"all longer ones", rest});
  for (const auto* splits : {&terms.layers, &terms.heads})
    for (const TermSplit& split : *splits) {
      add(fmt::format("{} alone", split.node), split.alone);
      add(fmt::format("{} on top", split.node), split.added);
    }
  caption.notes.push_back(fmt::format("uniform guess {:.4f}, model {:.4f} nats; closure {:.1e}", terms.uniform,
                                      terms.full.value, terms.closure));
  return {std::move(caption), std::move(bars)};
}

draw::Figure icl_figure(draw::Caption caption, std::span<const PositionLoss> positions,
                        std::span<const PositionBin> bins) {
  draw::Curves curves{.x_axis = "position of the predicted token, from 0", .y_axis = "loss, nats", .log_x = true};
  draw::Curves::Curve loss{.name = "each position", .x = {}, .y = {}}, means{.name = "half-octaves", .x = {}, .y = {}};
  for (const PositionLoss& at : positions) {
    loss.x.push_back(static_cast<double>(at.position));
    loss.y.push_back(at.loss.value);
  }
  for (const PositionBin& bin : bins) {
    means.x.push_back(std::exp(bin.log_position));
    means.y.push_back(bin.loss);
  }
  curves.curves.push_back(std::move(loss));
  curves.curves.push_back(std::move(means));
  return {std::move(caption), std::move(curves)};
}

draw::Figure changes_figure(draw::Caption caption, const Json& list, const std::string& key, Index top) {
  draw::Bars bars{.value_axis = key == "loss_change" ? "change of the loss, nats" : "change of the metric"};
  for (const Json& one : list) bars.bars.push_back({one.at("node").get<std::string>(), one.at(key).get<double>()});
  std::stable_sort(bars.bars.begin(), bars.bars.end(), [](const draw::Bars::Bar& a, const draw::Bars::Bar& b) {
    return std::abs(a.value) > std::abs(b.value);
  });
  if (static_cast<Index>(bars.bars.size()) > top) bars.bars.resize(static_cast<std::size_t>(top));
  return {std::move(caption), std::move(bars)};
}

draw::Figure paths_figure(draw::Caption caption, const PathExpansion& expansion) {
  draw::Bars bars{.value_axis = "value"};
  for (const StreamPath& path : expansion.paths)
    bars.bars.push_back({fmt::format("{}", fmt::join(path.nodes, " → ")), path.value});
  if (expansion.rest_count > 0.0)
    bars.bars.push_back({fmt::format("{:.4g} others", expansion.rest_count), expansion.rest_sum});
  bars.bars.push_back({"total", expansion.total});
  caption.notes.push_back(fmt::format("model's own {:.4f}; closure {:.1e}", expansion.own, expansion.closure));
  return {std::move(caption), std::move(bars)};
}

draw::Figure head_grid_figure(draw::Caption caption, const ModelConfig& config, std::vector<HeadGrid> grids,
                              std::string value_name, bool is_signed, double full) {
  draw::Heatmap map{.rows = head_names(config),
                    .columns = layer_names(config.n_layers),
                    .row_axis = "head",
                    .column_axis = "layer",
                    .value_name = std::move(value_name),
                    .is_signed = is_signed,
                    .full = full};
  for (HeadGrid& grid : grids) {
    draw::Heatmap::Panel panel{.title = std::move(grid.title), .values = {}};
    for (Index head = 0; head < config.n_heads; ++head)
      for (Index layer = 0; layer < config.n_layers; ++layer)
        panel.values.push_back(grid.values[static_cast<std::size_t>(layer * config.n_heads + head)]);
    map.panels.push_back(std::move(panel));
  }
  return {std::move(caption), std::move(map)};
}

draw::Figure heads_figure(draw::Caption caption, const ModelConfig& config, std::span<const NamedHead> heads) {
  const auto grid = [&heads](const std::string& title, Score HeadScores::*score) {
    HeadGrid result{.title = title, .values = {}};
    for (const NamedHead& head : heads) result.values.push_back((head.scores.*score).value);
    return result;
  };
  caption.notes.push_back("means of attention; 1 is an ideal head, and chance lies far below");
  return head_grid_figure(
      std::move(caption), config,
      {grid("previous token", &HeadScores::previous_token), grid("induction", &HeadScores::induction),
       grid("duplicate token", &HeadScores::duplicate_token), grid("first token", &HeadScores::first_token)},
      "score", false, 1.0);
}

draw::Figure lens_figure(draw::Caption caption, const Subject& subject, std::span<const Index> positions,
                         std::span<const std::vector<LensRow>> rows) {
  draw::CellGrid grid{
      .row_axis = "state of the stream", .column_axis = "position", .shade_name = "probability of the token"};
  for (const Index pos : positions) grid.columns.push_back(subject.shown_at(pos));
  const std::size_t n_rows = rows.front().size();
  for (std::size_t r = n_rows; r-- > 0;) {  // the last state on top, as the stream rises
    grid.rows.push_back(rows.front()[r].label);
    for (const std::vector<LensRow>& column : rows) {
      const TokenScore& best = column[r].top.front();
      grid.cells.push_back({subject.shown(best.id), best.probability});
    }
  }
  return {std::move(caption), std::move(grid)};
}

draw::Figure patch_figure(draw::Caption caption, const PatchView& view) {
  const LayerMatrix matrix = layer_matrix(view);
  draw::Heatmap map{.panels = {{view.grid().axes.size() == 3 ? "strongest position of each head" : "", matrix.values}},
                    .rows = matrix.rows,
                    .columns = layer_names(matrix.n_layers),
                    .row_axis = view.grid().axes[1] == "pos" ? "position" : "head",
                    .column_axis = "layer",
                    .value_name = "change of the metric",
                    .is_signed = true};
  return {std::move(caption), std::move(map)};
}

}  // namespace kirchhoff::cli
