#pragma once
#include <optional>     // for optional
#include <span>         // for span
#include <type_traits>  // for is_same_v
#include <vector>       // for vector

#include "engine/batch_layout.h"
#include "engine/editor.h"
#include "engine/recorder.h"
#include "engine/weight_reader.h"
#include "kirchhoff/engine/kv_cache.h"
#include "kirchhoff/engine/run.h"
#include "kirchhoff/kernels/attention.h"

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
  /// All keys and values of a layer, [past + N, G dh]: the cache's, or this run's own.
  struct KeysValues {
    Rows k, v;
  };

  // forward.cc: the path of the residual stream
  void allocate_workspace();
  void block(Index layer);
  /// The run passes a place: its values are edited, then recorded.
  void pass(Site site, Index layer, Rows values, Index first_row = 0) {
    edit_(site, layer, values, {first_row});
    capture_(site, layer, values, first_row);
  }
  /// out = norm(x), in place or not; the norm's divisor and normalised values are what `sites` edit and record.
  /// Gathered rows are edited only.
  struct NormSites {
    Site scale, normalized;
    Index layer = 0;
  };
  void norm(NormKind kind, const WeightVector& gain, const WeightVector& bias, ConstRows x, Rows out,
            std::optional<NormSites> sites = {}, RowMap rows = {});
  void edit_norm(const WeightVector& gain, const WeightVector& bias, Rows scale, Rows normalized, Rows out,
                 const NormSites& sites, RowMap rows);
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
  void activate_frozen(Index layer, Rows pre, Index first_row);
  ConstRows read_mlp_input(Index layer, ConstRows attention_input);
  ConstRows read_edited_mlp_input(Index layer, ConstRows attention_input, Rows stream);
  ConstRows with_positions(Index layer, ConstRows in);
  void normalise_heads(const WeightVector& gain, Rows x);
  void rotate(Index layer, Rows x, RowMap rows = {});
  void record_results(Index layer, ConstMatrix W_O);
  KeysValues keys_values(Index layer);

  // head_inputs.cc: heads whose q, k or v reads something else than the stream
  /// What one head reads where it is not the stream.
  struct HeadInput {
    std::vector<Index> rows;     // of the batch, sorted
    BasicTensor<Real> values{};  // [rows, d_model], before the norm
    Rows view() { return values.template view<2>(); }
  };
  /// Keys or values of one query head that are not its group's.
  struct HeadCopy {
    bool keys = false;
    Index head = 0;
    std::vector<Index> rows;
    BasicTensor<Real> values;  // [rows, G dh]: the whole row, because a norm may be over all of it
    Rows view() { return values.template view<2>(); }
  };
  bool edits_head_inputs(Index layer) const;
  std::vector<HeadCopy> edit_head_inputs(Index layer, const std::vector<ConstMatrix>& W, Rows q, Rows k, Rows v);
  HeadInput head_input(Index layer, Site site, Index head, Index query_head);
  BasicTensor<Real> project_head(Index layer, Site site, Index head, HeadInput& input, ConstMatrix W);
  void finish_copies(Index layer, std::vector<HeadCopy>& copies);
  KeysValues with_copies(const std::vector<HeadCopy>& copies, const KeysValues& all, BasicTensor<Real>& storage) const;

  // edited_attention.cc: what fused kernels leave out, where it is edited
  using Problems = std::vector<kernels::AttentionProblem<Real>>;
  bool edits_patterns(Index layer) const;
  void edit_patterns(Index layer, Problems& problems);
  void edit_results(Index layer, ConstMatrix W_O);

  const Model& model_;
  const ModelConfig& config_;
  const RunOptions& options_;
  BatchLayout layout_;
  BasicTrace<Real> trace_;
  Recorder<Real> capture_;
  Editor<Real> edit_;
  WeightReader reader_;

  // The workspace, written anew by every block.
  BasicTensor<Real> workspace_;                // holds all that follow
  Rows x_;                                     // [N, d_model]: the residual stream
  Rows out_;                                   // [N, d_model]: what a sublayer gives
  Rows normed_, normed_mlp_;                   // [N, d_model]: what attention and MLP read
  Rows pos_, shifted_;                         // [N, d_model]: position embeddings; shortformer's input of q and k
  Rows q_, k_, v_, z_;                         // [N, H dh], [N, G dh] twice, [N, H dh]
  Rows pre_, linear_;                          // [up to kMlpRows, d_mlp]
  BasicTensor<Real> mlp_stream_, mlp_normed_;  // [N, d_model]: the MLP's own input and its norm, where they are edited
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
