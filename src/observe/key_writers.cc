#include "kirchhoff/observe/key_writers.h"

#include <cmath>  // for cos, sin, sqrt

#include "kirchhoff/base/parallel.h"
#include "observe/logit_direction.h"
#include "observe/one_sequence.h"
#include "observe/stream_sources.h"

namespace kirchhoff {
namespace {

using namespace observe;

/// Queries and keys of one layer as its scores see them.
template <class Real>
class ScoredHead {
 public:
  ScoredHead(const Model& model, const BasicTrace<Real>& trace, Index layer, Index head)
      : config_(model.config),
        weights_(model.weights.layers[static_cast<std::size_t>(layer)]),
        trace_(trace),
        layer_(layer),
        head_(head),
        kv_head_(head / (config_.n_heads / config_.n_kv_heads)) {}

  /// After the norm of queries, where there is one, and the rotation; times the scale of the scores.
  Direction query(Index pos) const {
    Direction q = projected(Site::q, head_, pos);
    scale_by_norm(Site::q, weights_.q_norm, head_, pos, q);
    rotate(pos, 1.0, q);
    for (double& x : q) x *= config_.attn_scale_of_layer[static_cast<std::size_t>(layer_)];
    return q;
  }
  Direction key(Index pos) const { return projected(Site::k, kv_head_, pos); }
  /// How the projected key of `pos` is read by a query: query . key = back(query) . projected key.
  Direction before_key(Direction query, Index pos) const {
    rotate(pos, -1.0, query);
    scale_by_norm(Site::k, weights_.k_norm, kv_head_, pos, query);
    return query;
  }
  /// The same in front of W_K and of the norm before the attention: how the stream is read.
  Direction before_projection(const Direction& read, Index pos, std::span<const float> W_K) const {
    Direction u(static_cast<std::size_t>(config_.d_model), 0.0);
    for (std::size_t i = 0; i < read.size(); ++i)
      for (std::size_t j = 0; j < u.size(); ++j) u[j] += read[i] * static_cast<double>(W_K[i * u.size() + j]);
    if (has_ln1(config_))
      back_through_norm(config_.norm, weights_.ln1, ln1_scale(config_, trace_, layer_, pos), std::span<double>(u));
    return u;
  }
  std::vector<float> key_weights() const {
    std::vector<float> rows(static_cast<std::size_t>(config_.d_head * config_.d_model));
    weights_.W_K.rows(kv_head_ * config_.d_head, (kv_head_ + 1) * config_.d_head, rows.data());
    return rows;
  }

 private:
  Direction projected(Site site, Index head, Index pos) const {
    const auto all =
        at_position(trace_, site, layer_, pos)
            .subspan(static_cast<std::size_t>(head * config_.d_head), static_cast<std::size_t>(config_.d_head));
    return {all.begin(), all.end()};
  }
  /// Gain and held divisor: a diagonal map, so it is its own transpose.
  void scale_by_norm(Site site, const WeightVector& gain, Index head, Index pos, Direction& x) const {
    if (config_.qk_norm == QkNorm::none) return;
    const std::span<const Real> all = at_position(trace_, site, layer_, pos);
    const Index first = head * config_.d_head;
    const bool per_head = config_.qk_norm == QkNorm::per_head;
    const auto own = per_head ? all.subspan(static_cast<std::size_t>(first), x.size()) : all;
    double squares = 0.0;
    for (const Real value : own) squares += static_cast<double>(value) * static_cast<double>(value);
    const double divisor = std::sqrt(squares / static_cast<double>(own.size()) + config_.norm_eps);
    const Index gain_first = gain.size() == config_.d_head ? 0 : first;
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] *= (gain.present() ? gain.f64()[static_cast<std::size_t>(gain_first) + i] : 1.0) / divisor;
  }
  /// By pos times the frequencies, forwards (sign 1) or back (-1).
  void rotate(Index pos, double sign, Direction& x) const {
    if (config_.positions != Positions::rotary) return;
    const Index table = config_.rotary_table_of_layer[static_cast<std::size_t>(layer_)];
    const std::vector<double>& inv_freq = config_.rotary_tables[static_cast<std::size_t>(table)].inv_freq;
    for (std::size_t j = 0; j < inv_freq.size(); ++j) {
      double& a = x[config_.rotary_adjacent ? 2 * j : j];
      double& b = x[config_.rotary_adjacent ? 2 * j + 1 : j + inv_freq.size()];
      const double angle = sign * static_cast<double>(pos) * inv_freq[j], c = std::cos(angle), s = std::sin(angle);
      const double turned = a * c - b * s;
      b = b * c + a * s;
      a = turned;
    }
  }

