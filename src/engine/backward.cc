#include "engine/backward.h"

#include <algorithm>    // for copy_n, fill_n, max, min
#include <type_traits>  // for is_same_v
#include <utility>      // for move

#include "kirchhoff/kernels/embedding.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/kernels/reference.h"
#include "kirchhoff/kernels/rotary.h"

namespace kirchhoff::engine {
namespace {

/// What the backward of every layer reads of the forward. Norms, the pattern and the activation's output are computed
/// again: they cost little beside the products.
std::vector<std::string> tape_sites(const ModelConfig& c, bool weights, bool edited) {
  std::vector<Site> sites{Site::resid_pre, Site::v, Site::z};
  const bool rotary = c.positions == Positions::rotary;
  if (rotary) sites.insert(sites.end(), {Site::rot_q, Site::rot_k});
  if (!rotary || c.qk_norm != QkNorm::none) sites.insert(sites.end(), {Site::q, Site::k});
  if (c.smeared_keys) {
    if (rotary && c.qk_norm == QkNorm::none) sites.push_back(Site::k);
    if (!rotary) sites.push_back(Site::smeared_k);
  }
  if (c.post_norm) sites.push_back(Site::attn_module);
  if (!c.attn_only) {
    if (!c.parallel) sites.push_back(Site::resid_mid);
    sites.push_back(Site::mlp_pre);
    if (c.gated_mlp) sites.push_back(Site::mlp_pre_linear);
    if (c.post_norm) sites.push_back(Site::mlp_module);
  }
  if (edited && !c.attn_only && c.activation == Activation::solu_ln) sites.push_back(Site::mlp_mid);
  if (edited && weights) {  // what a weight reads is then more than the rest of the tape says
    if (!c.attn_only) sites.push_back(Site::mlp_post);
    if (c.positions == Positions::shortformer) sites.push_back(Site::attn_input);
  }
  std::vector<std::string> names;
  for (Index layer = 0; layer < c.n_layers; ++layer)
    for (const Site site : sites) names.push_back(site_name(site, layer));
  names.push_back(site_name(final_stream(c)));
  names.push_back(site_name(Site::embed_module));
  if (edited && weights) names.push_back(site_name(Site::unembed_in));
  return names;
}

RunOptions forward_options(const Metric& metric, const PullOptions& options) {
  check(!options.weights || options.run.interventions.edges.empty(), ErrorCode::unsupported,
        "the parameters' gradients where edges are replaced: contributions of writers depend on parameters themselves");
  check(!options.accumulate || options.run.interventions.empty(), ErrorCode::usage,
        "gradients are added up over parts of a batch where nothing is intervened on");
  check(options.run.cache == nullptr, ErrorCode::usage, "gradients need whole sequences: no key-value cache");
  RunOptions run = options.run;
  run.logits = metric.logits();
  if (!metric.site().empty()) run.capture.push_back(metric.site());
  return run;
}

template <class Real>
void copy(View<const Real, 2> from, View<Real, 2> to) {
  std::copy_n(from.data, from.size(), to.data);
}

}  // namespace

// The tape's layout needs the batch before a forward has checked it: a batch that no forward takes fails there.
template <class Real>
Backward<Real>::Backward(const Model& model, std::span<const Tokens> batch, const Metric& metric,
                         const PullOptions& options, BasicGradients<Real> memory)
    : model_(model),
      config_(model.config),
      metric_(metric),
      options_(options),
      run_options_(forward_options(metric, options)),
      batch_(batch),
      layout_(batch, 0, options.run.pad_left),
      tape_(model.config, layout_, tape_sites(model.config, options.weights, !options.run.interventions.empty())),
      seeds_(model.config, layout_, metric.site(), metric.site().empty() ? nullptr : &metric.coefficients()),
      recorder_(model.config, layout_, options.at, wanted_),
      edit_(model.config, layout_, options.run.interventions) {
  result_.weights = std::move(memory.weights);
}

template <class Real>
BasicGradients<Real> Backward<Real>::run() {
  forward_ = std::make_unique<Forward<Real>>(model_, batch_, run_options_);
  forward_->record_also(tape_.recorder());
  result_.trace = forward_->run();
  if (options_.run.interventions.edges.empty())
    forward_.reset();
  else
    edges_ = &forward_->edges();
  if (metric_.value_with_gradient())
    result_.values.resize(batch_.size());
  else
    result_.values = metric_.values(result_.trace);
  allocate_workspace();
  unembed();
  result_.trace.logits = {};
  for (Index layer = config_.n_layers - 1; layer >= 0; --layer) {
    report(options_.run.progress, "gradients", config_.n_layers - 1 - layer, config_.n_layers);
    block(layer);
    tape_.forget(layer);
  }
  embed();
  report(options_.run.progress, "gradients", config_.n_layers, config_.n_layers);
  result_.sites = std::move(wanted_.sites);
  std::erase_if(result_.weights, [this](const auto& entry) { return !written_.contains(entry.first); });
  return std::move(result_);
}

/// One allocation, as in the forward: buffers that are strided through should lie in huge pages.
template <class Real>
void Backward<Real>::allocate_workspace() {
  const Index n = layout_.rows(), d = config_.d_model, q_width = config_.n_heads * config_.d_head,
              k_width = config_.n_kv_heads * config_.d_head;
  struct Part {
    Rows* rows;
    Index height, width;
  };
  std::vector<Part> parts{{&dx_, n, d},       {&dout_, n, d},     {&dnormed_, n, d},  {&normed_, n, d},
                          {&dq_, n, q_width}, {&dk_, n, k_width}, {&dv_, n, k_width}, {&dz_, n, q_width}};
  if (config_.positions == Positions::learned || config_.positions == Positions::shortformer)
    parts.push_back({&dpos_, n, d});
  bool attn_in = false, head_input = false;
  for (Index l = 0; l < config_.n_layers; ++l) {
    attn_in = attn_in || recorder_.wants(Site::attn_in, l);
    for (const Site site : {Site::attn_in, Site::q_input, Site::k_input, Site::v_input})
      head_input = head_input || recorder_.wants(site, l);
  }
  if (head_input) parts.push_back({&heads_, n, d});
  if (attn_in && k_width != q_width)
    parts.insert(parts.end(), {{&dk_of_head_, n, q_width}, {&dv_of_head_, n, q_width}});
  if (!config_.attn_only) {
    const Index rows = std::min(n, kMlpRows);
    if (config_.parallel) parts.push_back({&dnormed_mlp_, n, d});
    parts.push_back({&dpre_, rows, config_.d_mlp});
    if (config_.gated_mlp) parts.push_back({&dlinear_, rows, config_.d_mlp});
    if (options_.weights || config_.activation == Activation::solu_ln) parts.push_back({&post_, rows, config_.d_mlp});
  }
  const auto padded = [](const Part& p) { return (p.height * p.width + 15) / 16 * 16 + 17 * 16; };
  Index total = 0;
  for (const Part& p : parts) total += padded(p);
  workspace_ = BasicTensor<Real>::uninitialised({total});
  Real* next = workspace_.data();
  for (const Part& p : parts) {
    *p.rows = Rows(next, {p.height, p.width});
    next += padded(p);
  }
  if (dpos_.data != nullptr) std::fill_n(dpos_.data, dpos_.size(), Real{});

  for (const RotaryTable& table : config_.rotary_tables) {
    const auto pairs = static_cast<Index>(table.inv_freq.size());
    cos_.push_back(BasicTensor<Real>::uninitialised({n, pairs}));
    sin_.push_back(BasicTensor<Real>::uninitialised({n, pairs}));
    for (Index s = 0; s < layout_.batch(); ++s)
      kernels::rotary_tables(table.inv_freq, 0,
                             cos_.back().template view<2>().rows(layout_.first_row(s), layout_.length(s)),
                             sin_.back().template view<2>().rows(layout_.first_row(s), layout_.length(s)));
  }
}

/// Forward::block from its end to its beginning. What a sublayer adds to the stream has the stream's gradient; what it
/// reads adds to it.
template <class Real>
void Backward<Real>::block(Index layer) {
  const LayerWeights& w = layer_weights(layer);
  const ConstRows x = kept(Site::resid_pre, layer);
  pass(Site::resid_post, layer, dx_);
  const NormSites ln1{Site::ln1_scale, Site::ln1_normalized, layer};
  const NormSites ln2{Site::ln2_scale, Site::ln2_normalized, layer};
  const Rows dnormed_mlp = config_.parallel ? dnormed_mlp_ : dnormed_;

  // 1. The MLP's write, and, unless the block is parallel, its read, which comes after attention's write.
  if (!config_.attn_only) {
    copy<Real>(dx_, dout_);
    pull_writer(Writer::Kind::mlp, layer, dout_);
    write_stream(w.ln2_post, in_block(layer, "ln2_post"), {Site::ln2_post_scale, Site::ln2_post_normalized, layer},
                 Site::mlp_module, Site::mlp_out);
    mlp(layer, dnormed_mlp);
    if (!config_.parallel) {
      read_stream(w.ln2, in_block(layer, "ln2"), ln2, Site::mlp_in, mlp_stream(layer), dnormed_mlp);
      pass(Site::resid_mid, layer, dx_);
    }
  }

  // 2. Attention's write.
  copy<Real>(dx_, dout_);
  BasicTensor<Real> dscale;
  if (edges_ != nullptr && config_.post_norm && edges_->wants_heads(layer)) {
    dscale = BasicTensor<Real>({layout_.rows()});
    edges_->pull_heads(layer, reader_.matrices({&w.W_O})[0], kept(Site::z, layer), post_scale(layer).data(),
                       dscale.data(), {});
  }
  write_stream(w.ln1_post, in_block(layer, "ln1_post"), {Site::ln1_post_scale, Site::ln1_post_normalized, layer},
               Site::attn_module, Site::attn_out, dscale.data());
  attention(layer, dnormed_);

  // 3. A parallel block's MLP reads what attention reads: through a norm of its own, or through attention's.
  if (config_.parallel && !config_.attn_only) {
    if (!config_.shared_norm)
      read_stream(w.ln2, in_block(layer, "ln2"), ln2, Site::mlp_in, mlp_stream(layer), dnormed_mlp);
    else if (own_mlp_input(layer))
      read_stream(w.ln1, in_block(layer, "ln1"), ln1, Site::mlp_in, mlp_stream(layer), dnormed_mlp);
    else
      read_with_attention(layer, dnormed_mlp);
  }

  // 4. Attention's read.
  head_inputs(layer);
  read_stream(w.ln1, in_block(layer, "ln1"), ln1, Site::attn_in, x, dnormed_);
  if (layer == 0) pull_writer(Writer::Kind::embed, 0, dx_);
  pass(Site::resid_pre, layer, dx_);
}

/// An MLP that shares attention's norm: its part of the norm's input gradient comes with attention's.
template <class Real>
void Backward<Real>::read_with_attention(Index layer, Rows dnormed) {
  kernels::add(dnormed_, dnormed);
  if (!passes(Site::mlp_in, layer)) return;
  if (pre_norm())
    norm({.kind = config_.norm,
          .weights = layer_weights(layer).ln1,
          .name = {},
          .x = kept(Site::resid_pre, layer),
          .dout = dnormed,
          .dx = dnormed,
          .sites = NormSites{Site::ln1_scale, Site::ln1_normalized, layer},
          .parameters = false,
          .records = false});
  pass(Site::mlp_in, layer, dnormed);
  seeds_.add_to(Site::mlp_in, layer, dx_);
}

/// The divisor of the norm behind attention, as the forward had it after its edits.
template <class Real>
BasicTensor<Real> Backward<Real>::post_scale(Index layer) const {
  const NormSites sites{Site::ln1_post_scale, Site::ln1_post_normalized, layer};
  return edited_norm(config_.norm, sites, kept(Site::attn_module, layer), 0).scale;
}

template <class Real>
View<const Real, 2> Backward<Real>::mlp_stream(Index layer) {
  const ConstRows x = kept(config_.parallel ? Site::resid_pre : Site::resid_mid, layer);
  if (!own_mlp_input(layer)) return x;
  mlp_stream_ = copy_of<Real>(x);
  if (edges_ != nullptr) edges_->add({Reader::Kind::mlp, layer}, mlp_stream_.template view<2>());
  edit_(Site::mlp_in, layer, mlp_stream_.template view<2>());
  return mlp_stream_.template view<2>();
}

template <class Real>
void Backward<Real>::pass(Site site, Index layer, Rows d, Index first_row) {
  seeds_.add_to(site, layer, d, first_row);
  recorder_(site, layer, d, first_row);
  edit_.pull(site, layer, d, {first_row});
}

template <class Real>
BasicTensor<Real>& Backward<Real>::weight(const std::string& name, Shape shape, bool zero) {
  BasicTensor<Real>& tensor = result_.weights[name];
  const bool carried = carries(name, shape);
  if (!written_.insert(name).second || carried) return tensor;
  if (tensor.shape() != shape) tensor = BasicTensor<Real>::uninitialised(std::move(shape));
  if (zero) std::fill_n(tensor.data(), tensor.size(), Real{});
  return tensor;
}

template <class Real>
bool Backward<Real>::carries(const std::string& name, const Shape& shape) const {
  if (!options_.accumulate) return false;
  const auto found = result_.weights.find(name);
  return found != result_.weights.end() && !found->second.empty() && found->second.shape() == shape;
}

template <class Real>
void Backward<Real>::matrix_gradient(const std::string& name, ConstRows dy, ConstRows x, bool accumulate) {
  const Shape shape{dy.dim[1], x.dim[1]};
  const bool adds = accumulate || carries(name, shape);
  multiply(transposed(dy), x, weight(name, shape).template view<2>(), adds);
}

/// c = a b (+ c): both of the run's precision, where a product with a weight has b in float32.
template <class Real>
void Backward<Real>::multiply(ConstRows a, ConstRows b, Rows c, bool accumulate) {
  if constexpr (std::is_same_v<Real, float>)
    kernels::gemm(kernels::GemmProblem{.a = a, .b = b, .c = c, .accumulate = accumulate});
  else
    kernels::reference::multiply(a, b, c, 1.0, accumulate);
}

template <class Real>
Real* Backward<Real>::vector_gradient(const std::string& name, const WeightVector& vector) {
  if (!options_.weights || !vector.present()) return nullptr;
  return weight(name, {vector.size()}, true).data();
}

template <class Real>
void Backward<Real>::bias_gradient(const std::string& name, const WeightVector& bias, ConstRows dy) {
  kernels::add_column_sums(dy, vector_gradient(name, bias));
}

template class Backward<float>;  // but for what the other files define
template class Backward<double>;

template <class Real>
BasicGradients<Real> pull_with(const Model& model, std::span<const Tokens> batch, const Metric& metric,
                               const PullOptions& options, BasicGradients<Real> memory = {}) {
  return Backward<Real>(model, batch, metric, options, std::move(memory)).run();
}

}  // namespace kirchhoff::engine

