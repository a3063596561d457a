#include "engine/forward.h"

#include <algorithm>    // for copy_n, min
#include <type_traits>  // for is_same_v
#include <utility>      // for move

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/kernels/activations.h"
#include "kirchhoff/kernels/embedding.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/kernels/norm.h"
#include "kirchhoff/kernels/rotary.h"

namespace kirchhoff::engine {
namespace {

/// Columns of a packed W_U that are expanded at a time: 8192 x 4096 floats are 128 MiB, less than a layer of such a
/// model.
constexpr Index kPackedSlice = 8192;

/// Error{usage} unless the model can read the batch after `past` earlier tokens.
void check_batch(const ModelConfig& config, std::span<const Tokens> batch, Index past) {
  check(!batch.empty(), ErrorCode::usage, "nothing to run: the batch has no sequences");
  for (const Tokens& tokens : batch) {
    const auto length = static_cast<Index>(tokens.size());
    check(length > 0, ErrorCode::usage, "nothing to run: a prompt has no tokens");
    check(config.n_ctx == 0 || past + length <= config.n_ctx, ErrorCode::usage,
          "the prompt has {} tokens, the model's context holds {}", past + length, config.n_ctx);
    for (const TokenId id : tokens)
      check(id >= 0 && id < config.d_vocab, ErrorCode::usage,
            "token id {} is out of range: the vocabulary has ids 0 to {}", id, config.d_vocab - 1);
  }
}

/// Makes room in the cache; returns how many tokens it holds.
template <class Real>
Index prepare(KvCache* cache, const ModelConfig& config, std::span<const Tokens> batch) {
  if (cache == nullptr) return 0;
  check(std::is_same_v<Real, float>, ErrorCode::usage, "a key-value cache holds float32: the double path takes none");
  check(batch.size() == 1, ErrorCode::usage, "a key-value cache is one sequence's: the batch has {}", batch.size());
  check(cache->fits(config), ErrorCode::usage, "the key-value cache was made for another model");
  return cache->length();
}

}  // namespace

template <class Real>
Forward<Real>::Forward(const Model& model, std::span<const Tokens> batch, const RunOptions& options)
    : model_(model),
      config_(model.config),
      options_(options),
      layout_(batch, prepare<Real>(options.cache, model.config, batch), options.pad_left),
      capture_(model.config, layout_, options.capture, trace_) {
  check_batch(config_, batch, layout_.past());
  trace_.tokens.assign(batch.begin(), batch.end());
  trace_.pad_left = options.pad_left;
}

template <class Real>
BasicTrace<Real> Forward<Real>::run() {
  allocate_workspace();
  embed();
  for (Index layer = 0; layer < config_.n_layers; ++layer) {
    report(options_.progress, "layers", layer, config_.n_layers);
    block(layer);
  }
  if (options_.cache != nullptr) options_.cache->append(layout_.rows());
  unembed();
  report(options_.progress, "layers", config_.n_layers, config_.n_layers);
  return std::move(trace_);
}

/// x = W_E[token] * scale, normalised (BLOOM), plus W_pos[position].
template <class Real>
void Forward<Real>::embed() {
  const Index n = layout_.rows(), d = config_.d_model;
  const Rows x = x_.view;

  // 1. Token embeddings: rows of W_E, gathered first if they are packed.
  Tokens ids;
  for (const Tokens& tokens : trace_.tokens) ids.insert(ids.end(), tokens.begin(), tokens.end());
  const WeightMatrix& W_E = model_.weights.W_E;
  if (!W_E.packed()) {
    kernels::embed(W_E.storage(), ids, config_.embed_scale, x);
  } else {
    Tensor gathered = Tensor::uninitialised({n, d});
    for (Index row = 0; row < n; ++row) {
      TokenId& id = ids[static_cast<std::size_t>(row)];
      W_E.rows(id, id + 1, gathered.data() + row * d);
      id = static_cast<TokenId>(row);
    }
    kernels::embed(gathered.view<2>(), ids, config_.embed_scale, x);
  }
  capture_(Site::embed_module, 0, x);
  if (config_.embed_norm) norm(config_.norm, model_.weights.ln_embed.w, model_.weights.ln_embed.b, x, x);
  capture_(Site::embed, 0, x);

  // 2. Positions: added to the stream here, or (shortformer) to the input of every q and k later.
  if (config_.positions == Positions::learned || config_.positions == Positions::shortformer) {
    const Rows pos = pos_.view;
    std::fill_n(pos.data, n * d, Real{});
    const ConstMatrix table = reader_.rows(model_.weights.W_pos, layout_.past(), layout_.longest());
    for (Index s = 0; s < layout_.batch(); ++s)
      kernels::add_rows(pos.rows(layout_.first_row(s), layout_.length(s)), table.rows(0, layout_.length(s)));
    capture_(Site::pos_embed, 0, pos);
    if (config_.positions == Positions::learned) kernels::add(x, pos);
  }

  // 3. Rotations: cos and sin of every row's position, once for all layers.
  for (const RotaryTable& table : config_.rotary_tables) {
    Rotation& r = rotations_.emplace_back();
    const auto pairs = static_cast<Index>(table.inv_freq.size());
    r.cos.allocate(n, pairs);
    r.sin.allocate(n, pairs);
    for (Index s = 0; s < layout_.batch(); ++s)
      kernels::rotary_tables(table.inv_freq, layout_.past(), r.cos.view.rows(layout_.first_row(s), layout_.length(s)),
                             r.sin.view.rows(layout_.first_row(s), layout_.length(s)));
  }
}

/// Everything that the blocks write and overwrite; nothing else is held, whatever the depth of the model.
template <class Real>
void Forward<Real>::allocate_workspace() {
  const Index n = layout_.rows(), d = config_.d_model, q_width = config_.n_heads * config_.d_head,
              k_width = config_.n_kv_heads * config_.d_head;
  x_.allocate(n, d);
  out_.allocate(n, d);
  normed_.allocate(n, d);
  q_.allocate(n, q_width);
  z_.allocate(n, q_width);
  if (options_.cache != nullptr) {
    options_.cache->reserve(layout_.past() + n);
  } else {
    k_.allocate(n, k_width);
    v_.allocate(n, k_width);
  }
  if (config_.positions == Positions::learned || config_.positions == Positions::shortformer) pos_.allocate(n, d);
  if (config_.positions == Positions::shortformer) shifted_.allocate(n, d);
  if (config_.attn_only) return;
  if (config_.parallel && !config_.shared_norm) normed_mlp_.allocate(n, d);
  pre_.allocate(std::min(n, kMlpRows), config_.d_mlp);
  if (config_.gated_mlp) linear_.allocate(std::min(n, kMlpRows), config_.d_mlp);
}

/// Attention and MLP read the stream and write to it: one after the other, or both from resid_pre.
template <class Real>
void Forward<Real>::block(Index layer) {
  const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
  const Rows x = x_.view;

  // 1. Attention reads the stream.
  capture_(Site::resid_pre, layer, x);
  for (const Site site : {Site::attn_in, Site::q_input, Site::k_input, Site::v_input})
    capture_.for_each_head(site, layer, x);
  const ConstRows attention_in = read_stream(w.ln1, normed_.view, {Site::ln1_scale, Site::ln1_normalized, layer});

  // 2. So does the MLP of a parallel block, before attention has written to it.
  ConstRows mlp_in;
  if (config_.parallel && !config_.attn_only) mlp_in = read_mlp_input(layer, attention_in);

  // 3. Attention writes.
  attention(layer, attention_in);
  write_stream(w.ln1_post, {Site::ln1_post_scale, Site::ln1_post_normalized, layer}, Site::attn_module, Site::attn_out);

  // 4. The MLP reads and writes.
  if (!config_.attn_only) {
    if (!config_.parallel) {
      capture_(Site::resid_mid, layer, x);
      mlp_in = read_mlp_input(layer, attention_in);
    }
    mlp(layer, mlp_in);
    write_stream(w.ln2_post, {Site::ln2_post_scale, Site::ln2_post_normalized, layer}, Site::mlp_module, Site::mlp_out);
  }
  capture_(Site::resid_post, layer, x);
}

/// logits = softcap(scale * (final_norm(x) W_U + b_U)), at the positions that were asked for.
template <class Real>
void Forward<Real>::unembed() {
  const bool wants_out = capture_.wants(Site::unembed_out);
  if (options_.logits == LogitPositions::none && !wants_out && !capture_.wants(Site::final_scale) &&
      !capture_.wants(Site::final_normalized) && !capture_.wants(Site::unembed_in))
    return;
  const Index n = layout_.rows(), batch = layout_.batch(), d_vocab = config_.d_vocab_out;

  // 1. The final norm.
  ConstRows in = x_.view;
  if (config_.final_norm && config_.norm != NormKind::none) {
    const NormSites sites{Site::final_scale, Site::final_normalized};
    norm(config_.norm, model_.weights.ln_final.w, model_.weights.ln_final.b, in, normed_.view, sites);
    in = normed_.view;
  }
  capture_(Site::unembed_in, 0, in);

  // 2. W_U, straight into what is returned: all rows, or the last of each sequence.
  if (options_.logits == LogitPositions::all) {
    trace_.logits = BasicTensor<Real>::uninitialised({batch, layout_.longest(), d_vocab}, {"batch", "pos", "d_vocab"});
    const Rows padded{trace_.logits.data(), {batch * layout_.longest(), d_vocab}};
    multiply_unembedding(in, padded.rows(0, n));
    capture_(Site::unembed_out, 0, padded.rows(0, n));
    scale_and_cap(padded.rows(0, n));
    spread_rows(layout_, padded);
    return;
  }
  if (wants_out) {
    multiply_unembedding(in, capture_.padded_rows(Site::unembed_out).rows(0, n));
    spread_rows(layout_, capture_.padded_rows(Site::unembed_out));
  }
  if (options_.logits == LogitPositions::last) {
    const Rows last = out_.view.rows(0, batch);
    for (Index s = 0; s < batch; ++s)
      std::copy_n(in.row(layout_.first_row(s + 1) - 1).data(), config_.d_model, last.row(s).data());
    trace_.logits = BasicTensor<Real>::uninitialised({batch, 1, d_vocab}, {"batch", "pos", "d_vocab"});
    const Rows logits{trace_.logits.data(), {batch, d_vocab}};
    multiply_unembedding(last, logits);
    scale_and_cap(logits);
  }
}

/// out = in W_U + b_U. A packed W_U is expanded in slices of the vocabulary, which are whole tiles of the GEMM, so that
/// each logit is computed as with W_U expanded.
template <class Real>
void Forward<Real>::multiply_unembedding(ConstRows in, Rows out) {
  const WeightMatrix& W_U = model_.weights.W_U;
  const Real* bias = values<Real>(model_.weights.b_U);
  const Index slice = W_U.packed() ? kPackedSlice : W_U.d_out();
  for (Index begin = 0; begin < W_U.d_out(); begin += slice) {
    const Index count = std::min(slice, W_U.d_out() - begin);
    Rows columns = out;
    columns.data += begin;
    columns.dim[1] = count;
    kernels::gemm(kernels::BasicGemmProblem<Real>{.a = in,
                                                  .b = transposed(reader_.rows(W_U, begin, count)),
                                                  .c = columns,
                                                  .bias = bias == nullptr ? nullptr : bias + begin});
  }
}

template <class Real>
void Forward<Real>::scale_and_cap(Rows logits) {
  if (config_.logit_scale != 1.0) {
    const auto scale = static_cast<Real>(config_.logit_scale);
    parallel_for(logits.dim[0], [&](Index row) {
      for (Real& value : logits.row(row)) value *= scale;
    });
  }
  if (config_.logit_softcap > 0.0) kernels::soft_cap(logits, config_.logit_softcap);
}

template <class Real>
void Forward<Real>::norm(NormKind kind, const WeightVector& gain, const WeightVector& bias, ConstRows x, Rows out,
                         std::optional<NormSites> sites, Index first_row) {
  kernels::NormProblem<Real> problem{
      .x = x, .out = out, .gain = values<Real>(gain), .bias = values<Real>(bias), .eps = config_.norm_eps};
  Buffer scale, normalized;
  const bool wants_scale = sites && capture_.wants(sites->scale, sites->layer);
  const bool wants_normalized = sites && capture_.wants(sites->normalized, sites->layer);
  if (wants_scale) problem.scale = scale.allocate(x.dim[0], 1).data;
  if (wants_normalized) problem.normalized = normalized.allocate(x.dim[0], x.dim[1]);
  if (kind == NormKind::rms)
    kernels::rms_norm(problem);
  else
    kernels::layer_norm(problem);
  if (wants_scale) capture_(sites->scale, sites->layer, scale.view, first_row);
  if (wants_normalized) capture_(sites->normalized, sites->layer, normalized.view, first_row);
}

template <class Real>
typename Forward<Real>::ConstRows Forward<Real>::read_stream(const NormWeights& weights, Rows buffer,
                                                             const NormSites& sites) {
  if (!config_.pre_norm || config_.norm == NormKind::none) return x_.view;
  norm(config_.norm, weights.w, weights.b, x_.view, buffer, sites);
  return buffer;
}

template <class Real>
void Forward<Real>::write_stream(const NormWeights& post_norm, const NormSites& sites, Site raw, Site added) {
  capture_(raw, sites.layer, out_.view);
  if (config_.post_norm) norm(config_.norm, post_norm.w, post_norm.b, out_.view, out_.view, sites);
  capture_(added, sites.layer, out_.view);
  kernels::add(x_.view, out_.view);
}

template class Forward<float>;  // but for what sublayers.cc defines
template class Forward<double>;

}  // namespace kirchhoff::engine

namespace kirchhoff {

Trace run(const Model& model, std::span<const Tokens> batch, const RunOptions& options) {
  return engine::Forward<float>(model, batch, options).run();
}
Trace run(const Model& model, const Tokens& tokens, const RunOptions& options) {
  return run(model, {&tokens, 1}, options);
}
TraceF64 run_f64(const Model& model, std::span<const Tokens> batch, const RunOptions& options) {
  return engine::Forward<double>(model, batch, options).run();
}
TraceF64 run_f64(const Model& model, const Tokens& tokens, const RunOptions& options) {
  return run_f64(model, {&tokens, 1}, options);
}

}  // namespace kirchhoff
