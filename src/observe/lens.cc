#include "kirchhoff/observe/lens.h"

#include <fmt/format.h>

#include <algorithm>    // for copy, min
#include <cmath>        // for exp
#include <type_traits>  // for is_same_v

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/kernels/activations.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/kernels/norm.h"
#include "kirchhoff/kernels/softmax.h"
#include "observe/one_sequence.h"
#include "observe/stream_sources.h"

namespace kirchhoff {
namespace {

using namespace observe;

struct State {
  std::string label;
  Site site;
  Index layer;
};

bool has_mid(const ModelConfig& config) { return !config.attn_only && !config.parallel; }

std::vector<State> states_of(const ModelConfig& config, bool mid) {
  std::vector<State> states;
  for (Index layer = 0; layer < config.n_layers; ++layer) {
    states.push_back({fmt::format("{}_pre", layer), Site::resid_pre, layer});
    if (mid && has_mid(config)) states.push_back({fmt::format("{}_mid", layer), Site::resid_mid, layer});
  }
  const SiteRef last = final_stream(config);
  states.push_back({"final_post", last.site, last.layer});
  return states;
}

template <class Real>
const Real* values_or_null(const WeightVector& vector) {
  if constexpr (std::is_same_v<Real, float>)
    return vector.f32_or_null();
  else
    return vector.f64_or_null();
}

/// x := final norm of each row.
template <class Real>
void final_norm(const Model& model, View<Real, 2> x) {
  const ModelConfig& config = model.config;
  kernels::NormProblem<Real> problem{.x = x,
                                     .out = x,
                                     .gain = values_or_null<Real>(model.weights.ln_final.w),
                                     .bias = values_or_null<Real>(model.weights.ln_final.b),
                                     .eps = config.norm_eps};
  config.norm == NormKind::layer_norm ? kernels::layer_norm(problem) : kernels::rms_norm(problem);
}

/// x := the final norm of each row with the divisor that it had in the run.
template <class Real>
void final_norm_held(const Model& model, double scale, View<Real, 2> x) {
  const WeightVector& bias = model.weights.ln_final.b;
  for (Index row = 0; row < x.dim[0]; ++row) {
    through_norm(model.config.norm, model.weights.ln_final, scale, x.row(row));
    for (Index i = 0; bias.present() && i < x.dim[1]; ++i)
      x(row, i) += static_cast<Real>(bias.f64()[static_cast<std::size_t>(i)]);
  }
}

/// x W_U + b_U, scaled and soft-capped (plain: x W_U alone), a slice of the vocabulary at a time where W_U is packed.
/// [rows, d_vocab_out]
template <class Real>
BasicTensor<Real> unembed(const Model& model, View<const Real, 2> x, bool plain) {
  const ModelConfig& config = model.config;
  const WeightMatrix& W_U = model.weights.W_U;
  const Real* bias = plain ? nullptr : values_or_null<Real>(model.weights.b_U);
  auto logits = BasicTensor<Real>::uninitialised({x.dim[0], config.d_vocab_out});
  const View<Real, 2> out = logits.template view<2>();
  if (!W_U.packed()) {
    kernels::gemm(kernels::BasicGemmProblem<Real>{.a = x, .b = W_U.matrix(), .c = out, .bias = bias});
  } else {
    constexpr Index kSlice = 4096;
    Tensor rows = Tensor::uninitialised({kSlice, W_U.d_in()});
    for (Index begin = 0; begin < W_U.d_out(); begin += kSlice) {
      const Index count = std::min(kSlice, W_U.d_out() - begin);
      W_U.rows(begin, begin + count, rows.data());
      View<Real, 2> slice = out;
      slice.data += begin;
      slice.dim[1] = count;
      const ConstMatrix storage(rows.data(), {count, W_U.d_in()});
      kernels::gemm(kernels::BasicGemmProblem<Real>{
          .a = x, .b = transposed(storage), .c = slice, .bias = bias ? bias + begin : nullptr});
    }
  }
  if (plain) return logits;
  if (config.logit_scale != 1.0)
    for (Real& value : logits.values()) value *= static_cast<Real>(config.logit_scale);
  if (config.logit_softcap > 0.0) kernels::soft_cap(out, config.logit_softcap);
  return logits;
}

template <class Real>
double log_sum_exp(std::span<const Real> logits) {
  double total = 0.0;
  const View<const Real, 2> row(logits.data(), {1, static_cast<Index>(logits.size())});
  kernels::log_sum_exp(row, std::span<double>(&total, 1));
  return total;
}

template <class Real>
double entropy(std::span<const Real> logits) {
  const double total = log_sum_exp(logits);
  double sum = 0.0;
  for (Real x : logits) sum += std::exp(static_cast<double>(x) - total) * (total - static_cast<double>(x));
  return sum;
}

}  // namespace

std::vector<std::string> lens_sites(const ModelConfig& config, bool mid, LensReading reading) {
  std::vector<std::string> sites;
  if (reading == LensReading::prefix && config.has_final_norm()) sites.push_back(site_name(Site::final_scale));
  for (const State& state : states_of(config, mid)) sites.push_back(site_name(state.site, state.layer));
  return sites;
}

template <class Real>
RankedToken rank_token(std::span<const Real> logits, TokenId token) {
  check(token >= 0 && token < static_cast<Index>(logits.size()), ErrorCode::usage,
        "token {} is not in the output vocabulary of {} tokens", token, logits.size());
  const Real mine = logits[static_cast<std::size_t>(token)];
  RankedToken ranked{.score = {token, static_cast<double>(mine), 0.0}, .rank = 1};
  for (std::size_t i = 0; i < logits.size(); ++i)
    ranked.rank += logits[i] > mine || (logits[i] == mine && i < static_cast<std::size_t>(token));
  ranked.score.probability = std::exp(ranked.score.logit - log_sum_exp(logits));
  return ranked;
}

template <class Real>
std::vector<LensRow> logit_lens(const Model& model, const BasicTrace<Real>& trace, const LensOptions& options) {
  const Index pos = resolve_position(options.pos, sequence_length(trace));
  const std::vector<State> states = states_of(model.config, options.mid);
  const Index n = static_cast<Index>(states.size());
  auto stream = BasicTensor<Real>::uninitialised({n, model.config.d_model});
  const View<Real, 2> x = stream.template view<2>();
  for (Index i = 0; i < n; ++i) {
    const State& state = states[static_cast<std::size_t>(i)];
    const std::span<const Real> values = at_position(trace, state.site, state.layer, pos);
    std::copy(values.begin(), values.end(), x.row(i).begin());
  }
  const bool plain = options.reading == LensReading::plain;
  if (model.config.has_final_norm()) {
    if (options.reading == LensReading::lens) final_norm(model, x);
    if (options.reading == LensReading::prefix)
      final_norm_held(model, static_cast<double>(at_position(trace, Site::final_scale, 0, pos).front()), x);
  }
  const BasicTensor<Real> logits = unembed<Real>(model, x, plain);

  std::vector<LensRow> rows(states.size());
  parallel_for(n, [&](Index i) {
    const std::span<const Real> row = logits.template view<2>().row(i);
    LensRow& result = rows[static_cast<std::size_t>(i)];
    result.label = states[static_cast<std::size_t>(i)].label;
    result.top = top_tokens(row, options.top);
    for (TokenId token : options.tokens) result.tokens.push_back(rank_token(row, token));
    result.entropy = entropy(row);
  });
  return rows;
}

template RankedToken rank_token(std::span<const float>, TokenId);
template RankedToken rank_token(std::span<const double>, TokenId);
template std::vector<LensRow> logit_lens(const Model&, const Trace&, const LensOptions&);
template std::vector<LensRow> logit_lens(const Model&, const TraceF64&, const LensOptions&);

}  // namespace kirchhoff
