#include "observe/score_reader.h"

#include <fmt/format.h>

#include <algorithm>  // for find_if, max_element
#include <cmath>      // for atanh, cos, exp, isfinite, sin, sqrt

#include "kirchhoff/base/parallel.h"
#include "observe/logit_direction.h"
#include "observe/one_sequence.h"
#include "observe/stream_sources.h"

namespace kirchhoff::observe {

template <class Real>
RecordedScore recorded_score(const ModelConfig& config, const BasicTrace<Real>& trace, const ScoreTarget& target) {
  const Index layer = target.layer, head = target.head, length = sequence_length(trace);
  check(layer >= 0 && layer < config.n_layers && head >= 0 && head < config.n_heads, ErrorCode::usage,
        "head {}.{} is not in a model of {} layers with {} heads", layer, head, config.n_layers, config.n_heads);
  RecordedScore score{.target = target};
  const Index query = score.target.query_pos = resolve_position(target.query_pos, length);
  const Index key = score.target.key_pos = resolve_position(target.key_pos, length);
  const auto& scores = trace.at(site_name(Site::attn_scores, layer));  // [1, head, query, key]
  score.value = static_cast<double>(scores[(head * length + query) * length + key]);
  check(std::isfinite(score.value), ErrorCode::usage,
        "position {} is hidden from the queries of position {} in layer {}", key, query, layer);
  if (config.positions == Positions::alibi)
    score.position_bias = config.alibi_slopes[static_cast<std::size_t>(head)] * static_cast<double>(key - query);
  score.product = score.value - score.position_bias;  // the cap comes before ALiBi's bias
  if (config.attn_softcap > 0.0) score.product = config.attn_softcap * std::atanh(score.product / config.attn_softcap);
  return score;
}

SidesOfScore sides_of(const Model& model, const ScoreTarget& target, ScoreSide side) {
  const LayerWeights& w = model.weights.layers[static_cast<std::size_t>(target.layer)];
  const Index query = target.query_pos, key = target.key_pos;
  if (side == ScoreSide::query) return {{w.W_Q, w.b_Q, w.q_norm, Site::q, target.head, query, query, 1.0, "b_Q"}};
  const Index kv_head = target.head / (model.config.n_heads / model.config.n_kv_heads);
  SidesOfScore sides = {{w.W_K, w.b_K, w.k_norm, Site::k, kv_head, key, key, 1.0, "b_K"}};
  if (!model.config.smeared_keys || key == 0) return sides;
  const double alpha = w.smear.f64()[static_cast<std::size_t>(kv_head)];
  sides.push_back(sides.front());
  sides.front().share = 1.0 / (1.0 + std::exp(-alpha));
  sides.back().share = 1.0 / (1.0 + std::exp(alpha));
  sides.back().pos = key - 1;
  return sides;
}

template <class Real>
std::vector<ScorePart> ScoreReader<Real>::parts(const SidesOfScore& sides) const {
  std::vector<ScorePart> parts = parts_of_one(sides.front());
  if (sides.size() == 1) return parts;
  std::vector<ScorePart> before = parts_of_one(sides.back());  // the same writers in the same order
  for (std::size_t p = 0; p < parts.size(); ++p) {
    for (std::size_t i = 0; i < parts[p].vector.size(); ++i) parts[p].vector[i] += before[p].vector[i];
    parts[p].before = std::move(before[p].vector);
  }
  return parts;
}

template <class Real>
std::vector<ScorePart> ScoreReader<Real>::parts_of_one(const SideOfScore& side) const {
  std::vector<ScorePart> parts = stream_parts(side.pos);
  if (has_ln1(config_)) {
    const double scale = ln1_scale(config_, trace_, layer_, side.pos);
    for (ScorePart& part : parts) through_norm(config_.norm, weights_.ln1, scale, std::span<double>(part.vector));
  }
  for (ScorePart& part : constants(side)) parts.push_back(std::move(part));
  finish(side, parts);
  return parts;
}

template <class Real>
std::vector<double> ScoreReader<Real>::part_of(const SideOfScore& side, std::vector<double> stream) const {
  if (has_ln1(config_))
    through_norm(config_.norm, weights_.ln1, ln1_scale(config_, trace_, layer_, side.pos), std::span<double>(stream));
  std::vector<ScorePart> part(1);
  part.front().vector = std::move(stream);
  finish(side, part);
  return std::move(part.front().vector);
}

template <class Real>
std::vector<double> ScoreReader<Real>::constant_part(const SidesOfScore& sides, const std::string& name) const {
  std::vector<double> sum(static_cast<std::size_t>(config_.d_head), 0.0);
  for (const SideOfScore& side : sides) {
    std::vector<ScorePart> parts = constants(side);
    finish(side, parts);
    const auto part =
        std::find_if(parts.begin(), parts.end(), [&name](const ScorePart& p) { return p.writer.node == name; });
    check(part != parts.end(), ErrorCode::internal, "a score has no constant '{}'", name);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part->vector[i];
  }
  return sum;
}

template <class Real>
std::vector<ScorePart> ScoreReader<Real>::constants(const SideOfScore& side) const {
  std::vector<ScorePart> parts;
  if (config_.positions == Positions::shortformer) {
    const std::span<const Real> pos = at_position(trace_, Site::pos_embed, 0, side.pos);
    parts.push_back({{"pos"}, false, std::vector<double>(pos.begin(), pos.end())});
  }
  const bool norm_bias = has_ln1(config_) && weights_.ln1.b.present();
  if (has_constant(side))
    parts.push_back(
        {{fmt::format("a{}.{}", layer_, side.constant)},
         false,
         norm_bias ? weights_.ln1.b.f64() : std::vector<double>(static_cast<std::size_t>(config_.d_model), 0.0)});
  return parts;
}

template <class Real>
void ScoreReader<Real>::finish(const SideOfScore& side, std::vector<ScorePart>& parts) const {
  project(side, parts);
  const std::string constant = fmt::format("a{}.{}", layer_, side.constant);
  for (ScorePart& part : parts) {
    if (part.writer.node == constant && side.bias.present())
      for (Index i = 0; i < config_.d_head; ++i)
        part.vector[static_cast<std::size_t>(i)] +=
            side.bias.f64()[static_cast<std::size_t>(side.head * config_.d_head + i)];
    to_score(side, part.vector);
    rotate(side.turn, 1.0, part.vector);
  }
}

template <class Real>
std::vector<double> ScoreReader<Real>::whole(const SidesOfScore& sides) const {
  std::vector<double> sum(static_cast<std::size_t>(config_.d_head), 0.0);
  for (const SideOfScore& side : sides) {
    const std::span<const Real> all = at_position(trace_, side.site, layer_, side.pos);
    const auto head =
        all.subspan(static_cast<std::size_t>(side.head * config_.d_head), static_cast<std::size_t>(config_.d_head));
    std::vector<double> vector(head.begin(), head.end());
    to_score(side, vector);
    rotate(side.turn, 1.0, vector);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += vector[i];
  }
  return sum;
}

template <class Real>
SideReading ScoreReader<Real>::reading(const SideOfScore& side, const std::vector<double>& other) const {
  // 1. Back through rotation, smearing, norm and projection.
  std::vector<double> projected = other;
  rotate(side.turn, -1.0, projected);
  to_score(side, projected);
  std::vector<float> row(static_cast<std::size_t>(config_.d_model));
  Direction u(row.size(), 0.0);
  for (Index i = 0; i < config_.d_head; ++i) {
    side.W.rows(side.head * config_.d_head + i, side.head * config_.d_head + i + 1, row.data());
    for (std::size_t j = 0; j < u.size(); ++j)
      u[j] += projected[static_cast<std::size_t>(i)] * static_cast<double>(row[j]);
  }

  // 2. What does not come from the stream.
  SideReading result;
  if (config_.positions == Positions::shortformer)
    result.constants.emplace_back("pos", dot(u, at_position(trace_, Site::pos_embed, 0, side.pos).data()));
  if (has_constant(side)) {
    double constant = has_ln1(config_) ? dot(u, weights_.ln1.b) : 0.0;
    if (side.bias.present())
      for (Index i = 0; i < config_.d_head; ++i)
        constant += projected[static_cast<std::size_t>(i)] *
                    side.bias.f64()[static_cast<std::size_t>(side.head * config_.d_head + i)];
    result.constants.emplace_back(fmt::format("a{}.{}", layer_, side.constant), constant);
  }

  // 3. Back through the norm before the attention.
  result.direction = has_ln1(config_)
                         ? before_norm(config_.norm, weights_.ln1, ln1_scale(config_, trace_, layer_, side.pos), u)
                         : std::move(u);
  return result;
}

template <class Real>
bool ScoreReader<Real>::has_constant(const SideOfScore& side) const {
  return side.bias.present() || (has_ln1(config_) && weights_.ln1.b.present());
}

/// What everything below the layer wrote to the stream at one position.
template <class Real>
std::vector<ScorePart> ScoreReader<Real>::stream_parts(Index pos) const {
  const std::vector<StreamSource> sources = stream_sources(config_, model_.weights);
  std::vector<ScorePart> parts;
  for (Index s = 0; s < sources_below(sources, layer_); ++s) {
    const StreamSource& source = sources[static_cast<std::size_t>(s)];
    std::vector<Real> x(static_cast<std::size_t>(config_.d_model));
    write_source(model_, trace_, source, pos, std::span<Real>(x));
    parts.push_back({{source.node()}, source.kind == SourceKind::mlp, std::vector<double>(x.begin(), x.end())});
  }
  std::vector<std::vector<ScorePart>> heads(static_cast<std::size_t>(layer_));
  parallel_for(layer_, [&](Index layer) { heads[static_cast<std::size_t>(layer)] = head_parts(layer, pos); });
  for (std::vector<ScorePart>& of : heads)
    for (ScorePart& part : of) parts.push_back(std::move(part));
  return parts;
}

/// What every head of a layer wrote.
template <class Real>
std::vector<ScorePart> ScoreReader<Real>::head_parts(Index layer, Index pos) const {
  const TensorF64 written = write_heads(model_, trace_, layer, pos);
  std::vector<ScorePart> parts;
  for (Index head = 0; head < config_.n_heads; ++head) {
    const std::span<const double> row = written.view<2>().row(head);
    parts.push_back({head_writer(layer, head, pos), true, std::vector<double>(row.begin(), row.end())});
  }
  return parts;
}

template <class Real>
QkWriter ScoreReader<Real>::head_writer(Index layer, Index head, Index pos) const {
  const auto& pattern = trace_.at(site_name(Site::pattern, layer));  // [1, head, query, key]
  const Index length = pattern.dim(3);
  const Real* row = pattern.data() + (head * length + pos) * length;
  const Index key = std::max_element(row, row + length) - row;
  return {fmt::format("a{}.h{}", layer, head), 0.0, key, static_cast<double>(row[key])};
}

/// vector := vector W of the side's head.
template <class Real>
void ScoreReader<Real>::project(const SideOfScore& side, std::vector<ScorePart>& parts) const {
  const Index d_head = config_.d_head, d_model = config_.d_model;
  std::vector<float> rows(static_cast<std::size_t>(d_head * d_model));
  side.W.rows(side.head * d_head, (side.head + 1) * d_head, rows.data());
  parallel_for(static_cast<Index>(parts.size()), [&](Index p) {
    std::vector<double>& vector = parts[static_cast<std::size_t>(p)].vector;
    std::vector<double> projected(static_cast<std::size_t>(d_head), 0.0);
    for (Index i = 0; i < d_head; ++i)
      for (Index j = 0; j < d_model; ++j)
        projected[static_cast<std::size_t>(i)] +=
            static_cast<double>(rows[static_cast<std::size_t>(i * d_model + j)]) * vector[static_cast<std::size_t>(j)];
    vector = std::move(projected);
  });
}

/// The RMS norm of queries or keys with the divisor of this run: of the head, or of all heads together.
template <class Real>
void ScoreReader<Real>::normalise(const SideOfScore& side, std::vector<double>& x) const {
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

template <class Real>
void ScoreReader<Real>::to_score(const SideOfScore& side, std::vector<double>& x) const {
  normalise(side, x);
  for (double& value : x) value *= side.share;
}

template <class Real>
void ScoreReader<Real>::rotate(Index pos, double sign, std::vector<double>& x) const {
  if (config_.positions != Positions::rotary) return;
  const Index table = config_.rotary_table_of_layer[static_cast<std::size_t>(layer_)];
  const std::vector<double>& inv_freq = config_.rotary_tables[static_cast<std::size_t>(table)].inv_freq;
  for (std::size_t j = 0; j < inv_freq.size(); ++j) {
    double& a = x[config_.rotary_adjacent ? 2 * j : j];
    double& b = x[config_.rotary_adjacent ? 2 * j + 1 : j + inv_freq.size()];
    const double angle = static_cast<double>(pos) * inv_freq[j], c = std::cos(angle), s = sign * std::sin(angle);
    const double turned = a * c - b * s;
    b = b * c + a * s;
    a = turned;
  }
}

template RecordedScore recorded_score(const ModelConfig&, const Trace&, const ScoreTarget&);
template RecordedScore recorded_score(const ModelConfig&, const TraceF64&, const ScoreTarget&);
template class ScoreReader<float>;
template class ScoreReader<double>;

}  // namespace kirchhoff::observe
