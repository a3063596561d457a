#include "kirchhoff/study/flow_json.h"

#include <cmath>  // for isfinite

namespace kirchhoff {
namespace {

std::string node_name(const FlowNode& node) { return fmt::format("{}@{}", node.state, node.pos); }

template <class Real>
Json rows_json(View<const Real, 2> matrix) {
  Json rows = Json::array();
  for (Index i = 0; i < matrix.dim[0]; ++i) {
    Json row = Json::array();
    for (const Real x : matrix.row(i)) row.push_back(std::isfinite(x) ? Json(x) : Json());
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

Json to_json(const InformationFlow& flow) {
  Json nodes = Json::array(), edges = Json::array();
  for (const FlowNode& node : flow.nodes)
    nodes.push_back({{"node", node_name(node)}, {"state", node.state}, {"pos", node.pos}});
  for (const FlowEdge& edge : flow.edges) {
    const FlowNode &from = flow.nodes[edge.from], &to = flow.nodes[edge.to];
    const bool bias = edge.kind == FlowKind::bias;
    Json& json = edges.emplace_back();
    json = {{"from", bias ? Json() : Json(node_name(from))},
            {"to", node_name(to)},
            {"kind", name(edge.kind)},
            {"layer", edge.layer},
            {"from_pos", bias ? Json() : Json(from.pos)},
            {"to_pos", to.pos},
            {"value", edge.value}};
    if (edge.kind != FlowKind::attention) continue;
    json["heads"] = Json::array();
    for (const FlowHead& head : edge.heads)
      json["heads"].push_back({{"head", head_name(edge.layer, head.head)}, {"value", head.value}});
  }
  return {{"pos", flow.options.pos},
          {"threshold", flow.options.threshold},
          {"closure", flow.closure},
          {"nodes", std::move(nodes)},
          {"edges", std::move(edges)}};
}

Json to_json(const PatternMatch& match) {
  const bool any = match.rows > 0;
  return {{"rows", match.rows},
          {"overlap", any ? Json(match.overlap) : Json()},
          {"agreement", any ? Json(match.agreement) : Json()}};
}

Json matrix_json(View<const float, 2> matrix) { return rows_json(matrix); }
Json matrix_json(View<const double, 2> matrix) { return rows_json(matrix); }

}  // namespace kirchhoff
