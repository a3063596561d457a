#include "engine/forward.h"

#include <algorithm>    // for copy_n, min
#include <type_traits>  // for is_same_v
#include <utility>      // for move

#include "kirchhoff/kernels/embedding.h"
#include "kirchhoff/kernels/norm.h"

namespace kirchhoff::engine {
namespace {

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

/// How many tokens the cache holds, 0 without one. Error{usage} unless it can serve this run.
template <class Real>
Index tokens_in(const KvCache* cache, const ModelConfig& config, std::span<const Tokens> batch) {
  if (cache == nullptr) return 0;
  check(std::is_same_v<Real, float>, ErrorCode::usage, "a key-value cache holds float32: the double path takes none");
  check(batch.size() == 1, ErrorCode::usage, "a key-value cache is one sequence's: the batch has {}", batch.size());
  check(cache->fits(config), ErrorCode::usage, "the key-value cache was made for another model");
  return cache->length();
}

/// Everything that a caller can get wrong is found here, before anything is allocated.
template <class Real>
BatchLayout checked_layout(const ModelConfig& config, std::span<const Tokens> batch, const RunOptions& options) {
  const Index past = tokens_in<Real>(options.cache, config, batch);
  check_batch(config, batch, past);
  return {batch, past, options.pad_left};
}

}  // namespace

template <class Real>
Forward<Real>::Forward(const Model& model, std::span<const Tokens> batch, const RunOptions& options)
    : model_(model),
      config_(model.config),
      options_(options),
      layout_(checked_layout<Real>(model.config, batch, options)),
      capture_(model.config, layout_, options.capture, trace_),
      edit_(model.config, layout_, options.interventions),
      edges_(model, layout_, options.interventions, edit_) {
  trace_.tokens.assign(batch.begin(), batch.end());
  trace_.pad_left = options.pad_left;
}

template <class Real>
Forward<Real>::Forward(const Model& model, const Branches<Real>& branches, const RunOptions& options)
    : model_(model),
      config_(model.config),
      options_(options),
      layout_(branches.plan.nothing()),
      capture_(model.config, layout_, options.capture, trace_),
      edit_(model.config, layout_, options.interventions),
      edges_(model, layout_, options.interventions, edit_),
      branches_(&branches) {
  trace_.pad_left = options.pad_left;
}

template <class Real>
BasicTrace<Real> Forward<Real>::run() {
  allocate_workspace();
  if (resumed()) start_from_base();
  embed();
  for (Index layer = resumed() ? branches_->plan.first_layer() : 0; layer < config_.n_layers; ++layer) {
    report(options_.progress, "layers", layer, config_.n_layers);
    block(layer);
  }
  if (options_.cache != nullptr) options_.cache->append(layout_.rows());
  unembed();
  report(options_.progress, "layers", config_.n_layers, config_.n_layers);
  return std::move(trace_);
}

/// Everything that the blocks write and overwrite, but for the rotations; nothing else is held, whatever the depth of
/// the model.
template <class Real>
std::vector<typename Forward<Real>::Part> Forward<Real>::workspace_parts(const ModelConfig& c, Index n, bool cached) {
  const Index d = c.d_model, q_width = c.n_heads * c.d_head, k_width = c.n_kv_heads * c.d_head;
  std::vector<Part> parts{{&Forward::x_, n, d},
                          {&Forward::out_, n, d},
                          {&Forward::normed_, n, d},
                          {&Forward::q_, n, q_width},
                          {&Forward::z_, n, q_width}};
  if (!cached) parts.insert(parts.end(), {{&Forward::k_, n, k_width}, {&Forward::v_, n, k_width}});
  if (c.smeared_keys && !cached) parts.push_back({&Forward::unsmeared_k_, n, k_width});
  if (c.positions == Positions::learned || c.positions == Positions::shortformer)
    parts.push_back({&Forward::pos_, n, d});
  if (c.positions == Positions::shortformer) parts.push_back({&Forward::shifted_, n, d});
  if (!c.attn_only) {
    if (c.parallel && !c.shared_norm) parts.push_back({&Forward::normed_mlp_, n, d});
    parts.push_back({&Forward::pre_, std::min(n, kMlpRows), c.d_mlp});
    if (c.gated_mlp) parts.push_back({&Forward::linear_, std::min(n, kMlpRows), c.d_mlp});
  }
  return parts;
}

template <class Real>
Index Forward<Real>::workspace_size(const ModelConfig& config, Index rows) {
  Index total = 0;
  for (const Part& p : workspace_parts(config, rows, false)) total += p.padded();
  for (const RotaryTable& table : config.rotary_tables)
    total += 2 * Part{nullptr, rows, static_cast<Index>(table.inv_freq.size())}.padded();
  return total;
}

/// One allocation, because large ones lie in huge pages: attention strides through q, k and v, and with pages of 4 KiB
/// takes up to twice as long.
template <class Real>
void Forward<Real>::allocate_workspace() {
  const Index n = resumed() ? branches_->most_rows : layout_.rows();
  if (options_.cache != nullptr) options_.cache->reserve(layout_.past() + n);
  const std::vector<Part> parts = workspace_parts(config_, n, options_.cache != nullptr);
  BasicTensor<Real>& workspace = resumed() ? branches_->workspace : workspace_;
  if (const Index size = workspace_size(config_, n); workspace.empty() || workspace.size() < size) {
    workspace = BasicTensor<Real>();  // before there is another
    workspace = BasicTensor<Real>::uninitialised({size});
  }
  Real* next = workspace.data();
  const auto place = [&next](Rows& rows, const Part& part) {
    rows = Rows(next, {part.height, part.width});
    next += part.padded();
  };
  for (const Part& p : parts) place(this->*p.rows, p);
  rotations_.resize(config_.rotary_tables.size());
  for (std::size_t t = 0; t < rotations_.size(); ++t) {
    const Part part{nullptr, n, static_cast<Index>(config_.rotary_tables[t].inv_freq.size())};
    place(rotations_[t].cos, part);
    place(rotations_[t].sin, part);
  }
  if (resumed()) set_layout(layout_);
}

/// Attention and MLP read the stream and write to it: one after the other, or both from resid_pre.
template <class Real>
void Forward<Real>::block(Index layer) {
  const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];

