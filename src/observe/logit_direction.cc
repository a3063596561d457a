#include "observe/logit_direction.h"

#include <algorithm>  // for min
#include <cmath>      // for log
#include <map>        // for map
#include <numeric>    // for accumulate
#include <tuple>      // for tuple

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/kernels/gemm.h"
#include "observe/loss_reading.h"
#include "observe/one_sequence.h"

namespace kirchhoff::observe {
namespace {

void check_target(const LogitTarget& target, Index d_vocab_out) {
  const auto check_token = [d_vocab_out](TokenId token) {
    check(token >= 0 && token < d_vocab_out, ErrorCode::usage, "token {} is not in the output vocabulary of {} tokens",
          token, d_vocab_out);
  };
  check_token(target.token);
  if (!target.foil) return;
  check_token(*target.foil);
  check(target.readout == Readout::logit, ErrorCode::usage,
        "a foil ({}) belongs to a difference of logits: {} compares the token with the whole vocabulary", *target.foil,
        metric_name({target.token, {}, target.pos, target.readout}));
}

/// W_U c for every row c of `coefficients` [count, d_vocab_out].
template <class Real>
std::vector<Direction> combine_unembeddings(const WeightMatrix& W_U, const BasicTensor<Real>& coefficients) {
  constexpr Index kSlice = 4096;
  const View<const Real, 2> c = coefficients.template view<2>();
  BasicTensor<Real> sums({c.dim[0], W_U.d_in()});
  Tensor scratch;
  for (Index begin = 0; begin < W_U.d_out(); begin += kSlice) {
    const Index count = std::min(kSlice, W_U.d_out() - begin);
    kernels::gemm(kernels::BasicGemmProblem<Real>{.a = View<const Real, 2>(c.data + begin, {c.dim[0], count}, c.stride),
                                                  .b = storage_rows(W_U, begin, count, scratch),
                                                  .c = sums.template view<2>(),
                                                  .accumulate = true});
  }
  std::vector<Direction> directions;
  for (Index i = 0; i < c.dim[0]; ++i) {
    const std::span<Real> row = sums.template view<2>().row(i);
    directions.emplace_back(row.begin(), row.end());
  }
  return directions;
}

/// What the targets read of the vocabulary, each different one once: W_U c and b_U . c.
template <class Real>
class VocabularyReader {
 public:
  VocabularyReader(const Model& model, const BasicTrace<Real>& trace, std::span<const LogitTarget> targets)
      : model_(model), trace_(trace) {
    std::map<std::tuple<TokenId, TokenId, Readout>, Index> known;
    std::vector<const LogitTarget*> losses;
    for (const LogitTarget& target : targets) {
      check_target(target, model.config.d_vocab_out);
      if (target.readout == Readout::loss) {  // each position has its own predictions
        readings_.of_target.push_back(add({}, 0.0));
        losses.push_back(&target);
        continue;
      }
      const auto [found, is_new] = known.try_emplace({target.token, target.foil.value_or(-1), target.readout},
                                                     static_cast<Index>(readings_.directions.size()));
      if (is_new) add_linear(target);
      readings_.of_target.push_back(found->second);
    }
    if (!losses.empty()) add_losses(losses);
  }
  Readings take() { return std::move(readings_); }

 private:
  double bias(TokenId token) const {
    const WeightVector& b_U = model_.weights.b_U;
    return b_U.present() ? b_U.f64()[static_cast<std::size_t>(token)] : 0.0;
  }
  Direction column(TokenId token) const {
    const WeightMatrix& W_U = model_.weights.W_U;
    std::vector<float> row(static_cast<std::size_t>(W_U.d_in()));
    W_U.rows(token, token + 1, row.data());
    return {row.begin(), row.end()};
  }
  Index add(Direction direction, double unembed_bias) {
    readings_.directions.push_back(std::move(direction));
    readings_.unembed_bias.push_back(unembed_bias);
    return static_cast<Index>(readings_.directions.size()) - 1;
  }