namespace kirchhoff {

template <class Real>
const BasicTensor<Real>& BasicGradients<Real>::at(const std::string& site) const {
  const auto found = sites.find(site);
  check(found != sites.end(), ErrorCode::usage, "the gradient of site '{}' was not asked for; {} were", site,
        sites.size());
  return found->second;
}
template struct BasicGradients<float>;
template struct BasicGradients<double>;

Gradients pull(const Model& model, std::span<const Tokens> batch, const Metric& metric, const PullOptions& options) {
  return engine::pull_with<float>(model, batch, metric, options);
}
Gradients pull(const Model& model, const Tokens& tokens, const Metric& metric, const PullOptions& options) {
  return pull(model, {&tokens, 1}, metric, options);
}
void pull(const Model& model, std::span<const Tokens> batch, const Metric& metric, const PullOptions& options,
          Gradients& gradients) {
  gradients = engine::pull_with<float>(model, batch, metric, options, std::move(gradients));
}
GradientsF64 pull_f64(const Model& model, std::span<const Tokens> batch, const Metric& metric,
                      const PullOptions& options) {
  return engine::pull_with<double>(model, batch, metric, options);
}
GradientsF64 pull_f64(const Model& model, const Tokens& tokens, const Metric& metric, const PullOptions& options) {
  return pull_f64(model, {&tokens, 1}, metric, options);
}

}  // namespace kirchhoff
