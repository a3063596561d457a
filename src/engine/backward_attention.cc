#include <algorithm>  // for copy_n, fill_n
#include <span>       // for span

#include "engine/backward.h"
#include "engine/head_views.h"
#include "kirchhoff/kernels/attention_backward.h"
#include "kirchhoff/kernels/embedding.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/kernels/norm.h"
#include "kirchhoff/kernels/norm_backward.h"
#include "kirchhoff/kernels/rotary.h"
#include "kirchhoff/kernels/smear.h"

namespace kirchhoff::engine {
namespace {

/// out(t, g, .) = the sum of x(t, h, .) over the heads of group g; x: [rows, H dh], out: [rows, G dh].
template <class Real>
void sum_of_groups(View<const Real, 2> x, Index d_head, View<Real, 2> out) {
  const Index groups = out.dim[1] / d_head, heads_of_group = x.dim[1] / out.dim[1];
  for (Index row = 0; row < x.dim[0]; ++row)
    for (Index g = 0; g < groups; ++g)
      for (Index i = 0; i < d_head; ++i) {
        Real sum{};
        for (Index r = 0; r < heads_of_group; ++r) sum += x(row, (g * heads_of_group + r) * d_head + i);
        out(row, g * d_head + i) = sum;
      }
}

}  // namespace

/// Forward::attention from its end to its beginning: dout_ -> dnormed.
template <class Real>
void Backward<Real>::attention(Index layer, Rows dnormed) {
  const LayerWeights& w = layer_weights(layer);
  const auto name = [layer](std::string_view slot) { return in_block(layer, slot); };

  // 1. dz = dout W_O^T.
  {
    const ConstMatrix W_O = reader_.matrices({&w.W_O})[0];
    if (edit_.wants(Site::result, layer)) {
      edited_results(layer, W_O);
    } else {
      kernels::gemm(kernels::BasicGemmProblem<Real>{.a = dout_, .b = transposed(W_O), .c = dz_});
      results(layer, W_O);
      if (options_.weights) matrix_gradient(name("W_O"), dout_, kept(Site::z, layer));
    }
  }
  bias_gradient(name("b_O"), w.b_O, dout_);
  if (edges_ != nullptr && edges_->wants_heads(layer)) {
    const BasicTensor<Real> scale = config_.post_norm ? post_scale(layer) : BasicTensor<Real>();
    edges_->pull_heads(layer, reader_.matrices({&w.W_O})[0], kept(Site::z, layer),
                       config_.post_norm ? scale.data() : nullptr, nullptr, dz_);
  }
  pass(Site::z, layer, dz_);

  // 2. Through the pattern to queries, keys and values as attention reads them, then to what the products gave.
  attend(layer);
  const bool rotary = config_.positions == Positions::rotary;
  if (rotary) {
    pass(Site::rot_q, layer, dq_);
    pass(Site::rot_k, layer, dk_);
    rotate_back(layer, dq_);
    rotate_back(layer, dk_);
    if (dk_of_head_.data != nullptr) rotate_back(layer, dk_of_head_);
  }
  if (config_.smeared_keys) smear_back(layer);
  if (config_.qk_norm != QkNorm::none) {
    normalise_heads(w.q_norm, name("q_norm"), kept(Site::q, layer), dq_);
    normalise_heads(w.k_norm, name("k_norm"), kept(Site::k, layer), dk_);
    if (dk_of_head_.data != nullptr) normalise_own_keys(layer);
  }
  pass(Site::q, layer, dq_);
  pass(Site::k, layer, dk_);
  pass(Site::v, layer, dv_);
  bias_gradient(name("b_Q"), w.b_Q, dq_);
  bias_gradient(name("b_K"), w.b_K, dk_);
  bias_gradient(name("b_V"), w.b_V, dv_);
  if (edits_head_inputs(layer)) {  // head by head, in head_inputs
    std::fill_n(dnormed.data, dnormed.size(), Real{});
    return;
  }
  if (options_.weights) projection_weights(layer);

  // 3. dnormed = dq W_Q^T + dk W_K^T + dv W_V^T; shortformer's positions join before q and k.
  const std::vector<ConstMatrix> W = reader_.matrices({&w.W_Q, &w.W_K, &w.W_V});
  const auto add_product = [&](ConstRows d, ConstMatrix matrix, bool accumulate) {
    kernels::gemm(
        kernels::BasicGemmProblem<Real>{.a = d, .b = transposed(matrix), .c = dnormed, .accumulate = accumulate});
  };
  add_product(dq_, W[0], false);
  add_product(dk_, W[1], true);
  if (config_.positions == Positions::shortformer) {
    pass(Site::attn_input, layer, dnormed);
    kernels::add(dpos_, dnormed);
  }
  add_product(dv_, W[2], true);
}

/// Each head's result has the gradient of their sum. A metric that reads results reads z through W_O.
template <class Real>
void Backward<Real>::results(Index layer, ConstMatrix W_O) {
  if (!passes(Site::result, layer)) return;
  recorder_.for_each_head(Site::result, layer, dout_);
  if (!seeds_.wants(Site::result, layer)) return;
  const Index dh = config_.d_head;
  for (Index s = 0; s < layout_.batch(); ++s) {
    const View<const Real, 3> seed = seeds_.pos_head(Site::result, layer, s);
    const View<Real, 3> dz = by_head(dz_.rows(layout_.first_row(s), layout_.length(s)), dh);
    for (Index h = 0; h < config_.n_heads; ++h) {
      kernels::gemm(kernels::BasicGemmProblem<Real>{
          .a = head_of(seed, h), .b = transposed(W_O.rows(h * dh, dh)), .c = head_of(dz, h), .accumulate = true});
      if (!recorder_.wants(Site::result, layer)) continue;
      kernels::add(head_of(recorder_.pos_head(Site::result, layer, s), h), head_of(seed, h));
    }
  }
}

/// dz_ -> dq_, dk_, dv_, of every sequence.
template <class Real>
void Backward<Real>::attend(Index layer) {
  const auto l = static_cast<std::size_t>(layer);
  const bool rotary = config_.positions == Positions::rotary, own = dk_of_head_.data != nullptr;
  const bool smeared = config_.smeared_keys, norms = !rotary && config_.qk_norm != QkNorm::none;
  ConstRows q = kept(rotary ? Site::rot_q : Site::q, layer);
  ConstRows k = kept(rotary ? Site::rot_k : smeared ? Site::smeared_k : Site::k, layer);
  BasicTensor<Real> normed_q, normed_k;
  const LayerWeights& w = layer_weights(layer);
  if (norms) {
    normed_q = normed_heads(w.q_norm, q);
    q = normed_q.template view<2>();
  }
  if (norms && !smeared) {
    normed_k = normed_heads(w.k_norm, k);
    k = normed_k.template view<2>();
  }
  const ConstRows v = kept(Site::v, layer);
  std::vector<kernels::AttentionBackwardProblem<Real>> problems;
  for (Index s = 0; s < layout_.batch(); ++s) {
    const Index first = layout_.first_row(s), length = layout_.length(s), dh = config_.d_head;
    problems.push_back({
        .q = by_head(q.rows(first, length), dh),
        .k = by_head(k.rows(first, length), dh),
        .v = by_head(v.rows(first, length), dh),
        .dz = by_head(ConstRows(dz_.rows(first, length)), dh),
        .dq = by_head(dq_.rows(first, length), dh),
        .dk = by_head((own ? dk_of_head_ : dk_).rows(first, length), dh),
        .dv = by_head((own ? dv_of_head_ : dv_).rows(first, length), dh),
        .scale = config_.attn_scale_of_layer[l],
        .softcap = config_.attn_softcap,
        .window = config_.window_of_layer[l],
        .causal = config_.causal,
        .slopes = config_.positions == Positions::alibi ? config_.alibi_slopes.data() : nullptr,
        .detach_pattern = options_.rules.detach_pattern,
        .dscores = recorder_.head_query_key(Site::attn_scores, layer, s),
        .dpattern = recorder_.head_query_key(Site::pattern, layer, s),
        .scores_seed = seeds_.head_query_key(Site::attn_scores, layer, s),
        .pattern_seed = seeds_.head_query_key(Site::pattern, layer, s),
    });
  }
  if (edit_.wants(Site::attn_scores, layer) || edit_.wants(Site::pattern, layer)) {
    for (Index s = 0; s < layout_.batch(); ++s) edited_attention(layer, problems[static_cast<std::size_t>(s)], s);
  } else {
    kernels::attention_backward(std::span<const kernels::AttentionBackwardProblem<Real>>(problems));
  }
  if (!own) return;
  sum_of_groups<Real>(dk_of_head_, config_.d_head, dk_);
  sum_of_groups<Real>(dv_of_head_, config_.d_head, dv_);
}

template <class Real>
void Backward<Real>::rotate_back(Index layer, Rows d) {
  const auto table = static_cast<std::size_t>(config_.rotary_table_of_layer[static_cast<std::size_t>(layer)]);
  const View<Real, 3> heads = by_head(d, config_.d_head);
  kernels::rotate(kernels::RotaryProblem<Real>{
      .x = heads,
      .out = heads,
      .cos = cos_[table].template view<2>(),
      .sin = sin_[table].template view<2>(),
      .pairs = config_.rotary_adjacent ? kernels::RotaryPairs::adjacent : kernels::RotaryPairs::half,
      .back = true});
}

/// From the gradient of the smeared keys to that of the keys by themselves, and to their alphas'.
template <class Real>
void Backward<Real>::smear_back(Index layer) {
  pass(Site::smeared_k, layer, dk_);
  const LayerWeights& w = layer_weights(layer);
  const bool norms = config_.qk_norm != QkNorm::none;
  const BasicTensor<Real> normed = norms ? normed_heads(w.k_norm, kept(Site::k, layer)) : BasicTensor<Real>();
  const ConstRows k = norms ? normed.template view<2>() : kept(Site::k, layer);
  std::vector<Index> lengths;
  for (Index s = 0; s < layout_.batch(); ++s) lengths.push_back(layout_.length(s));
  kernels::SmearBackwardProblem<Real> problem{.x = by_head(k, config_.d_head),
                                              .d = by_head(dk_, config_.d_head),
                                              .lengths = lengths,
                                              .alpha = values<Real>(w.smear),
                                              .alphas = config_.n_kv_heads,
                                              .dalpha = vector_gradient(in_block(layer, "smear"), w.smear)};
  kernels::smear_backward(problem);
  if (dk_of_head_.data == nullptr) return;
  problem.d = by_head(dk_of_head_, config_.d_head);
  problem.dalpha = nullptr;
  kernels::smear_backward(problem);
}

/// The RMS norm of each head, or of all heads together, in place.
template <class Real>
void Backward<Real>::normalise_heads(const WeightVector& gain, const std::string& name, ConstRows x, Rows d) {
  const Index width = config_.qk_norm == QkNorm::per_head ? config_.d_head : x.dim[1];
  const Rows seen{d.data, {d.size() / width, width}};
  kernels::rms_norm_backward(kernels::NormBackwardProblem<Real>{.x = ConstRows(x.data, seen.dim),
                                                                .dout = seen,
                                                                .dx = seen,
                                                                .gain = values<Real>(gain),
                                                                .eps = config_.norm_eps,
                                                                .detach_scale = options_.rules.detach_norm_scale,
                                                                .dgain = vector_gradient(name, gain)});
}

/// The same for each query head's part of dk: the head's copy of its group's k, normalised alike.
template <class Real>
void Backward<Real>::normalise_own_keys(Index layer) {
  check(config_.qk_norm == QkNorm::per_head, ErrorCode::unsupported,
        "the gradient of hook_attn_in by query head: k's norm mixes the groups that the heads share");
  const View<const Real, 3> k = by_head(kept(Site::k, layer), config_.d_head);
  const View<Real, 3> own = by_head(dk_of_head_, config_.d_head);
  for (Index h = 0; h < config_.n_heads; ++h) {
    const Rows d = head_of(own, h);
    kernels::rms_norm_backward(
        kernels::NormBackwardProblem<Real>{.x = head_of(k, h / (config_.n_heads / config_.n_kv_heads)),
                                           .dout = d,
                                           .dx = d,
                                           .gain = values<Real>(layer_weights(layer).k_norm),
                                           .eps = config_.norm_eps,
                                           .detach_scale = options_.rules.detach_norm_scale});
  }
}

/// q or k after its norm, where no site keeps it.
template <class Real>
BasicTensor<Real> Backward<Real>::normed_heads(const WeightVector& gain, ConstRows x) const {
  const Index width = config_.qk_norm == QkNorm::per_head ? config_.d_head : x.dim[1];
  auto normed = BasicTensor<Real>::uninitialised({x.dim[0], x.dim[1]});
  kernels::rms_norm(kernels::NormProblem<Real>{.x = ConstRows(x.data, {x.size() / width, width}),
                                               .out = Rows(normed.data(), {x.size() / width, width}),
                                               .gain = values<Real>(gain),
                                               .eps = config_.norm_eps});
  return normed;
}

/// dW_Q = in^T dq and so on, as storage.
template <class Real>
void Backward<Real>::projection_weights(Index layer) {
  const LayerWeights& w = layer_weights(layer);
  const ConstRows in =
      normed_input(w.ln1, {Site::ln1_scale, Site::ln1_normalized, layer}, kept(Site::resid_pre, layer), normed_);
  const auto name = [layer](std::string_view slot) { return in_block(layer, slot); };
  matrix_gradient(name("W_V"), dv_, in);
  if (config_.positions == Positions::shortformer && options_.run.interventions.empty()) {
    if (in.data != normed_.data) std::copy_n(in.data, in.size(), normed_.data);
    for (Index s = 0; s < layout_.batch(); ++s)
      kernels::add_rows(normed_.rows(layout_.first_row(s), layout_.length(s)),
                        reader_.rows(model_.weights.W_pos, 0, layout_.length(s)));
  }
  ConstRows qk_in = in;
  if (config_.positions == Positions::shortformer)
    qk_in = options_.run.interventions.empty() ? ConstRows(normed_) : kept(Site::attn_input, layer);
  matrix_gradient(name("W_Q"), dq_, qk_in);
  matrix_gradient(name("W_K"), dk_, qk_in);
}

// What backward.cc calls; the rest follows from it.
template void Backward<float>::attention(Index, Rows);
template void Backward<double>::attention(Index, Rows);

}  // namespace kirchhoff::engine
