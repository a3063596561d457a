// Attention scores by path and by the position that it begins at.
#include <algorithm>  // for copy, min, stable_sort
#include <cmath>      // for abs

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/observe/qk_terms.h"
#include "observe/logit_direction.h"
#include "observe/one_sequence.h"
#include "observe/path_expander.h"
#include "observe/path_walker.h"
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
  const ScoreSide others = side == ScoreSide::query ? ScoreSide::key : ScoreSide::query;
  std::vector<double> other = reader.whole(sides_of(model, target, others));
  for (double& x : other) x *= config.attn_scale_of_layer[static_cast<std::size_t>(target.layer)];
  Root<Real> root{.stage = 2 * target.layer, .reads = {}};
  for (const SideOfScore& mine : sides_of(model, target, side)) {
    SideReading reading = reader.reading(mine, other);
    root.reads.push_back({.pos = mine.pos,
                          .stream = at_position(trace, Site::resid_pre, target.layer, mine.pos),
                          .direction = std::move(reading.direction)});
    if (root.reads.size() == 1)
      root.constants = std::move(reading.constants);
    else
      for (std::size_t i = 0; i < root.constants.size(); ++i) root.constants[i].second += reading.constants[i].second;
  }
  return root;
}

/// Carries one readout of the stream back to where it was written, all paths together.
template <class Real>
class SourceSweep {
 public:
  SourceSweep(const Model& model, const BasicTrace<Real>& trace, Index rows, const Root<Real>& root, MlpPaths mlp)
      : model_(model),
        config_(model.config),
        trace_(trace),
        root_(root),
        rows_(rows),
        all_(stream_sources(model.config, model.weights)),
        sources_(model, trace, rows, root.stage, mlp),
        found_(static_cast<std::size_t>(rows)),
        readout_({rows, config_.d_model}) {}

  std::vector<ScoreSource> run() {
    for (const StreamRead<Real>& read : root_.reads)
      std::copy(read.direction.begin(), read.direction.end(), readout_.template view<2>().row(read.pos).begin());
    for (Index layer = root_.stage / 2 - 1; layer >= 0; --layer) {
      // What this layer wrote is read by the readout behind it; the MLP, where it is linear, and the heads read the
      // stream in front, which sequential blocks reach one after the other.
      read_all(layer, [](SourceKind kind) { return kind == SourceKind::mlp; });
      BasicTensor<Real> through_mlp;
      if (sources_.linear()) through_mlp = sources_.mlp(layer).back(View<const Real, 2>(readout_.template view<2>()));
      if (!config_.parallel) add(through_mlp);
      read_all(layer, [](SourceKind kind) { return kind != SourceKind::mlp; });
      const BasicTensor<Real> through_heads = back_through_heads(layer);
      if (config_.parallel) add(through_mlp);
      add(through_heads);
    }
    read_all(-1, [](SourceKind) { return true; });
    return std::move(found_);
  }

 private:
  void add(const BasicTensor<Real>& more) {
    for (Index i = 0; i < more.size(); ++i) readout_[i] += more[i];
  }

  /// The sources of a layer (-1: before the first) whose kind is wanted.
  template <class Wanted>
  void read_all(Index layer, const Wanted& wanted) {
    std::vector<Real> written(static_cast<std::size_t>(config_.d_model));
    for (std::size_t s = 0; s < all_.size(); ++s) {
      if (all_[s].layer != layer || !wanted(all_[s].kind)) continue;
      for (Index row = 0; row < rows_; ++row) {
        sources_.write(static_cast<Index>(s), row, std::span<Real>(written));
        const std::span<const Real> u = readout_.template view<2>().row(row);
        double sum = 0.0;
        for (std::size_t i = 0; i < u.size(); ++i) sum += static_cast<double>(u[i]) * static_cast<double>(written[i]);
        ScoreSource& to = found_[static_cast<std::size_t>(row)];
        (layer < 0 ? to.embed : all_[s].kind == SourceKind::mlp ? to.mlp : to.bias) += sum;
      }
    }
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
    const std::vector<double> bias = sources_.value_bias(layer);
    for (Index row = 0; row < rows_; ++row) {
      for (Index i = 0; i < width; ++i)
        found_[static_cast<std::size_t>(row)].bias +=
            static_cast<double>(values[row * width + i]) * bias[static_cast<std::size_t>(i)];
      if (has_ln1(config_))
        back_through_norm(config_.norm, w.ln1, ln1_scale(config_, trace_, layer, row),
                          back.template view<2>().row(row));
    }
    return back;
  }

