#include "party_view.h"

#include <algorithm>  // for min, stable_sort
#include <cmath>      // for abs
#include <numeric>    // for iota

#include "attribution_view.h"
#include "table.h"

namespace kirchhoff::cli {
namespace {

std::string heading(const Session& session, const std::string& text) {
  return fmt::format("\n{}\n", session.out.paint(Style::title, text));
}

/// The strongest of one kind of pair, by how many deviations of chance they lie above the baseline.
std::vector<std::string> strongest_parties(const Session& session, const std::vector<PartyScore>& scores,
                                           double baseline, const std::string& title, Index count) {
  std::vector<PartyScore> sorted = scores;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const PartyScore& a, const PartyScore& b) { return a.score > b.score; });
  Table table({{title}, {"score", true}, {"above chance", true}, {"sd", true}});
  for (std::size_t i = 0; i < sorted.size() && i < static_cast<std::size_t>(count); ++i) {
    const double above = sorted[i].score - baseline, sd = sorted[i].chance_sd;
    table.add({fmt::format("{} → {}.{}", node(sorted[i].from), node(sorted[i].to), name(sorted[i].input)),
               fmt::format("{:.4f}", sorted[i].score), fmt::format("{:+.4f}", above),
               sd > 0.0 ? fmt::format("{:+.1f}", above / sd) : "–"});
  }
  return table.lines(session.out, 56);
}

std::string label(const WeightsSubject& subject, WeightAxis axis, Index i) {
  if (axis == WeightAxis::neuron) return fmt::format("neuron {}", i);
  if (axis == WeightAxis::position) return fmt::format("position {}", i);
  return subject.shown(static_cast<TokenId>(i));
}

std::vector<std::string> side_list(const Session& session, const WeightsSubject& subject, WeightAxis axis,
                                   const std::string& title, const DirectionSide& side) {
  Table table({{title}, {"", true}, {""}, {"", true}});
  for (std::size_t i = 0; i < side.top.size(); ++i) {
    const CircuitEntry &high = side.top[i], &low = side.bottom[i];
    table.add({{label(subject, axis, high.column), Style::token},
               signed_value(static_cast<double>(high.value)),
               {label(subject, axis, low.column), Style::token},
               signed_value(static_cast<double>(low.value))});
  }
  return table.lines(session.out, 56);
}

/// Directions of the stream are read through the vocabulary.
std::string side_title(bool stream, WeightAxis axis, const std::string& node) {
  if (!stream) return node;
  return axis == WeightAxis::out_token ? node + " → logits" : "embeddings → " + node;
}

}  // namespace

std::string party_lists(const Session& session, const PartyComposition& parties, Index count) {
  const std::pair<const char*, bool (*)(const PartyScore&)> kinds[] = {
      {"from the embedding", [](const PartyScore& s) { return s.from.kind == PartyKind::embed; }},
      {"from positions", [](const PartyScore& s) { return s.from.kind == PartyKind::pos; }},
      {"head → head, virtual",
       [](const PartyScore& s) { return s.from.kind == PartyKind::head && s.to.kind == PartyKind::head; }},
      {"head → MLP", [](const PartyScore& s) { return s.from.kind == PartyKind::head && s.to.kind == PartyKind::mlp; }},
      {"MLP → head", [](const PartyScore& s) { return s.from.kind == PartyKind::mlp && s.to.kind == PartyKind::head; }},
      {"MLP → MLP", [](const PartyScore& s) { return s.from.kind == PartyKind::mlp && s.to.kind == PartyKind::mlp; }},
      {"to the unembedding", [](const PartyScore& s) { return s.to.kind == PartyKind::unembed; }}};
  std::vector<std::vector<std::string>> blocks;
  for (const auto& [title, belongs] : kinds) {
    std::vector<PartyScore> own;
    for (const PartyScore& score : parties.scores)
      if (belongs(score)) own.push_back(score);
    if (!own.empty()) blocks.push_back(strongest_parties(session, own, parties.baseline, title, count));
  }
  return heading(session, fmt::format("Other parties, the strongest of {} scores", parties.scores.size())) +
         flowing(blocks, 3, session.out.columns());
}

