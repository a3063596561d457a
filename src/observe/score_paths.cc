// Attention scores by path and by the position that it begins at.
#include <algorithm>  // for copy, fill
#include <cmath>      // for abs

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/observe/qk_terms.h"
#include "observe/linear_mlp.h"
#include "observe/logit_direction.h"
#include "observe/one_sequence.h"
#include "observe/path_expander.h"
#include "observe/score_reader.h"
#include "observe/stream_sources.h"

namespace kirchhoff {
namespace {

using namespace observe;

/// One side as a number that is linear in the stream, the other side whole and the score's scale inside.
template <class Real>
Root<Real> score_root(const Model& model, const BasicTrace<Real>& trace, const ScoreTarget& target, ScoreSide side) {
  const ModelConfig& config = model.config;
  const ScoreReader<Real> reader(model, trace, target.layer);
  const bool query = side == ScoreSide::query;
  const SideOfScore mine = query ? query_side(model, target) : key_side(model, target);
  std::vector<double> other = reader.whole(query ? key_side(model, target) : query_side(model, target));
  for (double& x : other) x *= config.attn_scale_of_layer[static_cast<std::size_t>(target.layer)];
  SideReading reading = reader.reading(mine, other);
  return {.stage = 2 * target.layer,
          .stream = at_position(trace, Site::resid_pre, target.layer, mine.pos),
          .direction = std::move(reading.direction),
          .constants = std::move(reading.constants)};
}

/// Carries one readout of the stream back to where it was written, all paths together.
template <class Real>
class SourceSweep {
 public:
  SourceSweep(const Model& model, const BasicTrace<Real>& trace, Index rows, MlpPaths mlp)
      : model_(model),
        config_(model.config),
        trace_(trace),
        rows_(rows),
        linear_(mlp == MlpPaths::linear && !config_.attn_only),
        sources_(static_cast<std::size_t>(rows)),
        readout_({rows, config_.d_model}) {}

  std::vector<ScoreSource> run(const Root<Real>& root, Index pos) {
    std::copy(root.direction.begin(), root.direction.end(), at(pos).begin());
    const std::vector<StreamSource> all = stream_sources(config_, model_.weights);
    for (Index layer = root.stage / 2 - 1; layer >= 0; --layer) {
      const auto collect = [&](auto&& wanted) {
        for (const StreamSource& source : all)
          if (source.layer == layer && wanted(source.kind)) read(source);
      };
      // What this layer wrote is read by the readout behind it; the MLP, where it is linear, and the heads read the
      // stream in front, which sequential blocks reach one after the other.
      collect([&](SourceKind kind) { return kind == SourceKind::mlp && !linear_; });
      BasicTensor<Real> through_mlp;
      if (linear_) through_mlp = back_through_mlp(layer);
      if (linear_ && !config_.parallel) add(through_mlp);
      collect([](SourceKind kind) { return kind == SourceKind::b_O || kind == SourceKind::post_bias; });
      const BasicTensor<Real> through_heads = back_through_heads(layer);
      if (linear_ && config_.parallel) add(through_mlp);
      add(through_heads);
    }
    for (const StreamSource& source : all)
      if (source.layer < 0) read(source);
    return std::move(sources_);
  }

 private:
  std::span<Real> at(Index row) { return readout_.template view<2>().row(row); }
  double read_at(Index row, const Real* written) {
    double sum = 0.0;
    const std::span<const Real> u = at(row);
    for (std::size_t i = 0; i < u.size(); ++i) sum += static_cast<double>(u[i]) * static_cast<double>(written[i]);
    return sum;
  }
  void add(const BasicTensor<Real>& more) {
    for (Index i = 0; i < more.size(); ++i) readout_[i] += more[i];
  }

  void read(const StreamSource& source) {
    std::vector<Real> written(static_cast<std::size_t>(config_.d_model));
    for (Index row = 0; row < rows_; ++row) {
      write_source(model_, trace_, source, row, std::span<Real>(written));
      ScoreSource& to = sources_[static_cast<std::size_t>(row)];
      double& part = source.layer < 0 ? to.embed : source.kind == SourceKind::mlp ? to.mlp : to.bias;
      part += read_at(row, written.data());
    }
  }

  /// The readout in front of a linear MLP; what its output is beyond it is read here.
  BasicTensor<Real> back_through_mlp(Index layer) {
    const LinearMlp<Real> mlp(model_, trace_, layer, rows_);
    const View<const Real, 2> stream(trace_.at(site_name(mlp_stream_site(config_), layer)).data(),
                                     {rows_, config_.d_model});
    const BasicTensor<Real> moved = mlp.forward(stream);
    const Real* written = trace_.at(site_name(Site::mlp_out, layer)).data();
    for (Index row = 0; row < rows_; ++row)
      sources_[static_cast<std::size_t>(row)].mlp +=
          read_at(row, written + row * config_.d_model) - read_at(row, moved.data() + row * config_.d_model);
    return mlp.back(View<const Real, 2>(readout_.template view<2>()));
  }

