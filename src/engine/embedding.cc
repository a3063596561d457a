#include <algorithm>  // for copy_n, fill_n, min

#include "engine/forward.h"
#include "kirchhoff/base/parallel.h"
#include "kirchhoff/kernels/activations.h"
#include "kirchhoff/kernels/embedding.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/kernels/rotary.h"

namespace kirchhoff::engine {
namespace {

/// Columns of a packed W_U that are expanded at a time, a multiple of the GEMM's tiles (96 and 384 columns): 8064 x
/// 4096 floats are 126 MiB, less than a layer of such a model.
constexpr Index kPackedSlice = 21 * 384;

}  // namespace

/// x = W_E[token] * scale, normalised (BLOOM), plus W_pos[position].
template <class Real>
void Forward<Real>::embed() {
  join(0, Entry::embed);
  const Index n = layout_.rows(), d = config_.d_model;
  if (n == 0) return;
  const Rows x = x_;

  // 1. Token embeddings: rows of W_E, gathered first if they are packed.
  Tokens ids;
  for (Index s = 0; s < layout_.batch(); ++s)
    for (Index row = layout_.first_row(s); row < layout_.first_row(s + 1); ++row)
      ids.push_back(tokens_of(s)[static_cast<std::size_t>(layout_.token_of(s, row))]);
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
  pass(Site::embed_module, 0, x);
  if (config_.embed_norm) norm(config_.norm, model_.weights.ln_embed.w, model_.weights.ln_embed.b, x, x);
  pass(Site::embed, 0, x);
  embedding_written(Writer::Kind::token, x);
  if (kept_ != nullptr) kept_->token = copy_of<Real>(x);

  // 2. Positions: added to the stream here, or (shortformer) to the input of every q and k later.
  if (config_.positions == Positions::learned || config_.positions == Positions::shortformer) {
    place_positions();
    pass(Site::pos_embed, 0, pos_);
    embedding_written(Writer::Kind::position, pos_);
    if (kept_ != nullptr) kept_->position = copy_of<Real>(pos_);
    if (config_.positions == Positions::learned) kernels::add(x, pos_);
  }

  // 3. Rotations: cos and sin of every row's position, once for all layers.
  place_rotations();
  if (kept_ != nullptr)
    for (const Rotation& rotation : rotations_) {
      kept_->cos.push_back(copy_of<Real>(rotation.cos));
      kept_->sin.push_back(copy_of<Real>(rotation.sin));
    }
}

/// pos = W_pos[position] of every row.
template <class Real>
void Forward<Real>::place_positions() {
  std::fill_n(pos_.data, pos_.size(), Real{});
  const ConstMatrix table = reader_.rows(model_.weights.W_pos, layout_.past(), layout_.longest());
  layout_.for_each_run([&](Index first_row, Index first_token, Index count) {
    kernels::add_rows(pos_.rows(first_row, count), table.rows(first_token, count));
  });
}

template <class Real>
void Forward<Real>::place_rotations() {
  if (resumed()) return borrow_rotations();
  for (std::size_t t = 0; t < rotations_.size(); ++t)
    layout_.for_each_run([&](Index first_row, Index first_token, Index count) {
      kernels::rotary_tables(config_.rotary_tables[t].inv_freq, layout_.past() + first_token,
                             rotations_[t].cos.rows(first_row, count), rotations_[t].sin.rows(first_row, count));
    });
}

/// logits = softcap(scale * (final_norm(x) W_U + b_U)), at the positions that were asked for.
template <class Real>
void Forward<Real>::unembed() {
  if (config_.n_layers == 0) pass(Site::resid_final, 0, x_);
  if (kept_ != nullptr) kept_->stream.push_back(copy_of<Real>(x_));
  const bool wants_out = capture_.wants(Site::unembed_out);
  if (!resumed() && options_.logits == LogitPositions::none && !wants_out && !capture_.wants(Site::final_scale) &&
      !capture_.wants(Site::final_normalized) && !capture_.wants(Site::unembed_in))
    return;
  const Index n = layout_.rows(), batch = layout_.batch(), d_vocab = config_.d_vocab_out;

  // 1. The final norm.
  add_edges({Reader::Kind::logits}, x_);
  Rows in = x_;
  if (config_.has_final_norm()) {
    const NormSites sites{Site::final_scale, Site::final_normalized};
    norm(config_.norm, model_.weights.ln_final.w, model_.weights.ln_final.b, in, normed_, sites);
    in = normed_;
  }
  pass(Site::unembed_in, 0, in);
  if (resumed()) return unembed_branches(in);

  // 2. W_U, straight into what is returned: all rows, or the last of each sequence.
  if (options_.logits == LogitPositions::all) {
    trace_.logits = BasicTensor<Real>::uninitialised({batch, layout_.longest(), d_vocab}, {"batch", "pos", "d_vocab"});
    const Rows padded{trace_.logits.data(), {batch * layout_.longest(), d_vocab}};
    multiply_unembedding(in, padded.rows(0, n));
    pass(Site::unembed_out, 0, padded.rows(0, n));
    scale_and_cap(padded.rows(0, n));
    spread_rows(layout_, padded);
    return;
  }
  if (wants_out) {
    const Rows out = capture_.padded_rows(Site::unembed_out).rows(0, n);
    multiply_unembedding(in, out);
    edit_(Site::unembed_out, 0, out);
    spread_rows(layout_, capture_.padded_rows(Site::unembed_out));
  }
  if (options_.logits == LogitPositions::last) {
    const Rows last = out_.rows(0, batch);
    for (Index s = 0; s < batch; ++s)
      std::copy_n(in.row(layout_.first_row(s + 1) - 1).data(), config_.d_model, last.row(s).data());
    trace_.logits = BasicTensor<Real>::uninitialised({batch, 1, d_vocab}, {"batch", "pos", "d_vocab"});
    const Rows logits{trace_.logits.data(), {batch, d_vocab}};
    multiply_unembedding(last, logits);
    std::vector<Index> rows;
    for (Index s = 0; s < batch; ++s) rows.push_back(layout_.first_row(s + 1) - 1);
    edit_(Site::unembed_out, 0, logits, {0, rows});
    scale_and_cap(logits);
  }
}

/// out = in W_U + b_U. A packed W_U is expanded in slices of the vocabulary; each logit is computed as with all of W_U.
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

// What forward.cc calls; the rest follows from it.
template void Forward<float>::embed();
template void Forward<double>::embed();
template void Forward<float>::unembed();
template void Forward<double>::unembed();
template void Forward<float>::place_positions();
template void Forward<double>::place_positions();
template void Forward<float>::place_rotations();
template void Forward<double>::place_rotations();
template void Forward<float>::multiply_unembedding(ConstRows, Rows);
template void Forward<double>::multiply_unembedding(ConstRows, Rows);
template void Forward<float>::scale_and_cap(Rows);
template void Forward<double>::scale_and_cap(Rows);

}  // namespace kirchhoff::engine