  // 1. Attention reads the stream.
  join(layer, Entry::stream);
  if (kept_ != nullptr) kept_->stream.push_back(copy_of<Real>(x_));
  pass(Site::resid_pre, layer, x_);
  if (resumed() && only_stream_is_edited(layer))
    drop_unchanged(branches_->base.stream[static_cast<std::size_t>(layer)]);
  if (layer == 0) embedding_written(Writer::Kind::embed, x_);
  for (const Site site : {Site::attn_in, Site::q_input, Site::k_input, Site::v_input})
    capture_.for_each_head(site, layer, x_);
  const ConstRows attention_in = read_stream(w.ln1, normed_, {Site::ln1_scale, Site::ln1_normalized, layer});

  // 2. So does the MLP of a parallel block, before attention has written to it.
  ConstRows mlp_in;
  if (config_.parallel && !config_.attn_only) mlp_in = read_mlp_input(layer, attention_in);

  // 3. Attention writes.
  const BatchLayout before = layout_;
  attention(layer, attention_in);
  if (mlp_in.data != nullptr && layout_.rows() != before.rows()) {  // of a resumed run: fewer attend
    mlp_rows_ = BasicTensor<Real>::uninitialised({layout_.rows(), mlp_in.dim[1]});
    mlp_in = rows_of(before, layout_, mlp_in, mlp_rows_.template view<2>());
  }
  const bool heads_on_edges = wants_heads(layer);
  std::vector<Real> post_scale;
  write_stream(w.ln1_post,
               {Site::ln1_post_scale, Site::ln1_post_normalized, layer,
                heads_on_edges || kept_ != nullptr ? &post_scale : nullptr},
               Site::attn_module, Site::attn_out);
  if (heads_on_edges) heads_written(layer, post_scale);
  if (kept_ != nullptr) kept_->post_scale.push_back(post_scale);

