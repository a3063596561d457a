#include "kirchhoff/observe/attribution.h"

#include <fmt/format.h>

#include <cmath>  // for abs

#include "kirchhoff/base/parallel.h"
#include "observe/logit_direction.h"
#include "observe/one_sequence.h"

namespace kirchhoff {
namespace {

using namespace observe;

/// The parts of one layer: heads, attention biases, MLP.
template <class Real>
std::vector<AttributionPart> layer_parts(const Model& model, const BasicTrace<Real>& trace, Index layer, Index pos,
                                         const Direction& stream) {
  const ModelConfig& config = model.config;
  const LayerWeights& weights = model.weights.layers[static_cast<std::size_t>(layer)];
  const Direction u = attention_direction(model, trace, layer, pos, stream);
  const std::vector<double> through_W_O = output_direction(weights.W_O, u);
  const std::span<const Real> z = at_position(trace, Site::z, layer, pos);  // [head, d_head]

  std::vector<AttributionPart> parts;
  for (Index head = 0; head < config.n_heads; ++head) {
    double value = 0.0;
    for (Index i = head * config.d_head; i < (head + 1) * config.d_head; ++i)
      value += through_W_O[static_cast<std::size_t>(i)] * static_cast<double>(z[static_cast<std::size_t>(i)]);
    parts.push_back({fmt::format("a{}.h{}", layer, head), PartKind::head, layer, head, value});
  }
  if (weights.b_O.present())
    parts.push_back({fmt::format("a{}.b_O", layer), PartKind::bias, layer, -1, dot(u, weights.b_O)});
  if (config.post_norm && weights.ln1_post.b.present())
    parts.push_back({fmt::format("a{}.ln_post.b", layer), PartKind::bias, layer, -1, dot(stream, weights.ln1_post.b)});
  if (!config.attn_only)
    parts.push_back({fmt::format("m{}", layer), PartKind::mlp, layer, -1,
                     dot(stream, at_position(trace, Site::mlp_out, layer, pos).data())});
  return parts;
}

}  // namespace

double Attribution::total(PartKind kind) const {
  double sum_of_kind = 0.0;
  for (const AttributionPart& part : parts)
    if (part.kind == kind) sum_of_kind += part.value;
  return sum_of_kind;
}

std::vector<std::string> attribution_sites(const ModelConfig& config) {
  std::vector<std::string> sites = {site_name(Site::embed)};
  if (config.positions == Positions::learned) sites.push_back(site_name(Site::pos_embed));
  if (config.final_norm && config.norm != NormKind::none) sites.push_back(site_name(Site::final_scale));
  if (config.logit_softcap > 0.0) sites.push_back(site_name(Site::unembed_out));
  for (Index layer = 0; layer < config.n_layers; ++layer) {
    sites.push_back(site_name(Site::z, layer));
    if (config.post_norm) sites.push_back(site_name(Site::ln1_post_scale, layer));
    if (!config.attn_only) sites.push_back(site_name(Site::mlp_out, layer));
  }
  return sites;
}

template <class Real>
Attribution attribute_logit(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target) {
  const ModelConfig& config = model.config;
  Attribution result;
  result.target = target;
  const Index pos = result.target.pos = resolve_position(target.pos, sequence_length(trace));
  const LogitDirection direction = logit_direction(model, trace, target, pos);
  result.final_scale = direction.final_scale;

  const auto add = [&result](std::string node, PartKind kind, double value) {
    result.parts.push_back({std::move(node), kind, -1, -1, value});
  };
  add("embed", PartKind::embed, dot(direction.stream, at_position(trace, Site::embed, 0, pos).data()));
  if (config.positions == Positions::learned)
    add("pos", PartKind::pos, dot(direction.stream, at_position(trace, Site::pos_embed, 0, pos).data()));
  std::vector<std::vector<AttributionPart>> layers(static_cast<std::size_t>(config.n_layers));
  parallel_for(config.n_layers, [&](Index layer) {
    layers[static_cast<std::size_t>(layer)] = layer_parts(model, trace, layer, pos, direction.stream);
  });
  for (auto& parts : layers) result.parts.insert(result.parts.end(), parts.begin(), parts.end());
  if (model.weights.ln_final.b.present()) add("ln_final.b", PartKind::bias, direction.norm_bias);
  if (model.weights.b_U.present()) add("unembed.b", PartKind::bias, direction.unembed_bias);

  const OwnLogit own = own_logit(model, trace, result.target);
  result.own = own.value;
  result.soft_capped = own.soft_capped;
  double size = 0.0;
  for (const AttributionPart& part : result.parts) {
    result.sum += part.value;
    size += std::abs(part.value);
  }
  result.closure = size > 0.0 ? std::abs(result.sum - result.own) / size : std::abs(result.own);
  return result;
}

template <class Real>
std::vector<double> attribute_sources(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target,
                                      Index layer, Index head) {
  const ModelConfig& config = model.config;
  const Index length = sequence_length(trace), pos = resolve_position(target.pos, length);
  const LogitDirection direction = logit_direction(model, trace, target, pos);
  const Direction u = attention_direction(model, trace, layer, pos, direction.stream);
  const std::vector<double> through_W_O =
      output_direction(model.weights.layers.at(static_cast<std::size_t>(layer)).W_O, u);
  check(head >= 0 && head < config.n_heads, ErrorCode::usage, "head {} is not one of {}", head, config.n_heads);
  const Index kv_head = head / (config.n_heads / config.n_kv_heads);
  const auto& pattern = trace.at(site_name(Site::pattern, layer));  // [1, head, query, key]
  std::vector<double> shares(static_cast<std::size_t>(length), 0.0);
  for (Index key = 0; key < length; ++key) {
    const Real* v = at_position(trace, Site::v, layer, key).data() + kv_head * config.d_head;
    double value = 0.0;
    for (Index i = 0; i < config.d_head; ++i)
      value += through_W_O[static_cast<std::size_t>(head * config.d_head + i)] * static_cast<double>(v[i]);
    shares[static_cast<std::size_t>(key)] = static_cast<double>(pattern[(head * length + pos) * length + key]) * value;
  }
  return shares;
}

template Attribution attribute_logit(const Model&, const Trace&, const LogitTarget&);
template Attribution attribute_logit(const Model&, const TraceF64&, const LogitTarget&);
template std::vector<double> attribute_sources(const Model&, const Trace&, const LogitTarget&, Index, Index);
template std::vector<double> attribute_sources(const Model&, const TraceF64&, const LogitTarget&, Index, Index);

}  // namespace kirchhoff
