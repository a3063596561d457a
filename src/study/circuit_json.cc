#include "kirchhoff/study/circuit_json.h"

namespace kirchhoff {

std::string head_node(Index layer, Index head) { return fmt::format("a{}.h{}", layer, head); }

std::string name(CircuitKind kind) { return kind == CircuitKind::ov ? "ov" : "qk"; }

std::vector<std::string> circuit_axes(CircuitKind kind) {
  if (kind == CircuitKind::ov) return {"source", "out"};
  return {"query", "key"};
}

Json to_json(std::span<const std::complex<double>> eigenvalues) {
  Json list = Json::array();
  for (const std::complex<double>& value : eigenvalues) list.push_back(Json::array({value.real(), value.imag()}));
  return list;
}

Json to_json(const NullBand& band) { return {{"mean", band.mean}, {"sd", band.sd}, {"samples", band.samples}}; }

Json to_json(const DiagonalStatistics& statistics) {
  return {{"trace", statistics.trace},
          {"mean", statistics.mean},
          {"sd", statistics.sd},
          {"mean_of_all", statistics.mean_of_all},
          {"positive_share", statistics.positive_share},
          {"top_1", statistics.top_1},
          {"top_k", statistics.top_k},
          {"k", statistics.k}};
}

Json to_json(const Composition& composition) {
  Json pairs = Json::array();
  for (const CompositionPair& pair : composition.pairs) {
    Json entry = {{"from", head_node(pair.from_layer, pair.from_head)},
                  {"to", head_node(pair.to_layer, pair.to_head)},
                  {"q", pair.q},
                  {"k", pair.k},
                  {"v", pair.v}};
    if (pair.induction_match) entry["induction_match"] = *pair.induction_match;
    pairs.push_back(std::move(entry));
  }
  return {
      {"pairs", std::move(pairs)},
      {"baseline", composition.baseline},
      {"ceiling", composition.ceiling},
      {"null", {{"mean", composition.null_mean}, {"sd", composition.null_sd}, {"samples", composition.null_samples}}}};
}

}  // namespace kirchhoff
