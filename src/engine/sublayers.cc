#include <algorithm>    // for copy_n, equal, min
#include <cmath>        // for abs
#include <type_traits>  // for is_same_v

#include "engine/forward.h"
#include "engine/head_views.h"
#include "kirchhoff/kernels/activations.h"
#include "kirchhoff/kernels/attention.h"
#include "kirchhoff/kernels/embedding.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/kernels/norm.h"
#include "kirchhoff/kernels/rotary.h"
#include "kirchhoff/kernels/smear.h"

namespace kirchhoff::engine {

/// out = sum over heads h of (pattern_h (in W_V^h)) W_O^h + b_O, pattern_h = softmax(mask(scale q_h k_h^T)).
template <class Real>
void Forward<Real>::attention(Index layer, ConstRows in) {
  const auto l = static_cast<std::size_t>(layer);
  const LayerWeights& w = model_.weights.layers[l];
  const Index n = layout_.rows(), past = layout_.past();

  // 1. Queries, keys and values: in W_Q + b_Q, ... Keys and values go behind those of earlier tokens. A resumed run has
  // queries at some of its rows alone.
  const AttentionRows rows = attention_rows(layer);
  const KeysValues all = keys_values(layer);
  const Rows q = q_.rows(0, rows.queries.rows()), k = all.k.rows(past, n), v = all.v.rows(past, n);
  const ConstRows qk_in = with_positions(layer, in), q_in = rows_of(rows.keys, rows.queries, qk_in, out_);
  std::vector<HeadCopy> copies;
  {
    const std::vector<ConstMatrix> W = reader_.matrices({&w.W_Q, &w.W_K, &w.W_V});
    const kernels::BasicGemmProblem<Real> problems[] = {
        {.a = q_in, .b = W[0], .c = q, .bias = values<Real>(w.b_Q)},
        {.a = qk_in, .b = W[1], .c = k, .bias = values<Real>(w.b_K)},
        {.a = in, .b = W[2], .c = v, .bias = values<Real>(w.b_V)},
    };
    kernels::gemm(problems);
    count(q.dim[0], q.dim[1], q_in.dim[1]);
    count(k.dim[0], k.dim[1] + v.dim[1], in.dim[1]);
    if (edits_head_inputs(layer)) copies = edit_head_inputs(layer, W, q, k, v);
  }

  // 2. q/k norm, smearing and rotation, in place.
  now_at(rows.queries);
  pass(Site::q, layer, q);
  if (config_.qk_norm != QkNorm::none) normalise_heads(w.q_norm, q);
  if (config_.positions == Positions::rotary) {
    if (resumed()) place_rotations();
    rotate(layer, q);
    pass(Site::rot_q, layer, q);
  }
  now_at(rows.keys);
  pass(Site::k, layer, k);
  pass(Site::v, layer, v);
  if (config_.qk_norm != QkNorm::none) normalise_heads(w.k_norm, k);
  if (config_.smeared_keys) smear(layer, k);
  if (config_.positions == Positions::rotary) {
    if (resumed()) place_rotations();
    rotate(layer, k);
    pass(Site::rot_k, layer, k);
  }
  if (kept_ != nullptr) {
    kept_->q.push_back(copy_of<Real>(q));
    kept_->k.push_back(copy_of<Real>(k));
    kept_->v.push_back(copy_of<Real>(v));
  }

  // 3. Scores, pattern and z of every sequence.
  BasicTensor<Real> copied;
  KeysValues read = all;
  if (!copies.empty()) {
    finish_copies(layer, copies);
    read = with_copies(copies, all.k, all.v, copied);
  }
  if (resumed())
    attend_branches(layer, rows, read);
  else
    attend(layer, q, read);
  join(layer, Entry::z);
  if (kept_ != nullptr) kept_->z.push_back(copy_of<Real>(z_));
  pass(Site::z, layer, z_);
  drop_unattending(layer);
  join(layer, Entry::result);

  // 4. z W_O + b_O: all heads in one product.
  const ConstMatrix W_O = reader_.matrices({&w.W_O})[0];
  kernels::gemm(kernels::BasicGemmProblem<Real>{.a = z_, .b = W_O, .c = out_, .bias = values<Real>(w.b_O)});
  count(z_.dim[0], z_.dim[1], out_.dim[1]);
  if (edits(Site::result, layer) || (resumed() && capture_.wants(Site::result, layer)))
    edit_results(layer, W_O);
  else
    record_results(layer, W_O);
}

/// z of every sequence of a run of whole sequences.
template <class Real>
void Forward<Real>::attend(Index layer, Rows q, const KeysValues& read) {
  const auto l = static_cast<std::size_t>(layer);
  const Index past = layout_.past();
  Problems problems;
  for (Index s = 0; s < layout_.batch(); ++s) {
    const Index first = layout_.first_row(s), length = layout_.length(s), dh = config_.d_head;
    problems.push_back({
        .q = by_head(ConstRows(q.rows(first, length)), dh),
        .k = by_head(ConstRows(read.k.rows(first, past + length)), dh),
        .v = by_head(ConstRows(read.v.rows(first, past + length)), dh),
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
  if (edits_patterns(layer))
    edit_patterns(layer, problems);
  else
    kernels::attention(std::span<const kernels::AttentionProblem<Real>>(problems));
}

/// out = post W_out + b_out; post = act(in W_in + b_in), gated: act(in W_gate + b_gate) * (in W_in + b_in).
template <class Real>
void Forward<Real>::mlp(Index layer, ConstRows in) {
  const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
  const bool gated = config_.gated_mlp;
  const std::vector<ConstMatrix> W =
      gated ? reader_.matrices({&w.W_in, &w.W_out, &w.W_gate}) : reader_.matrices({&w.W_in, &w.W_out});
  for (Index first = 0; first < layout_.rows(); first += kMlpRows) {
    const Index n = std::min(kMlpRows, layout_.rows() - first);
    const ConstRows rows = in.rows(first, n);
    const Rows pre = pre_.rows(0, n);

    // 1. Into d_mlp and through the activation, in place.
    if (gated) {
      const Rows linear = linear_.rows(0, n);
      const kernels::BasicGemmProblem<Real> problems[] = {
          {.a = rows, .b = W[2], .c = pre, .bias = values<Real>(w.b_gate)},
          {.a = rows, .b = W[0], .c = linear, .bias = values<Real>(w.b_in)},
      };
      kernels::gemm(problems);
      pass(Site::mlp_pre, layer, pre, first);
      pass(Site::mlp_pre_linear, layer, linear, first);
      kernels::activate_gated(config_.activation, pre, linear, pre);
    } else {
      kernels::gemm(kernels::BasicGemmProblem<Real>{.a = rows, .b = W[0], .c = pre, .bias = values<Real>(w.b_in)});
      pass(Site::mlp_pre, layer, pre, first);
      if (edits_gates(layer))
        activate_frozen(layer, pre, first);
      else
        kernels::activate(config_.activation, pre, pre);
    }
    if (config_.activation == Activation::solu_ln) {
      pass(Site::mlp_mid, layer, pre, first);
      const NormSites sites{Site::mlp_ln_scale, Site::mlp_ln_normalized, layer};
      norm(NormKind::layer_norm, w.mlp_ln_w, w.mlp_ln_b, pre, pre, sites, {first});
    }
    pass(Site::mlp_post, layer, pre, first);

    // 2. And back.
    kernels::gemm(
        kernels::BasicGemmProblem<Real>{.a = pre, .b = W[1], .c = out_.rows(first, n), .bias = values<Real>(w.b_out)});
    count(n, config_.d_mlp, config_.d_model * (gated ? 3 : 2));
  }
}

/// post = act(pre0)/pre0 * pre where gates are frozen to those of pre0, act(pre) elsewhere. Written act(pre0)
/// (pre/pre0), which is act(pre) itself where pre = pre0; at pre0 = 0 the limit from below (relu: 0; the others: their
/// slope).
template <class Real>
void Forward<Real>::activate_frozen(Index layer, Rows pre, Index first_row) {
  constexpr Real kTiny = static_cast<Real>(1e-30);
  auto frozen = BasicTensor<Real>::uninitialised({pre.dim[0], pre.dim[1]});
  const Rows gate = frozen.template view<2>();
  std::copy_n(pre.data, pre.size(), gate.data);
  const std::vector<Index> rows = edit_gates(layer, gate, {first_row});
  std::vector<BasicTensor<Real>> ratios;
  for (const Index row : rows) {
    BasicTensor<Real> ratio({pre.dim[1]});
    for (Index i = 0; i < pre.dim[1]; ++i) {
      Real& at = gate(row, i);
      ratio[i] = Real{1};
      if (at == pre(row, i)) continue;
      if (std::abs(at) < kTiny) at = -kTiny;
      ratio[i] = pre(row, i) / at;
    }
    ratios.push_back(std::move(ratio));
  }
  kernels::activate(config_.activation, gate, pre);
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (Index i = 0; i < pre.dim[1]; ++i) pre(rows[r], i) *= ratios[r][i];
}

template <class Real>
typename Forward<Real>::ConstRows Forward<Real>::read_mlp_input(Index layer, ConstRows attention_input) {
  const Reader reader{Reader::Kind::mlp, layer};
  if (edits(Site::mlp_in, layer) || edges_read(reader)) {
    mlp_stream_ = BasicTensor<Real>::uninitialised({x_.dim[0], x_.dim[1]});
    std::copy_n(x_.data, x_.size(), mlp_stream_.data());
    add_edges(reader, mlp_stream_.template view<2>());
    pass(Site::mlp_in, layer, mlp_stream_.template view<2>());
    return read_edited_mlp_input(layer, attention_input, mlp_stream_.template view<2>());
  }
  capture_(Site::mlp_in, layer, x_);
  if (config_.shared_norm) return attention_input;
  const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
  // A sequential block is done with attention's input when the MLP's turn comes.
  const Rows buffer = config_.parallel ? normed_mlp_ : normed_;
  return read_stream(w.ln2, buffer, {Site::ln2_scale, Site::ln2_normalized, layer});
}

/// What the MLP reads of a stream that it alone sees.
template <class Real>
typename Forward<Real>::ConstRows Forward<Real>::read_edited_mlp_input(Index layer, ConstRows attention_input,
                                                                       Rows stream) {
  const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
  if (!config_.pre_norm || config_.norm == NormKind::none) return stream;
  mlp_normed_ = BasicTensor<Real>::uninitialised({stream.dim[0], stream.dim[1]});
  const Rows normed = mlp_normed_.template view<2>();
  if (!config_.shared_norm) {
    norm(config_.norm, w.ln2.w, w.ln2.b, stream, normed, NormSites{Site::ln2_scale, Site::ln2_normalized, layer});
    return normed;
  }
  // Attention's norm, of the MLP's input where that is another one.
  std::vector<Index> changed;
  for (Index row = 0; row < stream.dim[0]; ++row) {
    std::copy_n(attention_input.row(row).data(), stream.dim[1], normed.row(row).data());
    const std::span<const Real> mine = stream.row(row), others = x_.row(row);
    if (!std::equal(mine.begin(), mine.end(), others.begin())) changed.push_back(row);
  }
  if (changed.empty()) return normed;
  BasicTensor<Real> gathered = gather_rows(stream, changed);
  const Rows rows = gathered.template view<2>();
  norm(config_.norm, w.ln1.w, w.ln1.b, rows, rows, NormSites{Site::ln1_scale, Site::ln1_normalized, layer},
       {0, changed});
  for (std::size_t i = 0; i < changed.size(); ++i)
    std::copy_n(rows.row(static_cast<Index>(i)).data(), stream.dim[1], normed.row(changed[i]).data());
  return normed;
}

/// Shortformer's input of q and k: in + W_pos[position]. Other models': in.
template <class Real>
typename Forward<Real>::ConstRows Forward<Real>::with_positions(Index layer, ConstRows in) {
  if (config_.positions != Positions::shortformer) return in;
  if (resumed()) {
    place_positions();
    edit(Site::pos_embed, 0, pos_);
  }
  const Rows shifted = shifted_;
  for (Index row = 0; row < in.dim[0]; ++row) std::copy_n(in.row(row).data(), in.dim[1], shifted.row(row).data());
  kernels::add(shifted, pos_);
  pass(Site::attn_input, layer, shifted);
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

/// k(j) = s k(j) + (1 - s) k(j - 1) in each sequence, s = sigmoid(smear): in place, unsmeared_k_ keeping what was
/// there.
template <class Real>
void Forward<Real>::smear(Index layer, Rows k) {
  if constexpr (std::is_same_v<Real, float>)
    if (options_.cache != nullptr)
      unsmeared_k_ = options_.cache->unsmeared_keys(layer, layout_.past() + k.dim[0]).rows(layout_.past(), k.dim[0]);
  std::copy_n(k.data, k.size(), unsmeared_k_.data);
  if (kept_ != nullptr) kept_->unsmeared_k.push_back(copy_of<Real>(unsmeared_k_));
  std::vector<const Real*> previous;
  previous.reserve(static_cast<std::size_t>(k.dim[0]));
  for (Index s = 0; s < layout_.batch(); ++s)
    for (Index row = layout_.first_row(s); row < layout_.first_row(s + 1); ++row)
      previous.push_back(key_before(layer, s, row));
  const WeightVector& alpha = model_.weights.layers[static_cast<std::size_t>(layer)].smear;
  kernels::smear(kernels::SmearProblem<Real>{.x = by_head(ConstRows(unsmeared_k_), config_.d_head),
                                             .out = by_head(k, config_.d_head),
                                             .previous = previous,
                                             .alpha = values<Real>(alpha)});
  pass(Site::smeared_k, layer, k);
}

/// The unsmeared key before that of a row: this run's, the cache's, or, where a resumed run has no such row, the
/// base's. Null at the beginning of a sequence.
template <class Real>
const Real* Forward<Real>::key_before(Index layer, Index sequence, Index row) const {
  const Index token = layout_.token_of(sequence, row), width = unsmeared_k_.dim[1];
  if (token > 0) {
    const Index before = layout_.find_row(sequence, token - 1);
    if (before >= 0) return unsmeared_k_.data + before * width;
    const Index base_row = branches_->base.layout.first_row(branches_->plan.base_of(sequence)) + token - 1;
    return branches_->base.unsmeared_k[static_cast<std::size_t>(layer)].data() + base_row * width;
  }
  return layout_.past() == 0 ? nullptr : unsmeared_k_.data - width;  // the last of those that the cache holds
}

template <class Real>
void Forward<Real>::rotate(Index layer, Rows x, RowMap rows) {
  const Index table = config_.rotary_table_of_layer[static_cast<std::size_t>(layer)];
  const Rotation& all = rotations_[static_cast<std::size_t>(table)];
  BasicTensor<Real> cos, sin;
  Rotation rotation;
  if (rows.contiguous()) {  // the tables have room for the most rows that a run has at a time
    rotation = {all.cos.rows(rows.first, x.dim[0]), all.sin.rows(rows.first, x.dim[0])};
  } else {
    cos = gather_rows(all.cos, rows.gathered);
    sin = gather_rows(all.sin, rows.gathered);
    rotation = {cos.template view<2>(), sin.template view<2>()};
  }
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
    const View<Real, 3> z = by_head(z_.rows(layout_.first_row(s), layout_.row_count(s)), dh);
    for (Index h = 0; h < config_.n_heads; ++h)
      problems.push_back({.a = head_of(z, h), .b = W_O.rows(h * dh, dh), .c = head_of(result, h)});
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

// What the other files call; the rest follows from it.
template void Forward<float>::attention(Index, ConstRows);
template void Forward<double>::attention(Index, ConstRows);
template void Forward<float>::mlp(Index, ConstRows);
template void Forward<double>::mlp(Index, ConstRows);
template void Forward<float>::normalise_heads(const WeightVector&, Rows);
template void Forward<double>::normalise_heads(const WeightVector&, Rows);
template const float* Forward<float>::key_before(Index, Index, Index) const;
template const double* Forward<double>::key_before(Index, Index, Index) const;
template void Forward<float>::rotate(Index, Rows, RowMap);
template void Forward<double>::rotate(Index, Rows, RowMap);
template View<const float, 2> Forward<float>::read_mlp_input(Index, ConstRows);
template View<const double, 2> Forward<double>::read_mlp_input(Index, ConstRows);

}  // namespace kirchhoff::engine
