#include "kirchhoff/study/path_json.h"

namespace kirchhoff {
namespace {

Json count_json(double count) { return count <= 0x1p53 ? Json(static_cast<std::int64_t>(count)) : Json(count); }

Json order_json(const PathOrder& order) {
  return {{"order", order.order}, {"count", count_json(order.count)}, {"sum", order.sum}};
}

}  // namespace

Json to_json(const PathExpansion& expansion, const TokenNames& names) {
  const LogitTarget& target = expansion.target;
  Json result = {{"metric", expansion.own},
                 {"metric_name", target.foil ? "logit(target) - logit(foil)" : "logit(target)"},
                 {"target", to_json(target.token, names)},
                 {"foil", target.foil ? to_json(*target.foil, names) : Json(nullptr)},
                 {"pos", target.pos},
                 {"total", expansion.total},
                 {"closure", expansion.closure}};
  if (expansion.soft_capped) result["metric_after_softcap"] = *expansion.soft_capped;
  result["paths"] = Json::array();
  for (const StreamPath& path : expansion.paths)
    result["paths"].push_back({{"path", path.nodes}, {"order", path.order}, {"value", path.value}});
  result["rest"] = {{"count", count_json(expansion.rest_count)}, {"sum", expansion.rest_sum}};
  result["orders"] = Json::array();
  for (const PathOrder& order : expansion.orders) result["orders"].push_back(order_json(order));
  result["longer"] = order_json(expansion.longer);
  return result;
}

}  // namespace kirchhoff
