#include "kirchhoff/observe/attribution.h"

#include <fmt/format.h>

#include <cmath>  // for abs

#include "kirchhoff/base/parallel.h"
#include "observe/attribution_parts.h"
#include "observe/logit_direction.h"
#include "observe/one_sequence.h"

namespace kirchhoff {
namespace observe {

std::vector<PartRef> attribution_parts(const Model& model) {
  const ModelConfig& config = model.config;
  std::vector<PartRef> parts;
  const auto add = [&parts](std::string node, PartKind kind, Index layer = -1) {
    parts.push_back({.part = {std::move(node), kind, layer, -1, 0.0}, .source = {}});
  };
  const std::vector<StreamSource> sources = stream_sources(config, model.weights);
  for (Index layer = -1; layer < config.n_layers; ++layer) {
    for (Index head = 0; layer >= 0 && head < config.n_heads; ++head) {
      add(fmt::format("a{}.h{}", layer, head), PartKind::head, layer);
      parts.back().part.head = head;
    }
    for (const StreamSource& source : sources) {
      if (source.layer != layer) continue;
      const PartKind kind = source.kind == SourceKind::embed ? PartKind::embed
                            : source.kind == SourceKind::pos ? PartKind::pos
                            : source.kind == SourceKind::mlp ? PartKind::mlp
                                                             : PartKind::bias;
      add(source.node(), kind, layer);
      parts.back().source = source;
    }
  }
  const auto add_behind = [&](const char* node, PartRef::Behind behind) {
    add(node, PartKind::bias);
    parts.back().behind = behind;
  };
  if (config.final_norm && model.weights.ln_final.b.present()) add_behind("ln_final.b", PartRef::Behind::norm);
  if (model.weights.b_U.present()) add_behind("unembed.b", PartRef::Behind::unembed);
  return parts;
}

std::vector<LogitTarget> resolved(std::span<const LogitTarget> targets, Index length) {
  std::vector<LogitTarget> result(targets.begin(), targets.end());
  for (LogitTarget& target : result) target.pos = resolve_position(target.pos, length);
  return result;
}

namespace {

/// How the attention's output (heads, b_O) of a layer is read: W_O u for the columns [first, first + count), the
/// divisors taken as 1. [reading, count]
template <class Real>
TensorF64 through_W_O(const Model& model, const Readings& readings, Index layer, Index first, Index count) {
  const LayerWeights& w = model.weights.layers[static_cast<std::size_t>(layer)];
  if (!has_ln1_post(model.config)) return through<Real>(w.W_O, readings.directions, first, count);
  std::vector<Direction> in_front;
  for (const Direction& u : readings.directions) in_front.push_back(before_norm(model.config.norm, w.ln1_post, 1.0, u));
  return through<Real>(w.W_O, in_front, first, count);
}

/// What divides a target's reading of a layer's attention: the divisors of the final norm and of the one behind it.
template <class Real>
double attention_divisor(const Model& model, const BasicTrace<Real>& trace, const Readings& readings,
                         std::size_t target, Index layer, Index pos) {
  return readings.final_scale[target] * ln1_post_scale(model.config, trace, layer, pos);
}

template <class Real>
TensorF64 head_values(const Model& model, const BasicTrace<Real>& trace, std::span<const LogitTarget> targets,
                      const Readings& readings) {
  const ModelConfig& config = model.config;
  const Index heads = config.n_heads, d_head = config.d_head, width = heads * d_head;
  TensorF64 values({static_cast<Index>(targets.size()), config.n_layers, heads});
  parallel_for(config.n_layers, [&](Index layer) {
    const TensorF64 read = through_W_O<Real>(model, readings, layer, 0, width);
    for (std::size_t t = 0; t < targets.size(); ++t) {
      const Index pos = targets[t].pos;
      const Real* z = at_position(trace, Site::z, layer, pos).data();  // [head, d_head]
      const double* u = read.data() + readings.of_target[t] * width;
      const double divisor = attention_divisor(model, trace, readings, t, layer, pos);
      double* out = values.data() + (static_cast<Index>(t) * config.n_layers + layer) * heads;
      for (Index head = 0; head < heads; ++head) {
        double sum = 0.0;
        for (Index i = head * d_head; i < (head + 1) * d_head; ++i) sum += u[i] * static_cast<double>(z[i]);
        out[head] = sum / divisor;
      }
    }
  });
  return values;
}

}  // namespace
}  // namespace observe

using namespace observe;

std::string metric_name(const LogitTarget& target) {
  switch (target.readout) {
    case Readout::centred:
      return "logit(target) - mean(logits)";
    case Readout::loss:
      return "ln(vocabulary) - loss(target)";
    case Readout::logit:
      break;
  }
  return target.foil ? "logit(target) - logit(foil)" : "logit(target)";
}

double Attribution::total(PartKind kind) const {
  double sum_of_kind = 0.0;
  for (const AttributionPart& part : parts)
    if (part.kind == kind) sum_of_kind += part.value;
  return sum_of_kind;
}

std::vector<std::string> attribution_sites(const ModelConfig& config) {
  std::vector<std::string> sites = {site_name(Site::embed)};
  if (config.positions == Positions::learned) sites.push_back(site_name(Site::pos_embed));
  if (config.has_final_norm()) sites.push_back(site_name(Site::final_scale));
  if (config.logit_softcap > 0.0) sites.push_back(site_name(Site::unembed_out));
  for (Index layer = 0; layer < config.n_layers; ++layer) {
    sites.push_back(site_name(Site::z, layer));
    if (config.post_norm) sites.push_back(site_name(Site::ln1_post_scale, layer));
    if (!config.attn_only) sites.push_back(site_name(Site::mlp_out, layer));
  }
  return sites;
}

template <class Real>
std::vector<Attribution> attribute_logits(const Model& model, const BasicTrace<Real>& trace,
                                          std::span<const LogitTarget> asked) {
  const ModelConfig& config = model.config;
  const std::vector<LogitTarget> targets = resolved(asked, sequence_length(trace));
  const Readings readings = read_targets(model, trace, std::span<const LogitTarget>(targets));
  const TensorF64 heads = head_values(model, trace, std::span<const LogitTarget>(targets), readings);
  const std::vector<PartRef> parts = attribution_parts(model);

  std::vector<Attribution> results(targets.size());
  parallel_for(static_cast<Index>(targets.size()), [&](Index index) {
    const auto t = static_cast<std::size_t>(index);
    Attribution& result = results[t];
    result.target = targets[t];
    result.final_scale = readings.final_scale[t];
    std::vector<Real> written(static_cast<std::size_t>(config.d_model));
    double size = 0.0;
    for (const PartRef& ref : parts) {
      result.parts.push_back(ref.part);
      double& value = result.parts.back().value;
      if (ref.source) {
        write_source(model, trace, *ref.source, result.target.pos, std::span<Real>(written));
        value = dot(readings.direction(t), written.data()) / result.final_scale;
      } else if (ref.part.kind == PartKind::head) {
        value = heads[(index * config.n_layers + ref.part.layer) * config.n_heads + ref.part.head];
      } else {
        value = ref.behind == PartRef::Behind::norm ? readings.norm_bias[readings.reading(t)]
                                                    : readings.unembed_bias[readings.reading(t)];
      }
      result.sum += value;
      size += std::abs(value);
    }
    const OwnLogit own = own_logit(model, trace, result.target);
    result.own = own.value;
    result.soft_capped = own.soft_capped;
    result.closure = size > 0.0 ? std::abs(result.sum - result.own) / size : std::abs(result.own);
  });
  return results;
}

template <class Real>
Attribution attribute_logit(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target) {
  return std::move(attribute_logits(model, trace, std::span(&target, 1)).front());
}

template <class Real>
TensorF64 attribute_heads(const Model& model, const BasicTrace<Real>& trace, std::span<const LogitTarget> asked) {
  const std::vector<LogitTarget> targets = resolved(asked, sequence_length(trace));
  return head_values(model, trace, std::span<const LogitTarget>(targets),
                     read_targets(model, trace, std::span<const LogitTarget>(targets)));
}

template <class Real>
TensorF64 attribute_sources(const Model& model, const BasicTrace<Real>& trace, std::span<const LogitTarget> asked,
                            Index layer, Index head) {
  const ModelConfig& config = model.config;
  check(layer >= 0 && layer < config.n_layers && head >= 0 && head < config.n_heads, ErrorCode::usage,
        "head {}.{} is not in a model of {} layers with {} heads", layer, head, config.n_layers, config.n_heads);
  const Index length = sequence_length(trace), d_head = config.d_head;
  const std::vector<LogitTarget> targets = resolved(asked, length);
  const Readings readings = read_targets(model, trace, std::span<const LogitTarget>(targets));
  const TensorF64 read = through_W_O<Real>(model, readings, layer, head * d_head, d_head);
  const Index kv_head = head / (config.n_heads / config.n_kv_heads);
  const auto& pattern = trace.at(site_name(Site::pattern, layer));  // [1, head, query, key]
  TensorF64 shares({static_cast<Index>(targets.size()), length});
  parallel_for(shares.dim(0), [&](Index t) {
    const auto target = static_cast<std::size_t>(t);
    const Index pos = targets[target].pos;
    const double* u = read.data() + readings.of_target[target] * d_head;
    const double divisor = attention_divisor(model, trace, readings, target, layer, pos);
    const Real* row = pattern.data() + (head * length + pos) * length;
    for (Index key = 0; key < length; ++key) {
      const Real* v = at_position(trace, Site::v, layer, key).data() + kv_head * d_head;
      double value = 0.0;
      for (Index i = 0; i < d_head; ++i) value += u[i] * static_cast<double>(v[i]);
      shares[t * length + key] = static_cast<double>(row[key]) * value / divisor;
    }
  });
  return shares;
}

template <class Real>
std::vector<double> attribute_sources(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target,
                                      Index layer, Index head) {
  const TensorF64 shares = attribute_sources(model, trace, std::span(&target, 1), layer, head);
  return {shares.data(), shares.data() + shares.size()};
}

#define KIRCHHOFF_INSTANTIATE(Real)                                                                                \
  template Attribution attribute_logit(const Model&, const BasicTrace<Real>&, const LogitTarget&);                 \
  template std::vector<Attribution> attribute_logits(const Model&, const BasicTrace<Real>&,                        \
                                                     std::span<const LogitTarget>);                                \
  template TensorF64 attribute_heads(const Model&, const BasicTrace<Real>&, std::span<const LogitTarget>);         \
  template TensorF64 attribute_sources(const Model&, const BasicTrace<Real>&, std::span<const LogitTarget>, Index, \
                                       Index);                                                                     \
  template std::vector<double> attribute_sources(const Model&, const BasicTrace<Real>&, const LogitTarget&, Index, \
                                                 Index);
KIRCHHOFF_INSTANTIATE(float)
KIRCHHOFF_INSTANTIATE(double)
#undef KIRCHHOFF_INSTANTIATE

}  // namespace kirchhoff
