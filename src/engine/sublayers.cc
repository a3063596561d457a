#include <algorithm>    // for copy_n, min
#include <type_traits>  // for is_same_v

#include "engine/forward.h"
#include "kirchhoff/kernels/activations.h"
#include "kirchhoff/kernels/attention.h"
#include "kirchhoff/kernels/embedding.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/kernels/norm.h"
#include "kirchhoff/kernels/rotary.h"

namespace kirchhoff::engine {
namespace {

/// [rows, heads * d_head] seen as [rows, heads, d_head].
template <class T>
View<T, 3> by_head(View<T, 2> x, Index d_head) {
  return {x.data, {x.dim[0], x.dim[1] / d_head, d_head}, {x.stride[0], d_head, 1}};
}

/// Head h of [rows, heads, width] as a matrix.
template <class T>
View<T, 2> head(View<T, 3> x, Index h) {
  return {x.data + h * x.stride[1], {x.dim[0], x.dim[2]}, {x.stride[0], x.stride[2]}};
}

}  // namespace

/// out = sum over heads h of (pattern_h (in W_V^h)) W_O^h + b_O, pattern_h = softmax(mask(scale q_h k_h^T)).
template <class Real>
void Forward<Real>::attention(Index layer, ConstRows in) {
  const auto l = static_cast<std::size_t>(layer);
  const LayerWeights& w = model_.weights.layers[l];
  const Index n = layout_.rows(), past = layout_.past();

  // 1. Queries, keys and values: in W_Q + b_Q, ... Keys and values go behind those of earlier tokens.
  const KeysValues all = keys_values(layer);
  const Rows q = q_, k = all.k.rows(past, n), v = all.v.rows(past, n);
  const ConstRows qk_in = with_positions(layer, in);
  {
    const std::vector<ConstMatrix> W = reader_.matrices({&w.W_Q, &w.W_K, &w.W_V});
    const kernels::BasicGemmProblem<Real> problems[] = {
        {.a = qk_in, .b = W[0], .c = q, .bias = values<Real>(w.b_Q)},
        {.a = qk_in, .b = W[1], .c = k, .bias = values<Real>(w.b_K)},
        {.a = in, .b = W[2], .c = v, .bias = values<Real>(w.b_V)},
    };
    kernels::gemm(problems);
  }
  capture_(Site::q, layer, q);
  capture_(Site::k, layer, k);
  capture_(Site::v, layer, v);

  // 2. q/k norm and rotation, in place.
  if (config_.qk_norm != QkNorm::none) {
    normalise_heads(w.q_norm, q);
    normalise_heads(w.k_norm, k);
  }
  if (config_.positions == Positions::rotary) {
    rotate(layer, q);
    rotate(layer, k);
    capture_(Site::rot_q, layer, q);
    capture_(Site::rot_k, layer, k);
  }

  // 3. Scores, pattern and z of every sequence.
  std::vector<kernels::AttentionProblem<Real>> problems;
  for (Index s = 0; s < layout_.batch(); ++s) {
    const Index first = layout_.first_row(s), length = layout_.length(s), dh = config_.d_head;
    problems.push_back({
        .q = by_head(ConstRows(q.rows(first, length)), dh),
        .k = by_head(ConstRows(all.k.rows(first, past + length)), dh),
        .v = by_head(ConstRows(all.v.rows(first, past + length)), dh),
        .z = by_head(z_.rows(first, length), dh),
        .first_query = past,
        .scale = config_.attn_scale_of_layer[l],
        .softcap = config_.attn_softcap,
        .window = config_.window_of_layer[l],
        .causal = config_.causal,
        .slopes = config_.positions == Positions::alibi ? config_.alibi_slopes.data() : nullptr,
        .scores = capture_.head_query_key(Site::attn_scores, layer, s),
        .pattern = capture_.head_query_key(Site::pattern, layer, s),
    });
  }
  kernels::attention(std::span<const kernels::AttentionProblem<Real>>(problems));
  capture_(Site::z, layer, z_);

  // 4. z W_O + b_O: all heads in one product.
  const ConstMatrix W_O = reader_.matrices({&w.W_O})[0];
  kernels::gemm(kernels::BasicGemmProblem<Real>{.a = z_, .b = W_O, .c = out_, .bias = values<Real>(w.b_O)});
  record_results(layer, W_O);
}

/// out = post W_out + b_out; post = act(in W_in + b_in), gated: act(in W_gate + b_gate) * (in W_in + b_in).
template <class Real>
void Forward<Real>::mlp(Index layer, ConstRows in) {
  const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
  const bool gated = config_.gated_mlp;
  const std::vector<ConstMatrix> W =
      gated ? reader_.matrices({&w.W_in, &w.W_out, &w.W_gate}) : reader_.matrices({&w.W_in, &w.W_out});
  for (Index first = 0; first < layout_.rows(); first += kMlpRows) {
    const Index count = std::min(kMlpRows, layout_.rows() - first);
    const ConstRows rows = in.rows(first, count);
    const Rows pre = pre_.rows(0, count);

    // 1. Into d_mlp and through the activation, in place.
    if (gated) {
      const Rows linear = linear_.rows(0, count);
      const kernels::BasicGemmProblem<Real> problems[] = {
          {.a = rows, .b = W[2], .c = pre, .bias = values<Real>(w.b_gate)},
          {.a = rows, .b = W[0], .c = linear, .bias = values<Real>(w.b_in)},
      };
      kernels::gemm(problems);
      capture_(Site::mlp_pre, layer, pre, first);
      capture_(Site::mlp_pre_linear, layer, linear, first);
      kernels::activate_gated(config_.activation, pre, linear, pre);
    } else {
      kernels::gemm(kernels::BasicGemmProblem<Real>{.a = rows, .b = W[0], .c = pre, .bias = values<Real>(w.b_in)});
      capture_(Site::mlp_pre, layer, pre, first);
      kernels::activate(config_.activation, pre, pre);
    }
    if (config_.activation == Activation::solu_ln) {
      capture_(Site::mlp_mid, layer, pre, first);
      const NormSites sites{Site::mlp_ln_scale, Site::mlp_ln_normalized, layer};
      norm(NormKind::layer_norm, w.mlp_ln_w, w.mlp_ln_b, pre, pre, sites, first);
    }
    capture_(Site::mlp_post, layer, pre, first);

    // 2. And back.
    kernels::gemm(kernels::BasicGemmProblem<Real>{
        .a = pre, .b = W[1], .c = out_.rows(first, count), .bias = values<Real>(w.b_out)});
  }
}

template <class Real>
typename Forward<Real>::ConstRows Forward<Real>::read_mlp_input(Index layer, ConstRows attention_input) {
  capture_(Site::mlp_in, layer, x_);
  if (config_.shared_norm) return attention_input;
  const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
  // A sequential block is done with attention's input when the MLP's turn comes.
  const Rows buffer = config_.parallel ? normed_mlp_ : normed_;
  return read_stream(w.ln2, buffer, {Site::ln2_scale, Site::ln2_normalized, layer});
}

/// Shortformer's input of q and k: in + W_pos[position]. Other models': in.
template <class Real>
typename Forward<Real>::ConstRows Forward<Real>::with_positions(Index layer, ConstRows in) {
  if (config_.positions != Positions::shortformer) return in;
  const Rows shifted = shifted_;
  for (Index row = 0; row < in.dim[0]; ++row) std::copy_n(in.row(row).data(), in.dim[1], shifted.row(row).data());
  kernels::add(shifted, pos_);
  capture_(Site::attn_input, layer, shifted);
  return shifted;
}

/// RMS norm of q or k: of each head, or of all heads together.
template <class Real>
void Forward<Real>::normalise_heads(const WeightVector& gain, Rows x) {
  const bool per_head = config_.qk_norm == QkNorm::per_head;
  const Index width = per_head ? config_.d_head : x.dim[1];
  const Rows seen{x.data, {x.size() / width, width}};  // x has no gaps between its rows
  norm(NormKind::rms, gain, WeightVector(), seen, seen);
}

template <class Real>
void Forward<Real>::rotate(Index layer, Rows x) {
  const Index table = config_.rotary_table_of_layer[static_cast<std::size_t>(layer)];
  const Rotation& rotation = rotations_[static_cast<std::size_t>(table)];
  const View<Real, 3> heads = by_head(x, config_.d_head);
  kernels::rotate(kernels::RotaryProblem<Real>{
      .x = heads,
      .out = heads,
      .cos = rotation.cos,
      .sin = rotation.sin,
      .pairs = config_.rotary_adjacent ? kernels::RotaryPairs::adjacent : kernels::RotaryPairs::half});
}

/// result_h = z_h W_O^h, written where it is recorded.
template <class Real>
void Forward<Real>::record_results(Index layer, ConstMatrix W_O) {
  if (!capture_.wants(Site::result, layer)) return;
  const Index dh = config_.d_head;
  std::vector<kernels::BasicGemmProblem<Real>> problems;
  for (Index s = 0; s < layout_.batch(); ++s) {
    const View<Real, 3> result = capture_.pos_head(Site::result, layer, s);
    const View<Real, 3> z = by_head(z_.rows(layout_.first_row(s), layout_.length(s)), dh);
    for (Index h = 0; h < config_.n_heads; ++h)
      problems.push_back({.a = head(z, h), .b = W_O.rows(h * dh, dh), .c = head(result, h)});
  }
  kernels::gemm(std::span<const kernels::BasicGemmProblem<Real>>(problems));
}

template <class Real>
typename Forward<Real>::KeysValues Forward<Real>::keys_values(Index layer) {
  if constexpr (std::is_same_v<Real, float>) {
    const Index keys = layout_.past() + layout_.rows();
    if (KvCache* cache = options_.cache) return {cache->keys(layer, keys), cache->values(layer, keys)};
  }
  return {k_, v_};
}

// What forward.cc calls; the rest follows from it.
template void Forward<float>::attention(Index, ConstRows);
template void Forward<double>::attention(Index, ConstRows);
template void Forward<float>::mlp(Index, ConstRows);
template void Forward<double>::mlp(Index, ConstRows);
template View<const float, 2> Forward<float>::read_mlp_input(Index, ConstRows);
template View<const double, 2> Forward<double>::read_mlp_input(Index, ConstRows);

}  // namespace kirchhoff::engine
