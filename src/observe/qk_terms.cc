#include "kirchhoff/observe/qk_terms.h"

#include <fmt/format.h>

#include <algorithm>  // for max_element, min, stable_sort
#include <cmath>      // for abs, cos, isfinite, sin, sqrt, tanh

#include "kirchhoff/base/parallel.h"
#include "observe/one_sequence.h"
#include "observe/stream_sources.h"

namespace kirchhoff {
namespace {

using namespace observe;
using Vector = std::vector<double>;

/// A writer with what it makes of one side.
struct Part {
  QkWriter writer;
  bool component = false;
  Vector vector;  ///< [d_model], then [d_head]: the part of q or k
};

/// One side of the score: the projection that reads the stream, and where.
struct Side {
  const WeightMatrix& W;
  const WeightVector &bias, &gain;
  Site site;       ///< of the projected values, before norm and rotation
  Index head = 0;  ///< among those of the projection
  Index pos = 0;
  const char* constant;  ///< "b_Q"
};

template <class Real>
class ScoreReader {
 public:
  ScoreReader(const Model& model, const BasicTrace<Real>& trace, Index layer)
      : model_(model), config_(model.config), trace_(trace), layer_(layer), weights_(of_layer(layer)) {}

  /// q or k as a sum over the writers of the stream.
  std::vector<Part> parts(const Side& side) const {
    std::vector<Part> parts = stream_parts(side.pos);
    if (has_ln1(config_)) {
      const double scale = ln1_scale(config_, trace_, layer_, side.pos);
      for (Part& part : parts) through_norm(config_.norm, weights_.ln1, scale, std::span<double>(part.vector));
    }
    if (config_.positions == Positions::shortformer) {
      const std::span<const Real> pos = at_position(trace_, Site::pos_embed, 0, side.pos);
      parts.push_back({{"pos"}, false, Vector(pos.begin(), pos.end())});
    }
    const bool norm_bias = has_ln1(config_) && weights_.ln1.b.present();
    if (norm_bias || side.bias.present())
      parts.push_back({{fmt::format("a{}.{}", layer_, side.constant)},
                       false,
                       norm_bias ? weights_.ln1.b.f64() : Vector(static_cast<std::size_t>(config_.d_model), 0.0)});
    project(side, parts);
    if (side.bias.present())
      for (Index i = 0; i < config_.d_head; ++i)
        parts.back().vector[static_cast<std::size_t>(i)] +=
            side.bias.f64()[static_cast<std::size_t>(side.head * config_.d_head + i)];
    for (Part& part : parts) {
      normalise(side, part.vector);
      rotate(side.pos, part.vector);
    }
    return parts;
  }

 private:
  const LayerWeights& of_layer(Index layer) const { return model_.weights.layers[static_cast<std::size_t>(layer)]; }

  /// What everything below the layer wrote to the stream at one position.
  std::vector<Part> stream_parts(Index pos) const {
    const std::vector<StreamSource> sources = stream_sources(config_, model_.weights);
    std::vector<Part> parts;
    for (Index s = 0; s < sources_below(sources, layer_); ++s) {
      const StreamSource& source = sources[static_cast<std::size_t>(s)];
      std::vector<Real> x(static_cast<std::size_t>(config_.d_model));
      write_source(model_, trace_, source, pos, std::span<Real>(x));
      parts.push_back({{source.node()}, source.kind == SourceKind::mlp, Vector(x.begin(), x.end())});
    }
    std::vector<std::vector<Part>> heads(static_cast<std::size_t>(layer_));
    parallel_for(layer_, [&](Index layer) { heads[static_cast<std::size_t>(layer)] = head_parts(layer, pos); });
    for (std::vector<Part>& of : heads)
      for (Part& part : of) parts.push_back(std::move(part));
    return parts;
  }

  /// What every head of a layer wrote.
  std::vector<Part> head_parts(Index layer, Index pos) const {
    const TensorF64 written = write_heads(model_, trace_, layer, pos);
    std::vector<Part> parts;
    for (Index head = 0; head < config_.n_heads; ++head) {
      const std::span<const double> row = written.view<2>().row(head);
      parts.push_back({head_writer(layer, head, pos), true, Vector(row.begin(), row.end())});
    }
    return parts;
  }

  QkWriter head_writer(Index layer, Index head, Index pos) const {
    const auto& pattern = trace_.at(site_name(Site::pattern, layer));  // [1, head, query, key]
    const Index length = pattern.dim(3);
    const Real* row = pattern.data() + (head * length + pos) * length;
    const Index key = std::max_element(row, row + length) - row;
    return {fmt::format("a{}.h{}", layer, head), 0.0, key, static_cast<double>(row[key])};
  }