  void add_linear(const LogitTarget& target) {
    Direction u = column(target.token);
    double b = bias(target.token);
    const auto subtract = [&](const Direction& other, double other_bias) {
      for (std::size_t i = 0; i < u.size(); ++i) u[i] -= other[i];
      b -= other_bias;
    };
    if (target.foil) subtract(column(*target.foil), bias(*target.foil));
    if (target.readout == Readout::centred) {
      if (mean_.empty()) find_mean();
      subtract(mean_, mean_bias_);
    }
    add(std::move(u), b);
  }

  void find_mean() {
    const Index n = model_.config.d_vocab_out;
    BasicTensor<Real> ones = BasicTensor<Real>::uninitialised({1, n});
    std::fill(ones.data(), ones.data() + n, Real{1});
    mean_ = combine_unembeddings(model_.weights.W_U, ones).front();
    for (double& x : mean_) x /= static_cast<double>(n);
    if (const WeightVector& b_U = model_.weights.b_U; b_U.present())
      mean_bias_ = std::accumulate(b_U.f64().begin(), b_U.f64().end(), 0.0) / static_cast<double>(n);
  }

  /// The readings were added in order, without their numbers.
  void add_losses(std::span<const LogitTarget* const> targets) {
    const auto count = static_cast<Index>(targets.size()), n = model_.config.d_vocab_out;
    std::vector<std::size_t> places;
    for (std::size_t r = 0; r < readings_.directions.size(); ++r)
      if (readings_.directions[r].empty()) places.push_back(r);
    auto coefficients = BasicTensor<Real>::uninitialised({count, n});
    parallel_for(count, [&](Index t) {
      const LogitTarget& target = *targets[static_cast<std::size_t>(t)];
      const std::vector<double> c = loss_coefficients(uncapped_logits(model_.config, trace_, target.pos),
                                                      model_.config.logit_softcap, target.token);
      std::copy(c.begin(), c.end(), coefficients.data() + t * n);
      if (const WeightVector& b_U = model_.weights.b_U; b_U.present())
        readings_.unembed_bias[places[static_cast<std::size_t>(t)]] = dot(c, b_U);
    });
    std::vector<Direction> directions = combine_unembeddings(model_.weights.W_U, coefficients);
    for (std::size_t t = 0; t < places.size(); ++t) readings_.directions[places[t]] = std::move(directions[t]);
  }

