#include "kirchhoff/study/path_json.h"

namespace kirchhoff {
namespace {

Json count_json(double count) { return count <= 0x1p53 ? Json(static_cast<std::int64_t>(count)) : Json(count); }

Json order_json(const PathOrder& order) {
  return {{"order", order.order}, {"count", count_json(order.count)}, {"sum", order.sum}};
}

Json writers_json(const std::vector<QkWriter>& writers) {
  Json list = Json::array();
  for (const QkWriter& writer : writers) {
    list.push_back({{"node", writer.node}, {"value", writer.value}});
    if (writer.before != 0.0) list.back()["before"] = writer.before;
    if (writer.reads_from < 0) continue;
    list.back()["reads_from"] = writer.reads_from;
    list.back()["attention"] = writer.attention;
  }
  return list;
}

}  // namespace

Json to_json(const PathExpansion& expansion, const TokenNames& names) {
  const LogitTarget& target = expansion.target;
  Json result = {{"metric", expansion.own}};
  if (expansion.layer) {
    result.update({{"metric_name", "stream . direction"}, {"layer", *expansion.layer}});
  } else {
    result.update({{"metric_name", metric_name(target)},
                   {"target", to_json(target.token, names)},
                   {"foil", target.foil ? to_json(*target.foil, names) : Json(nullptr)}});
  }
  result.update({{"pos", target.pos}, {"total", expansion.total}, {"closure", expansion.closure}});
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

Json to_json(const QkExpansion& expansion) {
  Json pairs = Json::array();
  for (const QkPair& pair : expansion.pairs)
    pairs.push_back({{"query", pair.query}, {"key", pair.key}, {"value", pair.value}});
  return {{"head", head_name(expansion.target.layer, expansion.target.head)},
          {"query", expansion.target.query_pos},
          {"key", expansion.target.key_pos},
          {"score", expansion.own},
          {"sum", expansion.sum},
          {"closure", expansion.closure},
          {"soft_capped", expansion.soft_capped},
          {"groups",
           {{"none", expansion.none},
            {"query", expansion.by_query},
            {"key", expansion.by_key},
            {"query_and_key", expansion.by_both},
            {"position_bias", expansion.position_bias}}},
          {"queries", writers_json(expansion.queries)},
          {"keys", writers_json(expansion.keys)},
          {"pairs", std::move(pairs)},
          {"rest", {{"count", expansion.rest_count}, {"sum", expansion.rest_sum}}}};
}

Json score_json(const ScorePathPairs& score) {
  Json paths = Json::array(), sides = Json::array(), pairs = Json::array();
  for (const auto& [side, expansion] : {std::pair("query", &score.query), std::pair("key", &score.key)}) {
    for (const StreamPath& path : expansion->paths)
      paths.push_back({{"side", side}, {"path", path.nodes}, {"order", path.order}, {"value", path.value}});
    Json orders = Json::array();
    for (const PathOrder& order : expansion->orders) orders.push_back(order_json(order));
    sides.push_back({{"side", side},
                     {"total", expansion->total},
                     {"closure", expansion->closure},
                     {"rest", {{"count", count_json(expansion->rest_count)}, {"sum", expansion->rest_sum}}},
                     {"orders", std::move(orders)},
                     {"longer", order_json(expansion->longer)}});
  }
  for (const ScorePathPair& pair : score.pairs)
    pairs.push_back({{"query", score.query.paths[pair.query].nodes},
                     {"key", score.key.paths[pair.key].nodes},
                     {"value", pair.value}});
  return {{"product", score.key.own},
          {"paths", std::move(paths)},
          {"sides", std::move(sides)},
          {"pairs", std::move(pairs)},
          {"rest", {{"count", count_json(score.rest_count)}, {"sum", score.rest_sum}}}};
}

Json score_json(const ScoreSources& query, const ScoreSources& key) {
  Json tokens = Json::array(), sides = Json::array();
  for (const auto& [side, sources] : {std::pair("query", &query), std::pair("key", &key)}) {
    for (std::size_t pos = 0; pos < sources->positions.size(); ++pos) {
      const ScoreSource& source = sources->positions[pos];
      tokens.push_back({{"side", side},
                        {"pos", pos},
                        {"value", source.value()},
                        {"embed", source.embed},
                        {"mlp", source.mlp},
                        {"bias", source.bias}});
    }
    sides.push_back(
        {{"side", side}, {"constant", sources->constant}, {"total", sources->sum}, {"closure", sources->closure}});
  }
  return {{"product", key.own}, {"tokens", std::move(tokens)}, {"sides", std::move(sides)}};
}

}  // namespace kirchhoff