  /// vector := vector W of the side's head.
  void project(const Side& side, std::vector<Part>& parts) const {
    const Index d_head = config_.d_head, d_model = config_.d_model;
    std::vector<float> rows(static_cast<std::size_t>(d_head * d_model));
    side.W.rows(side.head * d_head, (side.head + 1) * d_head, rows.data());
    parallel_for(static_cast<Index>(parts.size()), [&](Index p) {
      Vector& vector = parts[static_cast<std::size_t>(p)].vector;
      Vector projected(static_cast<std::size_t>(d_head), 0.0);
      for (Index i = 0; i < d_head; ++i)
        for (Index j = 0; j < d_model; ++j)
          projected[static_cast<std::size_t>(i)] +=
              static_cast<double>(rows[static_cast<std::size_t>(i * d_model + j)]) *
              vector[static_cast<std::size_t>(j)];
      vector = std::move(projected);
    });
  }

  /// The RMS norm of queries or keys with the divisor of this run: of the head, or of all heads together.
  void normalise(const Side& side, Vector& x) const {
    if (config_.qk_norm == QkNorm::none) return;
    const bool per_head = config_.qk_norm == QkNorm::per_head;
    const Index d_head = config_.d_head, first = side.head * d_head;
    std::span<const Real> all = at_position(trace_, side.site, layer_, side.pos);
    if (per_head) all = all.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(d_head));
    double squares = 0.0;
    for (const Real value : all) squares += static_cast<double>(value) * static_cast<double>(value);
    const double divisor = std::sqrt(squares / static_cast<double>(all.size()) + config_.norm_eps);
    const Index gain_first = side.gain.size() == d_head ? 0 : first;
    for (Index i = 0; i < d_head; ++i)
      x[static_cast<std::size_t>(i)] *=
          (side.gain.present() ? side.gain.f64()[static_cast<std::size_t>(gain_first + i)] : 1.0) / divisor;
  }

  void rotate(Index pos, Vector& x) const {
    if (config_.positions != Positions::rotary) return;
    const Index table = config_.rotary_table_of_layer[static_cast<std::size_t>(layer_)];
    const std::vector<double>& inv_freq = config_.rotary_tables[static_cast<std::size_t>(table)].inv_freq;
    for (std::size_t j = 0; j < inv_freq.size(); ++j) {
      double& a = x[config_.rotary_adjacent ? 2 * j : j];
      double& b = x[config_.rotary_adjacent ? 2 * j + 1 : j + inv_freq.size()];
      const double angle = static_cast<double>(pos) * inv_freq[j], c = std::cos(angle), s = std::sin(angle);
      const double turned = a * c - b * s;
      b = b * c + a * s;
      a = turned;
    }
  }

  const Model& model_;
  const ModelConfig& config_;
  const BasicTrace<Real>& trace_;
  Index layer_;
  const LayerWeights& weights_;
};

template <class T>
void largest_first(std::vector<T>& list) {
  std::stable_sort(list.begin(), list.end(),
                   [](const T& a, const T& b) { return std::abs(a.value) > std::abs(b.value); });
}

std::vector<QkWriter> ranked(const std::vector<Part>& parts) {
  std::vector<QkWriter> writers;
  for (const Part& part : parts) writers.push_back(part.writer);
  largest_first(writers);
  return writers;
}

/// The terms of every pair, into the groups, the writers' values and the list.
void multiply_out(std::vector<Part>& queries, std::vector<Part>& keys, double scale, QkExpansion& result) {
  for (Part& q : queries)
    for (Part& k : keys) {
      double value = 0.0;
      for (std::size_t i = 0; i < q.vector.size(); ++i) value += q.vector[i] * k.vector[i];
      value *= scale;
      q.writer.value += value;
      k.writer.value += value;
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
  const Index layer = target.layer, head = target.head, length = sequence_length(trace);
  check(layer >= 0 && layer < config.n_layers && head >= 0 && head < config.n_heads, ErrorCode::usage,
        "head {}.{} is not in a model of {} layers with {} heads", layer, head, config.n_layers, config.n_heads);
  check(top >= 0, ErrorCode::usage, "{} pairs to list: at least 0", top);
  QkExpansion result;
  result.target = target;
  const Index query = result.target.query_pos = resolve_position(target.query_pos, length);
  const Index key = result.target.key_pos = resolve_position(target.key_pos, length);
  const auto& scores = trace.at(site_name(Site::attn_scores, layer));  // [1, head, query, key]
  result.own = static_cast<double>(scores[(head * length + query) * length + key]);
  check(std::isfinite(result.own), ErrorCode::usage,
        "position {} is hidden from the queries of position {} in layer {}", key, query, layer);

  const LayerWeights& w = model.weights.layers[static_cast<std::size_t>(layer)];
  const ScoreReader<Real> reader(model, trace, layer);
  std::vector<Part> queries = reader.parts({w.W_Q, w.b_Q, w.q_norm, Site::q, head, query, "b_Q"});
  const Index kv_head = head / (config.n_heads / config.n_kv_heads);
  std::vector<Part> keys = reader.parts({w.W_K, w.b_K, w.k_norm, Site::k, kv_head, key, "b_K"});
  multiply_out(queries, keys, config.attn_scale_of_layer[static_cast<std::size_t>(layer)], result);
  result.queries = ranked(queries);
  result.keys = ranked(keys);
  if (config.positions == Positions::alibi)
    result.position_bias = config.alibi_slopes[static_cast<std::size_t>(head)] * static_cast<double>(key - query);

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
