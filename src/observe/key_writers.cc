#include "kirchhoff/observe/key_writers.h"

#include "kirchhoff/base/parallel.h"
#include "observe/logit_direction.h"
#include "observe/one_sequence.h"
#include "observe/score_reader.h"
#include "observe/stream_sources.h"

namespace kirchhoff {
using namespace observe;

std::vector<std::string> key_writer_sites(const ModelConfig& config, Index layer) {
  std::vector<std::string> sites = {site_name(Site::q, layer), site_name(Site::k, layer)};
  if (has_ln1(config)) sites.push_back(site_name(Site::ln1_scale, layer));
  if (config.positions == Positions::shortformer) sites.push_back(site_name(Site::pos_embed));
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
  const ScoreReader<Real> reader(model, trace, layer);
  ScoreTarget target{layer, head, resolve_position(query_pos, length), 0};
  Direction query = reader.whole(sides_of(model, target, ScoreSide::query));
  for (double& x : query) x *= config.attn_scale_of_layer[static_cast<std::size_t>(layer)];
  KeyWriters result;
  std::vector<Index> at;            // where a read is, a smeared key's being two
  std::vector<std::size_t> key_of;  // and whose it is
  std::vector<Direction> reads;     // [read][d_model]
  for (const Index key : keys) {
    target.key_pos = resolve_position(key, length);
    const SidesOfScore sides = sides_of(model, target, ScoreSide::key);
    for (const SideOfScore& side : sides) {
      at.push_back(side.pos);
      key_of.push_back(result.heads.size());
      reads.push_back(reader.reading(side, query).direction);
    }
    result.scores.push_back(dot(query, reader.whole(sides).data()));
    result.heads.emplace_back(static_cast<std::size_t>(layer * heads));
  }
  parallel_for(layer, [&](Index below) {
    const LayerWeights& w = model.weights.layers[static_cast<std::size_t>(below)];
    std::vector<Direction> behind = reads;
    if (has_ln1_post(config))
      for (std::size_t k = 0; k < behind.size(); ++k)
        back_through_norm(config.norm, w.ln1_post, ln1_post_scale(config, trace, below, at[k]),
                          std::span<double>(behind[k]));
    const TensorF64 outputs = through<Real>(w.W_O, behind, 0, w.W_O.d_in());  // [read][head, d_head]
    for (std::size_t k = 0; k < behind.size(); ++k) {
      const Real* z = at_position(trace, Site::z, below, at[k]).data();
      for (Index h = 0; h < heads; ++h) {
        double value = 0.0;
        for (Index i = h * d_head; i < (h + 1) * d_head; ++i)
          value += outputs[static_cast<Index>(k) * w.W_O.d_in() + i] * static_cast<double>(z[i]);
        result.heads[key_of[k]][static_cast<std::size_t>(below * heads + h)] += value;
      }
    }
  });
  return result;
}

template KeyWriters key_writers(const Model&, const Trace&, Index, Index, Index, std::span<const Index>);
template KeyWriters key_writers(const Model&, const TraceF64&, Index, Index, Index, std::span<const Index>);

}  // namespace kirchhoff
