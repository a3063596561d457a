#pragma once
#include <functional>  // for function
#include <memory>      // for shared_ptr
#include <optional>    // for optional
#include <string>      // for string
#include <vector>      // for vector

#include "kirchhoff/model/config.h"
#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff {

/// A weight matrix that acts as y = x W, x: [.., d_in], W: [d_in, d_out]. In memory every family's matrices lie the
/// same way: d_out rows of d_in contiguous values (W transposed), so per-head slices of W_Q, W_K, W_V are blocks of
/// rows and those of W_O blocks of columns.
///
/// Either expanded (float32 in memory or borrowed from a mapped file), or packed: as the file has it, expanded into a
/// caller's buffer when its turn comes. Both give the same bits.
class WeightMatrix {
 public:
  /// Writes rows [begin, end) of the [d_out, d_in] storage into `out`, (end - begin) * d_in values.
  using Expand = std::function<void(Index begin, Index end, float* out)>;

  WeightMatrix() = default;
  WeightMatrix(Index d_out, Index d_in, const float* data, std::shared_ptr<const void> owner);
  WeightMatrix(Index d_out, Index d_in, Expand expand, Index packed_bytes);

  bool present() const { return d_out_ > 0; }
  bool packed() const { return data_ == nullptr && present(); }
  Index d_in() const { return d_in_; }
  Index d_out() const { return d_out_; }
  /// [d_out, d_in]; only if not packed.
  ConstMatrix storage() const;
  /// W as it multiplies, [d_in, d_out] (strides 1, d_in); only if not packed.
  ConstMatrix matrix() const { return transposed(storage()); }
  /// Rows [begin, end) of the storage in `out`, expanded or copied.
  void rows(Index begin, Index end, float* out) const;
  Index bytes() const;  ///< what it holds in memory or maps

 private:
  Index d_out_ = 0, d_in_ = 0;
  const float* data_ = nullptr;
  std::shared_ptr<const void> owner_;
  Expand expand_;
  Index packed_bytes_ = 0;
};

/// A vector of parameters: a bias, a norm's gain. In double, because folding (Gemma's 1 + w) must not round, with the
/// float32 copy that the fast kernels read.
class WeightVector {
 public:
  WeightVector() = default;
  explicit WeightVector(std::vector<double> values);
  bool present() const { return !f64_.empty(); }
  Index size() const { return static_cast<Index>(f64_.size()); }
  const std::vector<double>& f64() const { return f64_; }
  const std::vector<float>& f32() const { return f32_; }
  /// Null if absent, as kernels take optional vectors.
  const float* f32_or_null() const { return present() ? f32_.data() : nullptr; }
  const double* f64_or_null() const { return present() ? f64_.data() : nullptr; }

 private:
  std::vector<double> f64_;
  std::vector<float> f32_;
};

/// Gain and bias of a norm; each may be absent (OLMo-1 has neither, RMS has no bias, MPT's LayerNorm no bias).
struct NormWeights {
  WeightVector w, b;
};

/// One block. Head h of W_Q is rows [h d_head, (h+1) d_head) of its storage; W_K and W_V have n_kv_heads, kv head g
/// serving query heads g r .. g r + r - 1, r = n_heads / n_kv_heads; head h of W_O is columns h d_head ... of its
/// storage.
struct LayerWeights {
  NormWeights ln1, ln2;            ///< before attention and MLP (shared_norm: ln2 unused)
  NormWeights ln1_post, ln2_post;  ///< on the sublayers' outputs, if post_norm
  WeightMatrix W_Q, W_K, W_V;      ///< [d_model, n_heads d_head], [d_model, n_kv_heads d_head] twice
  WeightMatrix W_O;                ///< [n_heads d_head, d_model]
  WeightVector b_Q, b_K, b_V, b_O;
  WeightVector q_norm, k_norm;  ///< [d_head] or [heads d_head]
  WeightVector smear;           ///< [n_kv_heads], if smeared_keys: before the sigmoid
  WeightMatrix W_in, W_gate;    ///< [d_model, d_mlp]
  WeightMatrix W_out;           ///< [d_mlp, d_model]
  WeightVector b_in, b_gate,
      b_out;  ///< b_in of a gated MLP is added to x W_in (not TransformerLens's after-product bias)
  WeightVector mlp_ln_w, mlp_ln_b;  ///< solu_ln
};

struct Weights {
  WeightMatrix W_E;      ///< storage [d_vocab, d_model]: row t is token t's embedding
  WeightMatrix W_pos;    ///< storage [n_ctx, d_model]: row p is position p's (OPT's two extra rows are dropped)
  NormWeights ln_embed;  ///< if embed_norm
  std::vector<LayerWeights> layers;
  NormWeights ln_final;
  WeightMatrix W_U;  ///< [d_model, d_vocab_out], storage [d_vocab_out, d_model]; shares W_E's memory if tied
  WeightVector b_U;
};

/// Where a model came from and what was done to it on the way in.
struct ModelOrigin {
  std::string argument, path, format;
  std::vector<std::string> folded;   ///< "fused c_attn split into q, k, v", "norm gains stored as w, used as 1 + w"
  std::vector<std::string> ignored;  ///< tensors and keys that are known to carry nothing (causal masks, dropout)
  Index weight_bytes = 0;            ///< of the float32 weights, tied ones once
  bool packed = false;
};

/// Immutable weights and facts about one network. Cheap to share; safe to use from several threads.
struct Model {
  ModelConfig config;
  Weights weights;
  ModelOrigin origin;
  bool tied = false;  ///< W_U is W_E
};

}  // namespace kirchhoff
