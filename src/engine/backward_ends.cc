#include <algorithm>  // for copy_n, fill_n, min
#include <cstring>    // for memcpy

#include "engine/backward.h"
#include "kirchhoff/base/parallel.h"
#include "kirchhoff/kernels/embedding.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/kernels/reference.h"

namespace kirchhoff::engine {
namespace {

/// Rows of W_U that are expanded at a time if they are packed.
constexpr Index kVocabularySlice = 8064;
/// Values between the rows of the logits' gradient: dW_U's product reads it by columns, which lie in the same sets of
/// the cache where a row is a power of two long (a fifth of that product's time).
constexpr Index kRowPadding = 64;
/// A gradient of so few logits (a logit difference has two) is multiplied by their rows of W_U alone.
constexpr std::size_t kFewLogits = 64;

/// The columns in which some row is not 0, ascending; more than kFewLogits mean all.
template <class Real>
std::vector<Index> nonzero_columns(View<const Real, 2> x) {
  std::vector<Index> columns;
  for (Index i = 0; i < x.dim[1] && columns.size() <= kFewLogits; ++i)
    for (Index r = 0; r < x.dim[0]; ++r)
      if (x(r, i) != Real{}) {
        columns.push_back(i);
        break;
      }
  return columns;
}

}  // namespace

/// From the metric to dx_, the gradient of the last block's output.
template <class Real>
void Backward<Real>::unembed() {
  const Weights& w = model_.weights;
  ConstRows x = kept(final_stream(config_).site, final_stream(config_).layer);
  BasicTensor<Real> seen;
  if (edges_into({Reader::Kind::logits})) {
    seen = copy_of<Real>(x);
    edges_->add({Reader::Kind::logits}, seen.template view<2>());
    x = seen.template view<2>();
  }
  const Logits logits = logits_gradient();
  const auto rows = static_cast<Index>(logits.rows.size());
  const ConstRows dlogits = logits.d;

  // 1. dnormed = dlogits W_U^T, at the rows that the metric reads.
  const bool all = rows == layout_.rows();
  const Rows dread = all ? dnormed_ : dout_.rows(0, rows);
  multiply_unembedding(dlogits, dread);
  if (!all) {
    std::fill_n(dnormed_.data, dnormed_.size(), Real{});
    for (Index r = 0; r < rows; ++r)
      std::copy_n(dread.row(r).data(), config_.d_model, dnormed_.row(logits.rows[static_cast<std::size_t>(r)]).data());
  }

  // 2. The parameters: dW_U = in^T dlogits.
  const bool has_norm = config_.has_final_norm();
  if (options_.weights) {
    const NormSites sites{Site::final_scale, Site::final_normalized};
    const ConstRows in = !options_.run.interventions.empty() ? kept(Site::unembed_in)
                         : has_norm                          ? norm_of(w.ln_final, sites, x, normed_)
                                                             : x;
    for (Index r = 0; r < rows && !all; ++r)
      std::copy_n(in.row(logits.rows[static_cast<std::size_t>(r)]).data(), config_.d_model, dread.row(r).data());
    matrix_gradient("W_U", dlogits, all ? in : ConstRows(dread));
    bias_gradient("b_U", w.b_U, dlogits);
  }

  // 3. The final norm.
  pass(Site::unembed_in, 0, dnormed_);
  if (has_norm)
    norm({.kind = config_.norm,
          .weights = w.ln_final,
          .name = "ln_final",
          .x = x,
          .dout = dnormed_,
          .dx = dx_,
          .sites = NormSites{Site::final_scale, Site::final_normalized}});
  else
    std::copy_n(dnormed_.data, dnormed_.size(), dx_.data);
  pull_edges({Reader::Kind::logits}, dx_);
  if (config_.n_layers == 0) pass(Site::resid_final, 0, dx_);
}

/// The gradient of x W_U + b_U, before scale and soft-cap, at the rows where it is not 0.
template <class Real>
typename Backward<Real>::Logits Backward<Real>::logits_gradient() {
  const Index vocabulary = config_.d_vocab_out;
  const BasicTrace<Real>& trace = result_.trace;
  Logits logits;

  // 1. Which rows; all of them where unembed.hook_out is recorded or read.
  const bool whole = passes(Site::unembed_out, 0);
  std::vector<std::vector<Index>> read;  // by sequence
  for (Index s = 0; s < layout_.batch(); ++s) {
    read.push_back(metric_.positions(s, layout_.length(s)));
    for (Index p = 0; p < layout_.length(s) && whole; ++p) logits.rows.push_back(layout_.first_row(s) + p);
    if (!whole)
      for (const Index p : read.back()) logits.rows.push_back(layout_.first_row(s) + p);
  }
  const auto rows = static_cast<Index>(logits.rows.size());
  if (rows == 0) return logits;
  const Index stride = whole || !options_.weights ? vocabulary : vocabulary + kRowPadding;
  logits.memory = whole ? BasicTensor<Real>({rows, stride}) : BasicTensor<Real>::uninitialised({rows, stride});
  logits.d = Rows(logits.memory.data(), {rows, vocabulary}, {stride, 1});

  // 2. The metric's gradient, back through soft-cap and scale.
  const Rows d = logits.d;
  Index next = 0;
  for (Index s = 0; s < layout_.batch(); ++s) {
    const std::vector<Index>& at = read[static_cast<std::size_t>(s)];
    if (at.empty()) {
      if (whole) next += layout_.length(s);
      continue;
    }
    const View<const Real, 2> given = trace.logits_of(s);
    const auto count = static_cast<Index>(at.size());
    const Index before = whole ? at.front() : 0;  // positions are consecutive
    const Rows part = d.rows(next + before, count);
    const double value = metric_.gradient(s, trace.tokens[static_cast<std::size_t>(s)], given, part);
    if (metric_.value_with_gradient()) result_.values[static_cast<std::size_t>(s)] = value;
    if (config_.logit_softcap > 0.0)
      kernels::soft_cap_backward(activation_rule(), given.rows(at.front() - (layout_.length(s) - given.dim[0]), count),
                                 config_.logit_softcap, part);
    next += whole ? layout_.length(s) : count;
  }
  if (config_.logit_scale != 1.0)
    for (Index r = 0; r < rows; ++r)
      for (Real& value : d.row(r)) value *= static_cast<Real>(config_.logit_scale);
  if (whole) pass(Site::unembed_out, 0, d);
  return logits;
}

/// dx = dlogits W_U^T, [rows, d_model].
template <class Real>
void Backward<Real>::multiply_unembedding(ConstRows dlogits, Rows dx) {
  const WeightMatrix& W_U = model_.weights.W_U;
  if (dx.dim[0] == 0) return;
  std::vector<Index> few;
  if (dlogits.dim[0] <= static_cast<Index>(kFewLogits)) few = nonzero_columns(dlogits);
  if (!few.empty() && few.size() <= kFewLogits) {
    const auto count = static_cast<Index>(few.size());
    Tensor gathered = Tensor::uninitialised({count, W_U.d_in()});
    auto chosen = BasicTensor<Real>::uninitialised({dlogits.dim[0], count});
    for (Index i = 0; i < count; ++i) {
      const Index token = few[static_cast<std::size_t>(i)];
      W_U.rows(token, token + 1, gathered.data() + i * W_U.d_in());
      for (Index r = 0; r < dlogits.dim[0]; ++r) chosen[r * count + i] = dlogits(r, token);
    }
    kernels::gemm(
        kernels::BasicGemmProblem<Real>{.a = ConstRows(chosen.template view<2>()), .b = gathered.view<2>(), .c = dx});
    return;
  }
  const Index slice = W_U.packed() ? kVocabularySlice : W_U.d_out();
  for (Index begin = 0; begin < W_U.d_out(); begin += slice) {
    const Index count = std::min(slice, W_U.d_out() - begin);
    ConstRows columns = dlogits;
    columns.data += begin;
    columns.dim[1] = count;
    kernels::gemm(kernels::BasicGemmProblem<Real>{
        .a = columns, .b = reader_.rows(W_U, begin, count), .c = dx, .accumulate = begin > 0});
  }
}

/// Forward::embed from its end to its beginning.
template <class Real>
void Backward<Real>::embed() {
  const Weights& w = model_.weights;

  // 1. Positions: the stream's own, or what the inputs of q and k of all layers have gathered.
  if (config_.positions == Positions::learned) std::copy_n(dx_.data, dx_.size(), dpos_.data);
  if (config_.positions == Positions::learned || config_.positions == Positions::shortformer) positions();

  // 2. Token embeddings.
  pull_writer(Writer::Kind::token, 0, dx_);
  pass(Site::embed, 0, dx_);
  if (config_.embed_norm)
    norm({.kind = config_.norm,
          .weights = w.ln_embed,
          .name = "ln_embed",
          .x = kept(Site::embed_module),
          .dout = dx_,
          .dx = dx_});
  pass(Site::embed_module, 0, dx_);
  if (!options_.weights) return;
  Tokens ids;
  for (const Tokens& tokens : batch_) ids.insert(ids.end(), tokens.begin(), tokens.end());
  kernels::embed_backward(dx_, ids, config_.embed_scale,
                          weight("W_E", {config_.d_vocab, config_.d_model}, true).template view<2>());
}

template <class Real>
void Backward<Real>::positions() {
  pull_writer(Writer::Kind::position, 0, dpos_);
  pass(Site::pos_embed, 0, dpos_);
  if (!options_.weights) return;
  const WeightMatrix& W_pos = model_.weights.W_pos;
  BasicTensor<Real>& dW_pos = weight("W_pos", {W_pos.d_out(), W_pos.d_in()}, true);
  for (Index s = 0; s < layout_.batch(); ++s)
    kernels::add(dW_pos.template view<2>().rows(0, layout_.length(s)),
                 dpos_.rows(layout_.first_row(s), layout_.length(s)));
}

// What backward.cc calls; the rest follows from it.
template void Backward<float>::unembed();
template void Backward<double>::unembed();
template void Backward<float>::embed();
template void Backward<double>::embed();

}  // namespace kirchhoff::engine
