// What lies below and beside the parts of an attribution: an MLP's neurons, and the loss without each part.
#include <algorithm>  // for copy, min
#include <cmath>      // for abs, exp, log, tanh
#include <limits>     // for numeric_limits

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/observe/attribution.h"
#include "observe/attribution_parts.h"
#include "observe/logit_direction.h"
#include "observe/loss_reading.h"
#include "observe/one_sequence.h"

namespace kirchhoff {
namespace {

using namespace observe;

/// log of a sum of exponentials that comes piece by piece.
class RunningLogSum {
 public:
  void add(double x) {
    if (x > largest_) {
      sum_ = sum_ * std::exp(largest_ - x) + 1.0;
      largest_ = x;
    } else {
      sum_ += std::exp(x - largest_);
    }
  }
  double value() const { return largest_ + std::log(sum_); }

 private:
  double largest_ = -std::numeric_limits<double>::infinity(), sum_ = 0.0;
};

/// What every part puts into the unembedding at one position, the final norm's divisor held: [part, d_model]; zeros
/// for b_U, which comes behind it.
template <class Real>
BasicTensor<Real> unembedding_inputs(const Model& model, const BasicTrace<Real>& trace,
                                     const std::vector<PartRef>& parts, Index pos) {
  const ModelConfig& config = model.config;
  BasicTensor<Real> inputs({static_cast<Index>(parts.size()), config.d_model});
  const View<Real, 2> rows = inputs.template view<2>();
  const bool normed = config.has_final_norm();
  const double scale = normed ? static_cast<double>(at_position(trace, Site::final_scale, 0, pos).front()) : 1.0;
  parallel_for(rows.dim[0], [&](Index p) {
    const PartRef& ref = parts[static_cast<std::size_t>(p)];
    if (ref.behind == PartRef::Behind::unembed) return;
    if (ref.behind == PartRef::Behind::norm) {
      const std::vector<double>& bias = model.weights.ln_final.b.f64();
      std::copy(bias.begin(), bias.end(), rows.row(p).begin());
      return;
    }
    if (ref.source) {
      write_source(model, trace, *ref.source, pos, rows.row(p));
    } else {
      if (ref.part.head > 0) return;  // the first head of a layer fills in all
      const TensorF64 heads = write_heads(model, trace, ref.part.layer, pos);
      std::copy(heads.data(), heads.data() + heads.size(), rows.row(p).data());
      if (normed)
        for (Index head = 1; head < config.n_heads; ++head)
          through_norm(config.norm, model.weights.ln_final, scale, rows.row(p + head));
    }
    if (normed) through_norm(config.norm, model.weights.ln_final, scale, rows.row(p));
  });
  return inputs;
}

}  // namespace

std::vector<std::string> neuron_sites(const ModelConfig& config, Index layer) {
  std::vector<std::string> sites = {site_name(Site::mlp_post, layer)};
  if (config.post_norm) sites.push_back(site_name(Site::ln2_post_scale, layer));
  return sites;
}

template <class Real>
std::vector<NeuronAttribution> attribute_neurons(const Model& model, const BasicTrace<Real>& trace,
                                                 std::span<const LogitTarget> asked, Index layer) {
  const ModelConfig& config = model.config;
  check(!config.attn_only, ErrorCode::unsupported, "neurons are not defined here, because this model has no MLPs");
  check(layer >= 0 && layer < config.n_layers, ErrorCode::usage, "layer {} is not one of {}", layer, config.n_layers);
  const std::vector<LogitTarget> targets = resolved(asked, sequence_length(trace));
  const Readings readings = read_targets(model, trace, std::span<const LogitTarget>(targets));
  const LayerWeights& w = model.weights.layers[static_cast<std::size_t>(layer)];
  const bool post_norm = has_ln1_post(config);  // the same models have one behind the MLP
  std::vector<Direction> in_front = readings.directions;
  if (post_norm)
    for (Direction& u : in_front) u = before_norm(config.norm, w.ln2_post, 1.0, u);
  const TensorF64 read = through<Real>(w.W_out, in_front, 0, config.d_mlp);

  std::vector<NeuronAttribution> results(targets.size());
  parallel_for(static_cast<Index>(targets.size()), [&](Index index) {
    const auto t = static_cast<std::size_t>(index);
    const Index pos = targets[t].pos;
    const double final_scale = readings.final_scale[t];
    const double divisor =
        final_scale *
        (post_norm ? static_cast<double>(at_position(trace, Site::ln2_post_scale, layer, pos).front()) : 1.0);
    const double* u = read.data() + readings.of_target[t] * config.d_mlp;
    const std::span<const Real> post = at_position(trace, Site::mlp_post, layer, pos);
    NeuronAttribution& result = results[t];
    result.layer = layer;
    result.bias = dot(in_front[readings.reading(t)], w.b_out) / divisor;
    if (post_norm) result.bias += dot(readings.direction(t), w.ln2_post.b) / final_scale;
    result.sum = result.bias;
    double size = std::abs(result.bias);
    for (std::size_t n = 0; n < post.size(); ++n) {
      result.values.push_back(static_cast<double>(post[n]) * u[n] / divisor);
      result.sum += result.values.back();
      size += std::abs(result.values.back());
    }
    result.own = dot(readings.direction(t), at_position(trace, Site::mlp_out, layer, pos).data()) / final_scale;
    result.closure = size > 0.0 ? std::abs(result.sum - result.own) / size : std::abs(result.own);
  });
  return results;
}

template <class Real>
std::vector<double> removal_losses(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target) {
  const ModelConfig& config = model.config;
  const LogitTarget at = resolved({&target, 1}, sequence_length(trace)).front();
  check(at.token >= 0 && at.token < config.d_vocab_out, ErrorCode::usage,
        "token {} is not in the output vocabulary of {} tokens", at.token, config.d_vocab_out);
  const std::vector<PartRef> parts = attribution_parts(model);
  const BasicTensor<Real> inputs = unembedding_inputs(model, trace, parts, at.pos);
  const std::vector<double> logits = uncapped_logits(config, trace, at.pos);
  const WeightVector& b_U = model.weights.b_U;

  // The vocabulary slice by slice: logits of each part, and what the others make without it.
  constexpr Index kSlice = 2048;
  const Index count = inputs.dim(0);
  std::vector<RunningLogSum> sums(parts.size());
  std::vector<double> targets(parts.size());
  Tensor scratch;
  for (Index begin = 0; begin < config.d_vocab_out; begin += kSlice) {
    const Index size = std::min(kSlice, config.d_vocab_out - begin);
    auto of_part = BasicTensor<Real>::uninitialised({count, size});
    kernels::gemm(
        kernels::BasicGemmProblem<Real>{.a = inputs.template view<2>(),
                                        .b = transposed(storage_rows(model.weights.W_U, begin, size, scratch)),
                                        .c = of_part.template view<2>(),
                                        .alpha = static_cast<Real>(config.logit_scale)});
    parallel_for(count, [&](Index p) {
      const auto part = static_cast<std::size_t>(p);
      for (Index i = 0; i < size; ++i) {
        const auto token = static_cast<std::size_t>(begin + i);
        double mine = static_cast<double>(of_part[p * size + i]);
        if (parts[part].behind == PartRef::Behind::unembed) mine = config.logit_scale * b_U.f64()[token];
        double without = logits[token] - mine;
        if (config.logit_softcap > 0.0) without = config.logit_softcap * std::tanh(without / config.logit_softcap);
        sums[part].add(without);
        if (begin + i == at.token) targets[part] = without;
      }
    });
  }
  const double loss = loss_of(logits_at(trace, at.pos), at.token);
  std::vector<double> rises;
  for (std::size_t p = 0; p < parts.size(); ++p) rises.push_back(sums[p].value() - targets[p] - loss);
  return rises;
}

template std::vector<NeuronAttribution> attribute_neurons(const Model&, const Trace&, std::span<const LogitTarget>,
                                                          Index);
template std::vector<NeuronAttribution> attribute_neurons(const Model&, const TraceF64&, std::span<const LogitTarget>,
                                                          Index);
template std::vector<double> removal_losses(const Model&, const Trace&, const LogitTarget&);
template std::vector<double> removal_losses(const Model&, const TraceF64&, const LogitTarget&);

}  // namespace kirchhoff
