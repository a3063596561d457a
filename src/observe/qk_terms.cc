#include "kirchhoff/observe/qk_terms.h"

#include <algorithm>  // for min, stable_sort
#include <cmath>      // for abs, tanh

#include "observe/score_reader.h"
#include "observe/stream_sources.h"

namespace kirchhoff {
namespace {

using namespace observe;

template <class T>
void largest_first(std::vector<T>& list) {
  std::stable_sort(list.begin(), list.end(),
                   [](const T& a, const T& b) { return std::abs(a.value) > std::abs(b.value); });
}

std::vector<QkWriter> ranked(const std::vector<ScorePart>& parts) {
  std::vector<QkWriter> writers;
  for (const ScorePart& part : parts) writers.push_back(part.writer);
  largest_first(writers);
  return writers;
}

/// The terms of every pair, into the groups, the writers' values and the list.
void multiply_out(std::vector<ScorePart>& queries, std::vector<ScorePart>& keys, double scale, QkExpansion& result) {
  for (ScorePart& q : queries)
    for (ScorePart& k : keys) {
      double value = 0.0;
      for (std::size_t i = 0; i < q.vector.size(); ++i) value += q.vector[i] * k.vector[i];
      value *= scale;
      q.writer.value += value;
      k.writer.value += value;
      for (std::size_t i = 0; i < k.before.size(); ++i) k.writer.before += scale * q.vector[i] * k.before[i];
      double& group =
          q.component ? (k.component ? result.by_both : result.by_query) : (k.component ? result.by_key : result.none);
      group += value;
      result.pairs.push_back({q.writer.node, k.writer.node, value});
    }
  largest_first(result.pairs);
}

}  // namespace

std::vector<std::string> qk_sites(const ModelConfig& config, Index layer) {
  std::vector<std::string> sites = {site_name(Site::embed), site_name(Site::attn_scores, layer)};
  if (config.positions == Positions::learned || config.positions == Positions::shortformer)
    sites.push_back(site_name(Site::pos_embed));
  if (has_ln1(config)) sites.push_back(site_name(Site::ln1_scale, layer));
  if (config.qk_norm != QkNorm::none) {
    sites.push_back(site_name(Site::q, layer));
    sites.push_back(site_name(Site::k, layer));
  }
  for (Index below = 0; below < layer; ++below) {
    sites.push_back(site_name(Site::z, below));
    sites.push_back(site_name(Site::pattern, below));
    if (has_ln1_post(config)) sites.push_back(site_name(Site::ln1_post_scale, below));
    if (!config.attn_only) sites.push_back(site_name(Site::mlp_out, below));
  }
  return sites;
}

template <class Real>
QkExpansion expand_score(const Model& model, const BasicTrace<Real>& trace, const ScoreTarget& target, Index top) {
  const ModelConfig& config = model.config;
  check(top >= 0, ErrorCode::usage, "{} pairs to list: at least 0", top);
  const RecordedScore recorded = recorded_score(config, trace, target);
  QkExpansion result;
  result.target = recorded.target;
  result.own = recorded.value;
  result.position_bias = recorded.position_bias;

  const ScoreReader<Real> reader(model, trace, target.layer);
  std::vector<ScorePart> queries = reader.parts(sides_of(model, result.target, ScoreSide::query));
  std::vector<ScorePart> keys = reader.parts(sides_of(model, result.target, ScoreSide::key));
  multiply_out(queries, keys, config.attn_scale_of_layer[static_cast<std::size_t>(target.layer)], result);
  result.queries = ranked(queries);
  result.keys = ranked(keys);

  const double products = result.none + result.by_query + result.by_key + result.by_both;
  result.sum = products + result.position_bias;
  result.soft_capped = config.attn_softcap > 0.0;
  const double capped =  // the cap comes before ALiBi's bias
      result.soft_capped ? config.attn_softcap * std::tanh(products / config.attn_softcap) : products;
  double size = std::abs(result.position_bias);
  for (std::size_t i = 0; i < result.pairs.size(); ++i) {
    size += std::abs(result.pairs[i].value);
    if (i < static_cast<std::size_t>(top)) continue;
    ++result.rest_count;
    result.rest_sum += result.pairs[i].value;
  }
  result.pairs.resize(std::min(result.pairs.size(), static_cast<std::size_t>(top)));
  result.closure = size > 0.0 ? std::abs(capped + result.position_bias - result.own) / size : std::abs(result.own);
  return result;
}

template QkExpansion expand_score(const Model&, const Trace&, const ScoreTarget&, Index);
template QkExpansion expand_score(const Model&, const TraceF64&, const ScoreTarget&, Index);

}  // namespace kirchhoff
