#include "kirchhoff/observe/virtual_head.h"

#include "observe/logit_direction.h"
#include "observe/one_sequence.h"
#include "observe/stream_sources.h"

namespace kirchhoff {
namespace {

using namespace observe;

void check_chain(const ModelConfig& config, const std::vector<std::pair<Index, Index>>& heads) {
  check(!heads.empty(), ErrorCode::usage, "a chain of no heads");
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const auto [layer, head] = heads[i];
    check(layer >= 0 && layer < config.n_layers && head >= 0 && head < config.n_heads, ErrorCode::usage,
          "there is no head {}.{}: the model has {} layers of {} heads", layer, head, config.n_layers, config.n_heads);
    if (i == 0) continue;
    const auto [earlier_layer, earlier_head] = heads[i - 1];
    check(earlier_layer < layer, ErrorCode::usage, "head {}.{} does not see what {}.{} writes", layer, head,
          earlier_layer, earlier_head);
  }
}

/// The head's pattern, [query, key].
template <class Real>
View<const Real, 2> pattern_of(const BasicTrace<Real>& trace, Index layer, Index head, Index length) {
  const auto& patterns = trace.at(site_name(Site::pattern, layer));  // [1, head, query, key]
  return {patterns.data() + head * length * length, {length, length}};
}

/// How the values at each position are read, [position, d_head], given how the stream behind the layer's attention is.
template <class Real>
TensorF64 values_readout(const Model& model, const BasicTrace<Real>& trace, Index layer, Index head,
                         const std::vector<Direction>& stream) {
  const ModelConfig& config = model.config;
  const auto length = static_cast<Index>(stream.size());
  const LayerWeights& weights = model.weights.layers[static_cast<std::size_t>(layer)];
  const View<const Real, 2> A = pattern_of(trace, layer, head, length);
  TensorF64 readout({length, config.d_head});
  for (Index query = 0; query < length; ++query) {
    if (stream[static_cast<std::size_t>(query)].empty()) continue;  // nothing reads it there
    Direction behind = stream[static_cast<std::size_t>(query)];
    if (has_ln1_post(config))
      back_through_norm(config.norm, weights.ln1_post, ln1_post_scale(config, trace, layer, query),
                        std::span<double>(behind));
    const TensorF64 z = through<Real>(weights.W_O, {&behind, 1}, head * config.d_head, config.d_head);
    for (Index key = 0; key < length; ++key)
      for (Index i = 0; i < config.d_head; ++i)
        readout[key * config.d_head + i] += static_cast<double>(A(query, key)) * z[i];
  }
  return readout;
}

/// How the stream before the layer is read, given how its values are: back through W_V and the norm.
template <class Real>
std::vector<Direction> stream_readout(const Model& model, const BasicTrace<Real>& trace, Index layer, Index head,
                                      const TensorF64& values) {
  const ModelConfig& config = model.config;
  const LayerWeights& weights = model.weights.layers[static_cast<std::size_t>(layer)];
  const Index d_head = config.d_head, d_model = config.d_model, kv_head = head / (config.n_heads / config.n_kv_heads);
  std::vector<float> W_V(static_cast<std::size_t>(d_head * d_model));
  weights.W_V.rows(kv_head * d_head, (kv_head + 1) * d_head, W_V.data());
  std::vector<Direction> stream(static_cast<std::size_t>(values.dim(0)),
                                Direction(static_cast<std::size_t>(d_model), 0.0));
  for (Index pos = 0; pos < values.dim(0); ++pos) {
    Direction& u = stream[static_cast<std::size_t>(pos)];
    for (Index i = 0; i < d_head; ++i)
      for (Index m = 0; m < d_model; ++m)
        u[static_cast<std::size_t>(m)] +=
            values[pos * d_head + i] * static_cast<double>(W_V[static_cast<std::size_t>(i * d_model + m)]);
    if (has_ln1(config)) u = before_norm(config.norm, weights.ln1, ln1_scale(config, trace, layer, pos), u);
  }
  return stream;
}

}  // namespace

template <class Real>
VirtualHeadRun virtual_head_run(const Model& model, const BasicTrace<Real>& trace,
                                const std::vector<std::pair<Index, Index>>& heads, const LogitTarget& target) {
  const ModelConfig& config = model.config;
  check_chain(config, heads);
  const Index length = sequence_length(trace);
  VirtualHeadRun result;
  result.target = target;
  result.target.pos = resolve_position(target.pos, length);

  for (const auto& [layer, head] : heads) {
    const View<const Real, 2> A = pattern_of(trace, layer, head, length);
    TensorF64 product({length, length});
    for (Index i = 0; i < length; ++i)
      for (Index m = 0; m < length; ++m)
        if (A(i, m) != Real{0}) {
          const auto weight = static_cast<double>(A(i, m));
          if (result.pattern.size() == 0)
            product[i * length + m] = weight;
          else
            for (Index j = 0; j < length; ++j) product[i * length + j] += weight * result.pattern[m * length + j];
        }
    result.pattern = std::move(product);
  }

  std::vector<Direction> stream(static_cast<std::size_t>(length));
  stream[static_cast<std::size_t>(result.target.pos)] = logit_direction(model, trace, result.target).stream;
  TensorF64 values;
  for (std::size_t i = heads.size(); i-- > 0;) {
    const auto [layer, head] = heads[i];
    values = values_readout(model, trace, layer, head, stream);
    if (i > 0) stream = stream_readout(model, trace, layer, head, values);
  }
  const auto [first_layer, first_head] = heads.front();
  const Index kv_head = first_head / (config.n_heads / config.n_kv_heads);
  for (Index pos = 0; pos < length; ++pos) {
    const std::span<const Real> v = at_position(trace, Site::v, first_layer, pos);  // [kv head, d_head]
    double sum = 0.0;
    for (Index i = 0; i < config.d_head; ++i)
      sum += values[pos * config.d_head + i] *
             static_cast<double>(v[static_cast<std::size_t>(kv_head * config.d_head + i)]);
    result.by_source.push_back(sum);
    result.sum += sum;
  }
  return result;
}

template VirtualHeadRun virtual_head_run(const Model&, const Trace&, const std::vector<std::pair<Index, Index>>&,
                                         const LogitTarget&);
template VirtualHeadRun virtual_head_run(const Model&, const TraceF64&, const std::vector<std::pair<Index, Index>>&,
                                         const LogitTarget&);

}  // namespace kirchhoff
