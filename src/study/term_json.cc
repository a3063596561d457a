#include "kirchhoff/study/term_json.h"

namespace kirchhoff {
namespace {

Json term_count(double count) { return count <= 0x1p53 ? Json(static_cast<std::int64_t>(count)) : Json(count); }

Json term_order(const TermOrder& order) {
  return {
      {"order", order.order},           {"terms", term_count(order.terms)}, {"loss", order.loss.value},
      {"loss_error", order.loss.error}, {"marginal", order.marginal.value}, {"marginal_error", order.marginal.error},
      {"per_term", order.per_term()}};
}

Json term_splits(const std::vector<TermSplit>& splits) {
  Json list = Json::array();
  for (const TermSplit& split : splits)
    list.push_back({{"node", split.node},
                    {"terms", term_count(split.terms)},
                    {"alone", split.alone.value},
                    {"alone_error", split.alone.error},
                    {"added", split.added.value},
                    {"added_error", split.added.error}});
  return list;
}

}  // namespace

Json to_json(const TermImportance& terms) {
  Json result = {{"norms", name(terms.norms)},
                 {"additive", terms.norms == TermNorms::frozen},
                 {"uniform", terms.uniform},
                 {"losses", Json::array()},
                 {"orders", Json::array()}};
  for (const TermOrder& order : terms.orders) {
    result["losses"].push_back(order.loss.value);
    result["orders"].push_back(term_order(order));
  }
  result["longer"] = terms.longer.terms > 0.0 ? term_order(terms.longer) : Json(nullptr);
  result["full"] = terms.full.value;
  result["full_error"] = terms.full.error;
  result["layers"] = term_splits(terms.layers);
  result["heads"] = term_splits(terms.heads);
  result["closure"] = terms.closure;
  result["windows"] = terms.windows;
  result["predictions"] = terms.predictions;
  result["cost"] = {{"forwards", terms.cost.forwards},
                    {"attention_layers", terms.cost.attention_layers},
                    {"unembeddings", terms.cost.unembeddings},
                    {"equivalent", terms.cost.equivalent}};
  return result;
}

}  // namespace kirchhoff