  const ModelConfig& config_;
  const LayerWeights& weights_;
  const BasicTrace<Real>& trace_;
  Index layer_, head_, kv_head_;
};

}  // namespace

std::vector<std::string> key_writer_sites(const ModelConfig& config, Index layer) {
  std::vector<std::string> sites = {site_name(Site::q, layer), site_name(Site::k, layer)};
  if (has_ln1(config)) sites.push_back(site_name(Site::ln1_scale, layer));
  for (Index below = 0; below < layer; ++below) {
    sites.push_back(site_name(Site::z, below));
    if (has_ln1_post(config)) sites.push_back(site_name(Site::ln1_post_scale, below));
  }
  return sites;
}

template <class Real>
KeyWriters key_writers(const Model& model, const BasicTrace<Real>& trace, Index layer, Index head, Index query_pos,
                       std::span<const Index> keys) {
  const ModelConfig& config = model.config;
  check(layer >= 0 && layer < config.n_layers && head >= 0 && head < config.n_heads, ErrorCode::usage,
        "head {}.{} is not in a model of {} layers with {} heads", layer, head, config.n_layers, config.n_heads);
  const Index length = sequence_length(trace), heads = config.n_heads, d_head = config.d_head;
  const ScoredHead<Real> scored(model, trace, layer, head);
  const Direction query = scored.query(resolve_position(query_pos, length));
  const std::vector<float> W_K = scored.key_weights();
  KeyWriters result;
  std::vector<Index> at;
  std::vector<Direction> reads;  // [key][d_model]
  for (const Index key : keys) {
    at.push_back(resolve_position(key, length));
    const Direction read = scored.before_key(query, at.back());
    result.scores.push_back(dot(read, scored.key(at.back()).data()));
    reads.push_back(scored.before_projection(read, at.back(), W_K));
    result.heads.emplace_back(static_cast<std::size_t>(layer * heads));
  }
  parallel_for(layer, [&](Index below) {
    const LayerWeights& w = model.weights.layers[static_cast<std::size_t>(below)];
    std::vector<Direction> behind = reads;
    if (has_ln1_post(config))
      for (std::size_t k = 0; k < behind.size(); ++k)
        back_through_norm(config.norm, w.ln1_post, ln1_post_scale(config, trace, below, at[k]),
                          std::span<double>(behind[k]));
    const TensorF64 outputs = through<Real>(w.W_O, behind, 0, w.W_O.d_in());  // [key][head, d_head]
    for (std::size_t k = 0; k < behind.size(); ++k) {
      const Real* z = at_position(trace, Site::z, below, at[k]).data();
      for (Index h = 0; h < heads; ++h) {
        double value = 0.0;
        for (Index i = h * d_head; i < (h + 1) * d_head; ++i)
          value += outputs[static_cast<Index>(k) * w.W_O.d_in() + i] * static_cast<double>(z[i]);
        result.heads[k][static_cast<std::size_t>(below * heads + h)] = value;
      }
    }
  });
  return result;
}

template KeyWriters key_writers(const Model&, const Trace&, Index, Index, Index, std::span<const Index>);
template KeyWriters key_writers(const Model&, const TraceF64&, Index, Index, Index, std::span<const Index>);

}  // namespace kirchhoff