  // 4. The MLP reads and writes.
  if (!config_.attn_only) {
    if (!config_.parallel) {
      if (resumed()) drop_unchanged(branches_->base.mid[static_cast<std::size_t>(layer)]);
      join(layer, Entry::mid);
      if (kept_ != nullptr) kept_->mid.push_back(copy_of<Real>(x_));
      pass(Site::resid_mid, layer, x_);
      mlp_in = read_mlp_input(layer, attention_in);
    }
    mlp(layer, mlp_in);
    write_stream(w.ln2_post, {Site::ln2_post_scale, Site::ln2_post_normalized, layer}, Site::mlp_module, Site::mlp_out);
    mlp_written(layer);
    if (kept_ != nullptr) kept_->mlp_out.push_back(copy_of<Real>(out_));
  }
  if (resumed()) drop_unchanged(branches_->base.stream[static_cast<std::size_t>(layer) + 1]);
  join(layer, Entry::post);
  pass(Site::resid_post, layer, x_);
}

template <class Real>
void Forward<Real>::norm(NormKind kind, const WeightVector& gain, const WeightVector& bias, ConstRows x, Rows out,
                         std::optional<NormSites> sites, RowMap rows) {
  kernels::NormProblem<Real> problem{
      .x = x, .out = out, .gain = values<Real>(gain), .bias = values<Real>(bias), .eps = config_.norm_eps};
  BasicTensor<Real> scale, normalized;
  const bool is_edited = sites && (edits(sites->scale, sites->layer) || edits(sites->normalized, sites->layer));
  const bool wants_scale =
      sites && (is_edited || sites->kept_scale != nullptr || capture_.wants(sites->scale, sites->layer));
  const bool wants_normalized = sites && (is_edited || capture_.wants(sites->normalized, sites->layer));
  if (wants_scale) {
    scale = BasicTensor<Real>::uninitialised({x.dim[0], 1});
    problem.scale = scale.data();
  }
  if (wants_normalized) {
    normalized = BasicTensor<Real>::uninitialised({x.dim[0], x.dim[1]});
    problem.normalized = normalized.template view<2>();
  }
  if (kind == NormKind::rms)
    kernels::rms_norm(problem);
  else
    kernels::layer_norm(problem);
  if (is_edited) edit_norm(gain, bias, scale.template view<2>(), normalized.template view<2>(), out, *sites, rows);
  if (!rows.contiguous()) return;
  if (sites && sites->kept_scale != nullptr) sites->kept_scale->assign(scale.data(), scale.data() + scale.size());
  if (wants_scale) capture_(sites->scale, sites->layer, scale.template view<2>(), rows.first);
  if (wants_normalized) capture_(sites->normalized, sites->layer, normalized.template view<2>(), rows.first);
}

/// Rows whose divisor or normalised values are changed go on from there; the others keep what the kernel gave.
template <class Real>
void Forward<Real>::edit_norm(const WeightVector& gain, const WeightVector& bias, Rows scale, Rows normalized, Rows out,
                              const NormSites& sites, RowMap rows) {
  std::vector<Real> before(scale.data, scale.data + scale.size());
  std::vector<Index> changed;
  edit(sites.scale, sites.layer, scale, rows, &changed);
  for (const Index row : changed) {
    // (x - mean) / s' = normalized * s / s'
    const Real factor = before[static_cast<std::size_t>(row)] / scale(row, 0);
    for (Real& value : normalized.row(row)) value *= factor;
  }
  edit(sites.normalized, sites.layer, normalized, rows, &changed);
  for (const Index row : changed)
    for (Index i = 0; i < out.dim[1]; ++i) {
      const Real scaled = normalized(row, i) * (gain.present() ? values<Real>(gain)[i] : Real{1});
      out(row, i) = scaled + (bias.present() ? values<Real>(bias)[i] : Real{});
    }
}

template <class Real>
typename Forward<Real>::ConstRows Forward<Real>::read_stream(const NormWeights& weights, Rows buffer,
                                                             const NormSites& sites) {
  if (!config_.pre_norm || config_.norm == NormKind::none) {
    if (!config_.parallel) return x_;
    // The MLP's turn comes when attention has written to the stream: it needs what was there before.
    std::copy_n(x_.data, x_.size(), buffer.data);
    return buffer;
  }
  norm(config_.norm, weights.w, weights.b, x_, buffer, sites);
  return buffer;
}

template <class Real>
void Forward<Real>::write_stream(const NormWeights& post_norm, const NormSites& sites, Site raw, Site added) {
  pass(raw, sites.layer, out_);
  if (config_.post_norm) norm(config_.norm, post_norm.w, post_norm.b, out_, out_, sites);
  pass(added, sites.layer, out_);
  kernels::add(x_, out_);
}

template class Forward<float>;  // but for what the other files define
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
