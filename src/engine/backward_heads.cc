#include <algorithm>  // for copy_n, fill_n

#include "engine/backward.h"
#include "engine/head_views.h"
#include "kirchhoff/kernels/embedding.h"
#include "kirchhoff/kernels/gemm.h"

namespace kirchhoff::engine {

/// The gradients of what each head reads of the stream, through its q, k or v alone or through all three.
template <class Real>
void Backward<Real>::head_inputs(Index layer) {
  if (edits_head_inputs(layer)) return edited_head_inputs(layer);
  for (const Site site : {Site::attn_in, Site::q_input, Site::k_input, Site::v_input})
    seeds_.add_sum_of_heads(site, layer, dx_);
  const auto wants = [&](Site site) { return recorder_.wants(site, layer); };
  if (!wants(Site::attn_in) && !wants(Site::q_input) && !wants(Site::k_input) && !wants(Site::v_input)) return;
  const LayerWeights& w = layer_weights(layer);
  const std::vector<ConstMatrix> W = reader_.matrices({&w.W_Q, &w.W_K, &w.W_V});
  const bool own = dk_of_head_.data != nullptr;  // k and v of a group, by the query heads that read it
  head_input(Site::q_input, layer, {{dq_, W[0]}});
  head_input(Site::k_input, layer, {{dk_, W[1]}});
  head_input(Site::v_input, layer, {{dv_, W[2]}});
  head_input(Site::attn_in, layer, {{dq_, W[0]}, {own ? dk_of_head_ : dk_, W[1]}, {own ? dv_of_head_ : dv_, W[2]}});
}

/// For each head: the sum over what it feeds of d W^T, back through the head's own norm. Columns of W are its heads' or
/// its groups'.
template <class Real>
void Backward<Real>::head_input(Site site, Index layer, std::initializer_list<HeadRead> reads) {
  if (!recorder_.wants(site, layer)) return;
  const Index dh = config_.d_head, heads = reads.begin()->d.dim[1] / dh;
  const LayerWeights& w = layer_weights(layer);
  for (Index h = 0; h < heads; ++h) {
    for (const HeadRead& read : reads) {
      const Index columns = read.W.dim[1] / dh, column = h / (heads / columns);
      kernels::gemm(kernels::BasicGemmProblem<Real>{.a = head_of(by_head(read.d, dh), h),
                                                    .b = transposed(read.W).rows(column * dh, dh),
                                                    .c = heads_,
                                                    .accumulate = &read != reads.begin()});
    }
    if (pre_norm())
      norm({.kind = config_.norm,
            .weights = w.ln1,
            .name = {},
            .x = kept(Site::resid_pre, layer),
            .dout = heads_,
            .dx = heads_,
            .sites = NormSites{Site::ln1_scale, Site::ln1_normalized, layer},
            .parameters = false,
            .records = false});
    record_head(site, layer, h, heads_);
  }
}

/// One head of a [pos, head, d_model] site, with what a metric that reads it adds.
template <class Real>
void Backward<Real>::record_head(Site site, Index layer, Index h, Rows d) {
  for (Index s = 0; s < layout_.batch(); ++s) {
    const Rows rows = d.rows(layout_.first_row(s), layout_.length(s));
    if (seeds_.wants(site, layer)) kernels::add(rows, head_of(seeds_.pos_head(site, layer, s), h));
    if (!recorder_.wants(site, layer)) continue;
    const Rows out = head_of(recorder_.pos_head(site, layer, s), h);
    for (Index t = 0; t < rows.dim[0]; ++t) std::copy_n(rows.row(t).data(), rows.dim[1], out.row(t).data());
  }
}

template <class Real>
bool Backward<Real>::edits_head_inputs(Index layer) const {
  return edit_.wants(Site::attn_in, layer) || edit_.wants(Site::q_input, layer) || edit_.wants(Site::k_input, layer) ||
         edit_.wants(Site::v_input, layer) || (edges_ != nullptr && edges_->reads_attention(layer));
}

/// Where what heads read is edited, each has its own input, norm and gradient: dx_ gets the sum of these, and no other
/// read of attention's is left.
template <class Real>
void Backward<Real>::edited_head_inputs(Index layer) {
  const bool grouped = config_.n_heads != config_.n_kv_heads;
  check(!grouped || (!edit_.wants(Site::attn_in, layer) && !recorder_.wants(Site::attn_in, layer)),
        ErrorCode::unsupported,
        "gradients in layer {}: hook_attn_in, where heads share keys and values and what they read is edited; take "
        "hook_q_input, hook_k_input and hook_v_input",
        layer);
  for (const Site site : {Site::ln1_scale, Site::ln1_normalized})
    check(!recorder_.wants(site, layer) && !seeds_.wants(site, layer), ErrorCode::unsupported,
          "the gradient of {}: every head has its own where what heads read is edited", site_name(site, layer));
  using Kind = Reader::Kind;
  for (Index h = 0; grouped && h < config_.n_heads; ++h)
    for (const Kind kind : {Kind::head, Kind::k, Kind::v})
      check(!edges_into({kind, layer, h}), ErrorCode::unsupported,
            "gradients where an edge leads into {}: a copy of keys or values that heads share; take edges into "
            "the groups of heads",
            kirchhoff::name(Reader{kind, layer, h}));
  const LayerWeights& w = layer_weights(layer);
  EditedReads reads;
  if (config_.positions == Positions::shortformer) {
    reads.positions = BasicTensor<Real>({layout_.rows(), config_.d_model});
    reads.dinput = BasicTensor<Real>({layout_.rows(), config_.d_model});
    const Rows positions = reads.positions.template view<2>();
    for (Index s = 0; s < layout_.batch(); ++s)
      kernels::add_rows(positions.rows(layout_.first_row(s), layout_.length(s)),
                        reader_.rows(model_.weights.W_pos, 0, layout_.length(s)));
    edit_(Site::pos_embed, 0, positions);
  }
  reads.W = reader_.matrices({&w.W_Q, &w.W_K, &w.W_V});

  auto storage = BasicTensor<Real>::uninitialised({layout_.rows(), config_.d_model});
  const Rows d = storage.template view<2>();  // of hook_attn_in of a head
  for (Index h = 0; h < config_.n_heads; ++h) {
    BasicTensor<Real> input = copy_of<Real>(kept(Site::resid_pre, layer));
    const Rows in = input.template view<2>();
    if (edges_ != nullptr) edges_->add({Kind::head, layer, h}, in);
    edit_.head(Site::attn_in, layer, h, in, {});
    std::fill_n(d.data, d.size(), Real{});
    edited_head_read(reads, Site::q_input, layer, h, in, d);
    if (!grouped) {
      edited_head_read(reads, Site::k_input, layer, h, in, d);
      edited_head_read(reads, Site::v_input, layer, h, in, d);
    }
    if (!grouped) record_head(Site::attn_in, layer, h, d);
    edit_.pull_head(Site::attn_in, layer, h, d, {});
    pull_edges({Kind::head, layer, h}, d);
    kernels::add(dx_, d);
  }
  for (Index g = 0; grouped && g < config_.n_kv_heads; ++g)
    for (const Site site : {Site::k_input, Site::v_input})
      edited_head_read(reads, site, layer, g, kept(Site::resid_pre, layer), dx_);
  if (!reads.dinput.empty()) recorder_(Site::attn_input, layer, reads.dinput.template view<2>());
}

/// dx += the gradient of `in`, which a head's queries, keys or values read behind the edits of `site`.
template <class Real>
void Backward<Real>::edited_head_read(EditedReads& reads, Site site, Index layer, Index h, ConstRows in, Rows dx) {
  const LayerWeights& w = layer_weights(layer);
  const Index dh = config_.d_head, which = site == Site::q_input ? 0 : site == Site::k_input ? 1 : 2;
  const Rows d_all = which == 0 ? dq_ : which == 1 ? dk_ : dv_;
  const ConstRows d = head_of(by_head(ConstRows(d_all), dh), h);
  const NormSites sites{Site::ln1_scale, Site::ln1_normalized, layer};
  const bool shifts = !reads.positions.empty() && which < 2;

  // 1. What it read.
  BasicTensor<Real> own = copy_of<Real>(in), normed = copy_of<Real>(in);
  const Rows values = own.template view<2>(), seen = normed.template view<2>();
  const bool grouped = config_.n_heads != config_.n_kv_heads;
  using Kind = Reader::Kind;
  const Reader reader{which == 0   ? Kind::q
                      : which == 1 ? (grouped ? Kind::group_k : Kind::k)
                                   : (grouped ? Kind::group_v : Kind::v),
                      layer, h};
  if (edges_ != nullptr) edges_->add(reader, values);
  edit_.head(site, layer, h, values, {});
  if (options_.weights) {
    std::copy_n(values.data, values.size(), seen.data);
    if (pre_norm()) norm_of(w.ln1, sites, values, seen);
    if (shifts) {
      kernels::add(seen, reads.positions.template view<2>());
      edit_(Site::attn_input, layer, seen);
    }
    const std::string name = in_block(layer, which == 0 ? "W_Q" : which == 1 ? "W_K" : "W_V");
    const Rows dW = weight(name, {d_all.dim[1], config_.d_model}).template view<2>();
    multiply(transposed(d), seen, dW.rows(h * dh, dh), false);
  }

  // 2. From what the head made of it to the stream.
  kernels::gemm(kernels::BasicGemmProblem<Real>{
      .a = d, .b = transposed(reads.W[static_cast<std::size_t>(which)]).rows(h * dh, dh), .c = seen});
  if (shifts) {
    kernels::add(reads.dinput.template view<2>(), seen);
    edit_.pull(Site::attn_input, layer, seen);
    kernels::add(dpos_, seen);
  }
  if (pre_norm())
    norm({.kind = config_.norm,
          .weights = w.ln1,
          .name = in_block(layer, "ln1"),
          .x = values,
          .dout = seen,
          .dx = seen,
          .sites = sites,
          .records = false});
  record_head(site, layer, h, seen);
  edit_.pull_head(site, layer, h, seen, {});
  pull_edges(reader, seen);
  kernels::add(dx, seen);
}

// What the other files call; the rest follows from it.
template void Backward<float>::head_inputs(Index);
template void Backward<double>::head_inputs(Index);
template bool Backward<float>::edits_head_inputs(Index) const;
template bool Backward<double>::edits_head_inputs(Index) const;

}  // namespace kirchhoff::engine