  const Model& model_;
  const ModelConfig& config_;
  const BasicTrace<Real>& trace_;
  const Root<Real>& root_;
  Index rows_;
  const std::vector<StreamSource> all_;
  const PathSources<Real> sources_;
  std::vector<ScoreSource> found_;
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
  result.positions = SourceSweep<Real>(model, trace, rows, root, mlp).run();
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

template <class Real>
ScorePathPairs expand_score_pairs(const Model& model, const BasicTrace<Real>& trace, const ScoreTarget& target,
                                  const PathOptions& options) {
  const ModelConfig& config = model.config;
  const RecordedScore score = recorded_score(config, trace, target);
  const ScoreReader<Real> reader(model, trace, target.layer);
  // 1. Each side by path, and what each listed path makes of it.
  const auto side_of = [&](ScoreSide which, PathExpansion& expansion) {
    const SidesOfScore sides = sides_of(model, score.target, which);
    expansion.target.pos = sides.front().pos;
    expansion.layer = target.layer;
    expansion.own = score.product;
    const Root<Real> root = score_root(model, trace, score.target, which);
    std::vector<Candidate> listed;
    expansion = expand(model, trace, std::move(expansion), root, options, &listed);
    const Index rows = config.causal ? sides.front().pos + 1 : sequence_length(trace);
    const PathWalker<Real> walker(model, trace, rows, root.stage, options.mlp);
    std::vector<std::vector<double>> vectors(listed.size());
    parallel_for(static_cast<Index>(listed.size()), [&](Index i) {
      const Candidate& path = listed[static_cast<std::size_t>(i)];
      std::vector<double>& vector = vectors[static_cast<std::size_t>(i)];
      if (path.source <= kFirstConstant) {
        vector = reader.constant_part(sides, expansion.paths[static_cast<std::size_t>(i)].nodes.front());
        return;
      }
      for (const SideOfScore& side : sides) {
        const std::vector<double> part = reader.part_of(side, walker.walk(path, side.pos));
        vector.resize(part.size(), 0.0);
        for (std::size_t k = 0; k < part.size(); ++k) vector[k] += part[k];
      }
    });
    return vectors;
  };
  ScorePathPairs result;
  const auto queries = side_of(ScoreSide::query, result.query);
  const auto keys = side_of(ScoreSide::key, result.key);

  // 2. Every pair of them.
  const double scale = config.attn_scale_of_layer[static_cast<std::size_t>(target.layer)];
  for (std::size_t q = 0; q < queries.size(); ++q)
    for (std::size_t k = 0; k < keys.size(); ++k) {
      double value = 0.0;
      for (std::size_t i = 0; i < queries[q].size(); ++i) value += queries[q][i] * keys[k][i];
      result.pairs.push_back({q, k, scale * value});
    }
  std::stable_sort(result.pairs.begin(), result.pairs.end(), [](const ScorePathPair& a, const ScorePathPair& b) {
    return std::abs(a.value) > std::abs(b.value);
  });
  result.pairs.resize(std::min(result.pairs.size(), static_cast<std::size_t>(options.top)));

  // 3. What is left of the score.
  const auto count = [](const PathExpansion& side) { return static_cast<double>(side.paths.size()) + side.rest_count; };
  result.rest_count = count(result.query) * count(result.key) - static_cast<double>(result.pairs.size());
  result.rest_sum = score.product;
  for (const ScorePathPair& pair : result.pairs) result.rest_sum -= pair.value;
  return result;
}

#define KIRCHHOFF_INSTANTIATE(Real)                                                                                \
  template PathExpansion expand_score_paths(const Model&, const BasicTrace<Real>&, const ScoreTarget&, ScoreSide,  \
                                            const PathOptions&);                                                   \
  template ScorePathPairs expand_score_pairs(const Model&, const BasicTrace<Real>&, const ScoreTarget&,            \
                                             const PathOptions&);                                                  \
  template ScoreSources expand_score_sources(const Model&, const BasicTrace<Real>&, const ScoreTarget&, ScoreSide, \
                                             MlpPaths);
KIRCHHOFF_INSTANTIATE(float)
KIRCHHOFF_INSTANTIATE(double)
#undef KIRCHHOFF_INSTANTIATE

}  // namespace kirchhoff
