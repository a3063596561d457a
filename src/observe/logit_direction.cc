#include "observe/logit_direction.h"

#include <algorithm>  // for min
#include <numeric>    // for accumulate

#include "observe/one_sequence.h"

namespace kirchhoff::observe {
namespace {

void check_token(TokenId token, Index d_vocab_out) {
  check(token >= 0 && token < d_vocab_out, ErrorCode::usage, "token {} is not in the output vocabulary of {} tokens",
        token, d_vocab_out);
}

/// W_U[:, token] - W_U[:, foil].
Direction unembedding_difference(const WeightMatrix& W_U, const LogitTarget& target) {
  std::vector<float> row(static_cast<std::size_t>(W_U.d_in()));
  W_U.rows(target.token, target.token + 1, row.data());
  Direction u(row.begin(), row.end());
  if (target.foil) {
    W_U.rows(*target.foil, *target.foil + 1, row.data());
    for (std::size_t i = 0; i < u.size(); ++i) u[i] -= static_cast<double>(row[i]);
  }
  return u;
}

}  // namespace

Direction before_norm(NormKind kind, const NormWeights& weights, double scale, const Direction& behind) {
  Direction u = behind;
  if (kind == NormKind::none) return u;
  if (weights.w.present())
    for (std::size_t i = 0; i < u.size(); ++i) u[i] *= weights.w.f64()[i];
  const double mean =
      kind == NormKind::layer_norm ? std::accumulate(u.begin(), u.end(), 0.0) / static_cast<double>(u.size()) : 0.0;
  for (double& x : u) x = (x - mean) / scale;
  return u;
}

template <class Real>
LogitDirection logit_direction(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target,
                               Index pos) {
  const ModelConfig& config = model.config;
  check_token(target.token, config.d_vocab_out);
  if (target.foil) check_token(*target.foil, config.d_vocab_out);

  LogitDirection direction;
  Direction u = unembedding_difference(model.weights.W_U, target);
  for (double& x : u) x *= config.logit_scale;
  if (const WeightVector& b_U = model.weights.b_U; b_U.present()) {
    const auto bias = [&](TokenId token) { return b_U.f64()[static_cast<std::size_t>(token)]; };
    direction.unembed_bias = config.logit_scale * (bias(target.token) - (target.foil ? bias(*target.foil) : 0.0));
  }
  if (config.final_norm && config.norm != NormKind::none) {
    direction.norm_bias = dot(u, model.weights.ln_final.b);
    direction.final_scale = static_cast<double>(at_position(trace, Site::final_scale, 0, pos).front());
    u = before_norm(config.norm, model.weights.ln_final, direction.final_scale, u);
  }
  direction.stream = std::move(u);
  return direction;
}

template <class Real>
OwnLogit own_logit(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target) {
  check_token(target.token, model.config.d_vocab_out);
  if (target.foil) check_token(*target.foil, model.config.d_vocab_out);
  const auto difference = [&](const BasicTensor<Real>& logits) {
    const Index row = logits.dim(1) == 1 ? 0 : target.pos;
    check(logits.dim(1) > 1 || target.pos + 1 == sequence_length(trace), ErrorCode::usage,
          "the run has logits at the last position only; position {} was asked for", target.pos);
    const Real* values = logits.data() + row * logits.dim(2);
    return static_cast<double>(values[target.token]) - (target.foil ? static_cast<double>(values[*target.foil]) : 0.0);
  };
  if (model.config.logit_softcap <= 0.0) return {difference(trace.logits), {}};
  return {model.config.logit_scale * difference(trace.at(site_name(Site::unembed_out))), difference(trace.logits)};
}

template <class Real>
Direction attention_direction(const Model& model, const BasicTrace<Real>& trace, Index layer, Index pos,
                              const Direction& stream) {
  if (!model.config.post_norm) return stream;
  const double scale = static_cast<double>(at_position(trace, Site::ln1_post_scale, layer, pos).front());
  return before_norm(model.config.norm, model.weights.layers[static_cast<std::size_t>(layer)].ln1_post, scale, stream);
}

std::vector<Direction> output_directions(const WeightMatrix& W_O, std::span<const Direction> us) {
  constexpr Index kRows = 64;
  const Index width = W_O.d_in();
  std::vector<Direction> results(us.size(), Direction(static_cast<std::size_t>(width), 0.0));
  std::vector<float> block(static_cast<std::size_t>(kRows * width));
  for (Index begin = 0; begin < W_O.d_out(); begin += kRows) {
    const Index end = std::min(W_O.d_out(), begin + kRows);
    W_O.rows(begin, end, block.data());
    for (std::size_t u = 0; u < us.size(); ++u)
      for (Index r = begin; r < end; ++r) {
        const float* row = block.data() + (r - begin) * width;
        const double weight = us[u][static_cast<std::size_t>(r)];
        for (std::size_t j = 0; j < results[u].size(); ++j) results[u][j] += weight * static_cast<double>(row[j]);
      }
  }
  return results;
}

template LogitDirection logit_direction(const Model&, const Trace&, const LogitTarget&, Index);
template LogitDirection logit_direction(const Model&, const TraceF64&, const LogitTarget&, Index);
template OwnLogit own_logit(const Model&, const Trace&, const LogitTarget&);
template OwnLogit own_logit(const Model&, const TraceF64&, const LogitTarget&);
template Direction attention_direction(const Model&, const Trace&, Index, Index, const Direction&);
template Direction attention_direction(const Model&, const TraceF64&, Index, Index, const Direction&);

}  // namespace kirchhoff::observe