  const Model& model_;
  const BasicTrace<Real>& trace_;
  Readings readings_;
  Direction mean_;
  double mean_bias_ = 0.0;
};

}  // namespace

ConstMatrix storage_rows(const WeightMatrix& W, Index begin, Index count, Tensor& scratch) {
  if (!W.packed()) return W.storage().rows(begin, count);
  scratch = Tensor::uninitialised({count, W.d_in()});
  W.rows(begin, begin + count, scratch.data());
  return scratch.view<2>();
}

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
Readings read_targets(const Model& model, const BasicTrace<Real>& trace, std::span<const LogitTarget> targets) {
  const ModelConfig& config = model.config;
  Readings readings = VocabularyReader<Real>(model, trace, targets).take();
  const bool normed = config.has_final_norm();
  for (std::size_t r = 0; r < readings.directions.size(); ++r) {
    Direction& u = readings.directions[r];
    for (double& x : u) x *= config.logit_scale;
    readings.unembed_bias[r] *= config.logit_scale;
    readings.norm_bias.push_back(normed ? dot(u, model.weights.ln_final.b) : 0.0);
    if (normed) u = before_norm(config.norm, model.weights.ln_final, 1.0, u);
  }
  for (const LogitTarget& target : targets)
    readings.final_scale.push_back(
        normed ? static_cast<double>(at_position(trace, Site::final_scale, 0, target.pos).front()) : 1.0);
  return readings;
}

template <class Real>
LogitDirection logit_direction(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target) {
  const Readings readings = read_targets(model, trace, std::span(&target, 1));
  LogitDirection direction{readings.direction(0), readings.norm_bias[0], readings.unembed_bias[0]};
  for (double& x : direction.stream) x /= readings.final_scale[0];
  return direction;
}

template <class Real>
std::span<const Real> logits_at(const BasicTrace<Real>& trace, Index pos) {
  check(!trace.logits.empty(), ErrorCode::usage, "the run computed no logits");
  check(trace.logits.dim(1) > 1 || pos + 1 == sequence_length(trace), ErrorCode::usage,
        "the run has logits at the last position only; position {} was asked for", pos);
  return trace.logits.template view<3>().at(0).row(trace.logits.dim(1) == 1 ? 0 : pos);
}

template <class Real>
OwnLogit own_logit(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target) {
  const ModelConfig& config = model.config;
  check_target(target, config.d_vocab_out);
  const std::span<const Real> logits = logits_at(trace, target.pos);
  if (target.readout == Readout::loss)
    return {std::log(static_cast<double>(config.d_vocab_out)) - loss_of<Real>(logits, target.token), {}};
  const auto number = [&target](const auto& row) {
    const auto at = [&row](TokenId token) { return static_cast<double>(row[static_cast<std::size_t>(token)]); };
    double reference = target.foil ? at(*target.foil) : 0.0;
    if (target.readout == Readout::centred)
      reference = std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(row.size());
    return at(target.token) - reference;
  };
  if (config.logit_softcap <= 0.0) return {number(logits), {}};
  return {number(uncapped_logits(config, trace, target.pos)), number(logits)};
}

template <class Real>
TensorF64 through(const WeightMatrix& W, std::span<const Direction> directions, Index first, Index count) {
  constexpr std::size_t kFew = 4;
  constexpr Index kRows = 64;
  const auto n = static_cast<Index>(directions.size());
  TensorF64 result({n, count});
  Tensor scratch;
  if (directions.size() <= kFew) {
    for (Index begin = 0; begin < W.d_out(); begin += kRows) {
      const ConstMatrix block = storage_rows(W, begin, std::min(kRows, W.d_out() - begin), scratch);
      for (Index r = 0; r < block.dim[0]; ++r)
        for (Index d = 0; d < n; ++d) {
          const double weight = directions[static_cast<std::size_t>(d)][static_cast<std::size_t>(begin + r)];
          const float* row = block.row(r).data() + first;
          double* sums = result.data() + d * count;
          for (Index j = 0; j < count; ++j) sums[j] += weight * static_cast<double>(row[j]);
        }
    }
    return result;
  }
  auto u = BasicTensor<Real>::uninitialised({n, W.d_out()}), product = BasicTensor<Real>::uninitialised({n, count});
  for (Index d = 0; d < n; ++d)
    for (Index i = 0; i < W.d_out(); ++i)
      u[d * W.d_out() + i] = static_cast<Real>(directions[static_cast<std::size_t>(d)][static_cast<std::size_t>(i)]);
  const ConstMatrix storage = storage_rows(W, 0, W.d_out(), scratch);
  kernels::gemm(
      kernels::BasicGemmProblem<Real>{.a = u.template view<2>(),
                                      .b = ConstMatrix(storage.data + first, {storage.dim[0], count}, storage.stride),
                                      .c = product.template view<2>()});
  std::copy(product.data(), product.data() + product.size(), result.data());
  return result;
}

#define KIRCHHOFF_INSTANTIATE(Real)                                                                    \
  template Readings read_targets(const Model&, const BasicTrace<Real>&, std::span<const LogitTarget>); \
  template LogitDirection logit_direction(const Model&, const BasicTrace<Real>&, const LogitTarget&);  \
  template std::span<const Real> logits_at(const BasicTrace<Real>&, Index);                            \
  template OwnLogit own_logit(const Model&, const BasicTrace<Real>&, const LogitTarget&);              \
  template TensorF64 through<Real>(const WeightMatrix&, std::span<const Direction>, Index, Index);
KIRCHHOFF_INSTANTIATE(float)
KIRCHHOFF_INSTANTIATE(double)
#undef KIRCHHOFF_INSTANTIATE

}  // namespace kirchhoff::observe
