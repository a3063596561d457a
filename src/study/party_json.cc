#include "kirchhoff/study/party_json.h"

namespace kirchhoff {
namespace {

Json label_json(WeightAxis axis, Index i, const TokenNames& names) {
  switch (axis) {
    case WeightAxis::token:
    case WeightAxis::out_token:
      return to_json(static_cast<TokenId>(i), names);
    case WeightAxis::position:
      return {{"pos", i}};
    case WeightAxis::neuron:
      return {{"neuron", i}};
  }
  return nullptr;
}

Json spectrum_json(const StreamSpectrum& spectrum) {
  return {{"singular_values", spectrum.singular_values},
          {"half", spectrum.half},
          {"most", spectrum.most},
          {"participation", spectrum.participation}};
}

}  // namespace

Json to_json(const PartyScore& score) {
  return {{"from", node(score.from)},
          {"to", node(score.to)},
          {"input", name(score.input)},
          {"score", score.score},
          {"chance_sd", score.chance_sd}};
}

Json to_json(const VirtualWeights& weights) {
  Json result = to_json(weights.score);
  result["norm"] = weights.norm;
  result["from_norm"] = weights.from_norm;
  result["to_norm"] = weights.to_norm;
  result["rows"] = weights.rows;
  result["columns"] = weights.columns;
  result["from_axis"] = weights.from_stream ? "stream" : name(weights.from_axis);
  result["to_axis"] = weights.to_stream ? "stream" : name(weights.to_axis);
  return result;
}

void add_directions_json(Json& list, const VirtualWeights& weights, const TokenNames& names) {
  Index number = 0;
  for (const VirtualDirection& direction : weights.directions) {
    const auto add = [&](const char* side, WeightAxis axis, const char* end, const std::vector<CircuitEntry>& entries) {
      Index place = 0;
      for (const CircuitEntry& entry : entries)
        list.push_back({{"from", node(weights.score.from)},
                        {"to", node(weights.score.to)},
                        {"input", name(weights.score.input)},
                        {"direction", number},
                        {"value", direction.value},
                        {"side", side},
                        {"end", end},
                        {"place", ++place},
                        {"label", label_json(axis, entry.column, names)},
                        {"entry", entry.value}});
    };
    add("from", weights.from_axis, "top", direction.from.top);
    add("from", weights.from_axis, "bottom", direction.from.bottom);
    add("to", weights.to_axis, "top", direction.to.top);
    add("to", weights.to_axis, "bottom", direction.to.bottom);
    ++number;
  }
}

Json to_json(const Bandwidth& bandwidth) {
  Json heads = Json::array(), neurons = Json::array(), layers = Json::array(), joint = Json::array();
  for (const MemoryHead& head : bandwidth.heads)
    heads.push_back({{"head", fmt::format("a{}.h{}", head.layer, head.head)},
                     {"positivity", head.positivity},
                     {"negative_sum", head.negative_sum},
                     {"present_token", head.present_token ? Json(*head.present_token) : Json(nullptr)}});
  for (const MemoryNeuron& neuron : bandwidth.neurons)
    neurons.push_back({{"layer", neuron.layer}, {"neuron", neuron.neuron}, {"cosine", neuron.cosine}});
  for (const MemoryLayer& layer : bandwidth.layers)
    layers.push_back({{"layer", layer.layer},
                      {"mean", layer.mean},
                      {"sd", layer.sd},
                      {"below", layer.below},
                      {"above", layer.above}});
  for (const JointComponent& component : bandwidth.joint)
    joint.push_back({{"share", component.share}, {"embed_share", component.embed_share}});
  return {
      {"heads", std::move(heads)},
      {"neurons", std::move(neurons)},
      {"layers", std::move(layers)},
      {"joint", std::move(joint)},
      {"dimensions",
       {{"shared", bandwidth.shared}, {"only_embed", bandwidth.only_embed}, {"only_unembed", bandwidth.only_unembed}}},
      {"embed", spectrum_json(bandwidth.embed)},
      {"unembed", spectrum_json(bandwidth.unembed)}};
}

Json to_json(const VirtualHeadRun& run, const TokenNames& names) {
  Json sources = Json::array(), pattern = Json::array();
  const Index n = run.pattern.dim(0);
  for (Index i = 0; i < n; ++i) {
    sources.push_back({{"pos", i},
                       {"pattern", run.pattern[run.target.pos * n + i]},
                       {"value", run.by_source[static_cast<std::size_t>(i)]}});
    pattern.push_back(std::vector<double>(run.pattern.data() + i * n, run.pattern.data() + (i + 1) * n));
  }
  return {{"target", to_json(run.target.token, names)},
          {"foil", run.target.foil ? to_json(*run.target.foil, names) : Json(nullptr)},
          {"pos", run.target.pos},
          {"sum", run.sum},
          {"sources", std::move(sources)},
          {"pattern", std::move(pattern)}};
}

}  // namespace kirchhoff
