#pragma once
#include <optional>     // for optional
#include <span>         // for span
#include <type_traits>  // for is_same_v
#include <vector>       // for vector

#include "engine/batch_layout.h"
#include "engine/recorder.h"
#include "engine/weight_reader.h"
#include "kirchhoff/engine/kv_cache.h"
#include "kirchhoff/engine/run.h"

namespace kirchhoff::engine {

/// Rows of an MLP that are computed at a time: [rows, d_mlp] is the widest thing a run holds, and beyond some hundred
/// rows a product gains nothing from more.
inline constexpr Index kMlpRows = 1024;

/// One forward pass: float through the fast kernels, double through their twins; the same lines for both. The network
/// is what its config says it can do: no family's name occurs here.
///
/// Legend: N tokens of all sequences together (no padding), H heads, G key/value heads, dh = d_head.
template <class Real>
class Forward {
 public:
  Forward(const Model& model, std::span<const Tokens> batch, const RunOptions& options);
  BasicTrace<Real> run();

 private:
  using Rows = View<Real, 2>;
  using ConstRows = View<const Real, 2>;

  // forward.cc: the path of the residual stream
  void allocate_workspace();
  void block(Index layer);
  /// out = norm(x), in place or not; the norm's divisor and normalised values are what `sites` record.
  struct NormSites {
    Site scale, normalized;
    Index layer = 0;
  };
  void norm(NormKind kind, const WeightVector& gain, const WeightVector& bias, ConstRows x, Rows out,
            std::optional<NormSites> sites = {}, Index first_row = 0);
  /// What a sublayer reads: the stream itself, or its norm in `buffer`.
  ConstRows read_stream(const NormWeights& weights, Rows buffer, const NormSites& sites);
  /// Adds a sublayer's output to the stream, after the post-norm if there is one.
  void write_stream(const NormWeights& post_norm, const NormSites& sites, Site raw, Site added);

  // embedding.cc: from tokens to the stream, from the stream to logits
  void embed();
  void unembed();
  void multiply_unembedding(ConstRows in, Rows out);
  void scale_and_cap(Rows logits);

  // sublayers.cc: what a block computes from what it reads, [N, d_model] -> out_
  void attention(Index layer, ConstRows in);
  void mlp(Index layer, ConstRows in);
  ConstRows read_mlp_input(Index layer, ConstRows attention_input);
  ConstRows with_positions(Index layer, ConstRows in);
  void normalise_heads(const WeightVector& gain, Rows x);
  void rotate(Index layer, Rows x);
  void record_results(Index layer, ConstMatrix W_O);
  /// All keys and values of a layer, [past + N, G dh]: the cache's, or this run's own.
  struct KeysValues {
    Rows k, v;
  };
  KeysValues keys_values(Index layer);

  const Model& model_;
  const ModelConfig& config_;
  const RunOptions& options_;
  BatchLayout layout_;
  BasicTrace<Real> trace_;
  Recorder<Real> capture_;
  WeightReader reader_;

  // The workspace, written anew by every block.
  BasicTensor<Real> workspace_;  // holds all that follow
  Rows x_;                       // [N, d_model]: the residual stream
  Rows out_;                     // [N, d_model]: what a sublayer gives
  Rows normed_, normed_mlp_;     // [N, d_model]: what attention and MLP read
  Rows pos_, shifted_;           // [N, d_model]: position embeddings; shortformer's input of q and k
  Rows q_, k_, v_, z_;           // [N, H dh], [N, G dh] twice, [N, H dh]
  Rows pre_, linear_;            // [up to kMlpRows, d_mlp]
  struct Rotation {
    Rows cos, sin;  // [N, rotary_dim / 2]
  };
  std::vector<Rotation> rotations_;  // by table
};

/// The parameters as a kernel of this precision reads them; null if absent.
template <class Real>
const Real* values(const WeightVector& v) {
  if constexpr (std::is_same_v<Real, float>)
    return v.f32_or_null();
  else
    return v.f64_or_null();
}

}  // namespace kirchhoff::engine
