#include "kirchhoff/study/attribution_json.h"

#include <algorithm>  // for min, stable_sort
#include <cmath>      // for abs

namespace kirchhoff {

Json to_json(std::span<const Attribution> all, const TokenNames& names) {
  Json positions = Json::array(), parts = Json::array(), heads = Json::array();
  for (const Attribution& at : all) {
    const LogitTarget& target = at.target;
    positions.push_back({{"pos", target.pos},
                         {"target", to_json(target.token, names)},
                         {"foil", target.foil ? to_json(*target.foil, names) : Json(nullptr)},
                         {"metric", at.own},
                         {"sum", at.sum},
                         {"closure", at.closure},
                         {"final_scale", at.final_scale}});
    if (at.soft_capped) positions.back()["metric_after_softcap"] = *at.soft_capped;
    Json layers = Json::array();
    for (const AttributionPart& part : at.parts) {
      parts.push_back({{"pos", target.pos}, {"node", part.node}, {"value", part.value}});
      if (part.kind != PartKind::head) continue;
      if (part.head == 0) layers.push_back(Json::array());
      layers.back().push_back(part.value);
    }
    heads.push_back(std::move(layers));
  }
  return {{"metric_name", all.empty() ? "" : metric_name(all.front().target)},
          {"positions", std::move(positions)},
          {"parts", std::move(parts)},
          {"heads", std::move(heads)}};
}

Json neurons_json(std::span<const NeuronAttribution> layers, Index pos, Index top) {
  Json neurons = Json::array(), sums = Json::array();
  for (const NeuronAttribution& mlp : layers) {
    std::vector<std::size_t> order(mlp.values.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&mlp](std::size_t a, std::size_t b) {
      return std::abs(mlp.values[a]) > std::abs(mlp.values[b]);
    });
    const std::size_t listed = std::min(order.size(), static_cast<std::size_t>(top));
    double rest = 0.0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const double value = mlp.values[order[i]];
      if (i < listed)
        neurons.push_back({{"pos", pos}, {"layer", mlp.layer}, {"neuron", order[i]}, {"value", value}});
      else
        rest += value;
    }
    sums.push_back({{"pos", pos},
                    {"layer", mlp.layer},
                    {"listed", listed},
                    {"rest", {{"count", order.size() - listed}, {"sum", rest}}},
                    {"bias", mlp.bias},
                    {"metric", mlp.own},
                    {"closure", mlp.closure}});
  }
  return {{"neurons", std::move(neurons)}, {"neuron_sums", std::move(sums)}};
}

}  // namespace kirchhoff