  /// The readout in front of all heads of a layer: W_O, the patterns' transposes, W_V and the norms. What the heads
  /// move whatever the stream is, is read here.
  BasicTensor<Real> back_through_heads(Index layer) {
    const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
    const Index heads = config_.n_heads, dh = config_.d_head, group = heads / config_.n_kv_heads;
    const Index length = sequence_length(trace_), width = config_.n_kv_heads * dh;
    BasicTensor<Real> u = readout_.clone();
    if (has_ln1_post(config_))
      for (Index row = 0; row < rows_; ++row)
        back_through_norm(config_.norm, w.ln1_post, ln1_post_scale(config_, trace_, layer, row),
                          u.template view<2>().row(row));
    Tensor scratch;
    auto z = BasicTensor<Real>::uninitialised({rows_, heads * dh});
    kernels::gemm(kernels::BasicGemmProblem<Real>{.a = View<const Real, 2>(u.template view<2>()),
                                                  .b = storage_rows(w.W_O, 0, w.W_O.d_out(), scratch),
                                                  .c = z.template view<2>()});
    BasicTensor<Real> values({rows_, width});
    const Real* patterns = trace_.at(site_name(Site::pattern, layer)).data();  // [1, head, query, key]
    parallel_for(config_.n_kv_heads, [&](Index kv_head) {
      for (Index head = kv_head * group; head < (kv_head + 1) * group; ++head)
        for (Index query = 0; query < rows_; ++query) {
          const Real* row = patterns + (head * length + query) * length;
          const Real* read = z.data() + query * heads * dh + head * dh;
          for (Index key = 0; key < rows_; ++key)
            for (Index i = 0; row[key] != Real{0} && i < dh; ++i)
              values[key * width + kv_head * dh + i] += row[key] * read[i];
        }
    });
    auto back = BasicTensor<Real>::uninitialised({rows_, config_.d_model});
    kernels::gemm(kernels::BasicGemmProblem<Real>{.a = View<const Real, 2>(values.template view<2>()),
                                                  .b = storage_rows(w.W_V, 0, w.W_V.d_out(), scratch),
                                                  .c = back.template view<2>()});
    for (Index row = 0; row < rows_; ++row) {
      double constant = 0.0;
      for (Index i = 0; w.b_V.present() && i < width; ++i)
        constant += static_cast<double>(values[row * width + i]) * w.b_V.f64()[static_cast<std::size_t>(i)];
      for (Index i = 0; has_ln1(config_) && w.ln1.b.present() && i < config_.d_model; ++i)
        constant += static_cast<double>(back[row * config_.d_model + i]) * w.ln1.b.f64()[static_cast<std::size_t>(i)];
      sources_[static_cast<std::size_t>(row)].bias += constant;
      if (has_ln1(config_))
        back_through_norm(config_.norm, w.ln1, ln1_scale(config_, trace_, layer, row),
                          back.template view<2>().row(row));
    }
    return back;
  }

  const Model& model_;
  const ModelConfig& config_;
  const BasicTrace<Real>& trace_;
  Index rows_;
  bool linear_;
  std::vector<ScoreSource> sources_;
  BasicTensor<Real> readout_;  ///< [pos, d_model]: how the stream at the present stage is read
};

}  // namespace

std::vector<std::string> score_path_sites(const ModelConfig& config, Index layer, MlpPaths mlp) {
  std::vector<std::string> sites = stream_path_sites(config, layer, mlp);
  for (const Site site : {Site::attn_scores, Site::q, Site::k}) sites.push_back(site_name(site, layer));
  if (has_ln1(config)) sites.push_back(site_name(Site::ln1_scale, layer));
  if (config.positions == Positions::shortformer) sites.push_back(site_name(Site::pos_embed));
  return sites;
}

template <class Real>
PathExpansion expand_score_paths(const Model& model, const BasicTrace<Real>& trace, const ScoreTarget& target,
                                 ScoreSide side, const PathOptions& options) {
  const RecordedScore score = recorded_score(model.config, trace, target);
  PathExpansion result;
  result.target.pos = side == ScoreSide::query ? score.target.query_pos : score.target.key_pos;
  result.layer = target.layer;
  result.own = score.product;
  return expand(model, trace, std::move(result), score_root(model, trace, score.target, side), options);
}

template <class Real>
ScoreSources expand_score_sources(const Model& model, const BasicTrace<Real>& trace, const ScoreTarget& target,
                                  ScoreSide side, MlpPaths mlp) {
  const RecordedScore score = recorded_score(model.config, trace, target);
  ScoreSources result{.target = score.target, .side = side, .own = score.product};
  const Index pos = side == ScoreSide::query ? score.target.query_pos : score.target.key_pos;
  const Index rows = model.config.causal ? pos + 1 : sequence_length(trace);
  const Root<Real> root = score_root(model, trace, score.target, side);
  result.positions = SourceSweep<Real>(model, trace, rows, mlp).run(root, pos);
  for (const auto& [name, value] : root.constants) result.constant += value;
  double size = std::abs(result.constant);
  result.sum = result.constant;
  for (const ScoreSource& source : result.positions) {
    result.sum += source.value();
    size += std::abs(source.embed) + std::abs(source.mlp) + std::abs(source.bias);
  }
  result.closure = size > 0.0 ? std::abs(result.sum - result.own) / size : std::abs(result.own);
  return result;
}

#define KIRCHHOFF_INSTANTIATE(Real)                                                                                \
  template PathExpansion expand_score_paths(const Model&, const BasicTrace<Real>&, const ScoreTarget&, ScoreSide,  \
                                            const PathOptions&);                                                   \
  template ScoreSources expand_score_sources(const Model&, const BasicTrace<Real>&, const ScoreTarget&, ScoreSide, \
                                             MlpPaths);
KIRCHHOFF_INSTANTIATE(float)
KIRCHHOFF_INSTANTIATE(double)
#undef KIRCHHOFF_INSTANTIATE

}  // namespace kirchhoff