std::string virtual_sections(const Session& session, const WeightsSubject& subject, const VirtualWeights& weights) {
  const PartyScore& s = weights.score;
  const double above = s.score - weights.baseline;
  std::string text = heading(session, fmt::format("{} → {}, read by {}", node(s.from), node(s.to), name(s.input)));
  Table facts({{"virtual weights"}, {fmt::format("{} × {}", weights.rows, weights.columns), true}});
  facts.add({"norm |W R|", fmt::format("{:.4g}", weights.norm)});
  facts.add({"norms |W|, |R|", fmt::format("{:.4g}, {:.4g}", weights.from_norm, weights.to_norm)});
  facts.add({"composition |W R| / (|W| |R|)", fmt::format("{:.4f}", s.score)});
  facts.add({"above chance, 1/√d_model", fmt::format("{:+.4f}", above)});
  if (s.chance_sd > 0.0) facts.add({"standard deviations of chance", fmt::format("{:+.1f}", above / s.chance_sd)});
  text += facts.render(session.out);
  double squares = 0.0;
  for (const double value : weights.singular_values) squares += value * value;
  std::string values;
  for (std::size_t i = 0; i < weights.singular_values.size() && i < 8; ++i)
    values += fmt::format("{}{:.4g}", i > 0 ? ", " : "", weights.singular_values[i]);
  text += fmt::format("  singular values: {}{} ({} in all)\n", values, weights.singular_values.size() > 8 ? ", …" : "",
                      weights.singular_values.size());
  Index number = 0;
  for (const VirtualDirection& direction : weights.directions) {
    text += heading(session, fmt::format("Direction {}: {:.4g}, {:.1f} % of the squares", number++, direction.value,
                                         100.0 * direction.value * direction.value / squares));
    text += flowing({side_list(session, subject, weights.from_axis,
                               side_title(weights.from_stream, weights.from_axis, node(s.from)), direction.from),
                     side_list(session, subject, weights.to_axis,
                               side_title(weights.to_stream, weights.to_axis, node(s.to)), direction.to)},
                    3, session.out.columns());
  }
  return text;
}

std::string bandwidth_sections(const Session& session, const Bandwidth& bandwidth, const ModelConfig& config,
                               Index count) {
  std::string text = heading(session, fmt::format("The {} dimensions of the stream", config.d_model));
  Table spectra({{"principal components"}, {"50 % of squares", true}, {"90 %", true}, {"participation", true}});
  const auto add = [&](const char* what, const StreamSpectrum& spectrum) {
    spectra.add({what, std::to_string(spectrum.half), std::to_string(spectrum.most),
                 fmt::format("{:.1f}", spectrum.participation)});
  };
  add("W_E", bandwidth.embed);
  add("W_U", bandwidth.unembed);
  text += spectra.render(session.out);
  text += fmt::format("  of both together: {} shared, {} of W_E alone, {} of W_U alone\n", bandwidth.shared,
                      bandwidth.only_embed, bandwidth.only_unembed);
  std::vector<std::vector<std::string>> blocks;
  Table heads({{"heads that erase"}, {"Σλ/Σ|λ|", true}, {"Σλ<0 / |W_OV|", true}, {"present", true}});
  for (std::size_t i = 0; i < bandwidth.heads.size() && i < static_cast<std::size_t>(count); ++i) {
    const MemoryHead& head = bandwidth.heads[i];
    heads.add({head_name(head.layer, head.head), signed_value(head.positivity),
               fmt::format("{:.2f}", head.negative_sum),
               head.present_token ? fmt::format("{:.2f}", *head.present_token) : "–"});
  }
  blocks.push_back(heads.lines(session.out, 60));
  if (!bandwidth.neurons.empty()) {
    Table neurons({{"neurons that erase"}, {"cos(w_in, w_out)", true}});
    for (std::size_t i = 0; i < bandwidth.neurons.size() && i < static_cast<std::size_t>(count); ++i)
      neurons.add({fmt::format("m{} neuron {}", bandwidth.neurons[i].layer, bandwidth.neurons[i].neuron),
                   signed_value(bandwidth.neurons[i].cosine)});
    blocks.push_back(neurons.lines(session.out, 60));
    Table layers({{"MLP"}, {"mean cos", true}, {"sd", true}, {"< −0.5", true}, {"> 0.5", true}});
    for (const MemoryLayer& layer : bandwidth.layers)
      layers.add({fmt::format("m{}", layer.layer), fmt::format("{:+.3f}", layer.mean), fmt::format("{:.3f}", layer.sd),
                  std::to_string(layer.below), std::to_string(layer.above)});
    blocks.push_back(layers.lines(session.out, 60));
  }
  return text + heading(session, "Memory management") + flowing(blocks, 3, session.out.columns());
}

std::string virtual_head_sections(const Session& session, const Subject& subject, const VirtualHeadRun& run,
                                  const std::string& head, Index count) {
  const Index n = run.pattern.dim(0);
  std::vector<Index> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), Index{0});
  const auto value = [&](Index pos) { return run.by_source[static_cast<std::size_t>(pos)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](Index a, Index b) { return std::abs(value(a)) > std::abs(value(b)); });
  const double largest = std::abs(value(order.front()));
  Table table({{"source"}, {"pattern", true}, {"value", true}, {""}});
  double rest = 0.0;
  for (Index i = 0; i < n; ++i) {
    const Index pos = order[static_cast<std::size_t>(i)];
    if (i >= count) {
      rest += value(pos);
      continue;
    }
    table.add({{subject.shown_at(pos), Style::token},
               fmt::format("{:.3f}", run.pattern[run.target.pos * n + pos]),
               signed_value(value(pos)),
               signed_bar(value(pos), largest)});
  }
  if (n > count) table.add({fmt::format("{} other positions", n - count), "", signed_value(rest), ""});
  table.add({{"sum", Style::strong}, "", signed_value(run.sum), ""});
  return heading(session, fmt::format("The virtual head {} at {}", head, subject.shown_at(run.target.pos))) +
         table.render(session.out);
}

}  // namespace kirchhoff::cli
