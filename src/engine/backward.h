#pragma once
#include <memory>    // for unique_ptr
#include <optional>  // for optional
#include <set>       // for set
#include <span>      // for span
#include <string>    // for string

#include "engine/editor.h"
#include "engine/forward.h"
#include "engine/tape.h"
#include "kirchhoff/engine/pull.h"
#include "kirchhoff/kernels/activations_backward.h"
#include "kirchhoff/kernels/attention_backward.h"

namespace kirchhoff::engine {

/// One backward pass: a forward that keeps what is needed, then the same path from the metric back to the embedding.
/// Float through the fast kernels, double through their twins. "The gradient of x" is d metric / d x, named dx.
///
/// Legend as in Forward: N tokens of all sequences together (no padding), H heads, G key/value heads, dh = d_head.
template <class Real>
class Backward {
 public:
  /// The tensors of `memory` are used for those of the result.
  Backward(const Model& model, std::span<const Tokens> batch, const Metric& metric, const PullOptions& options,
           BasicGradients<Real> memory = {});
  BasicGradients<Real> run();

 private:
  using Rows = View<Real, 2>;
  using ConstRows = View<const Real, 2>;

  // backward.cc: the path of the stream's gradient
  void allocate_workspace();
  void block(Index layer);
  /// What happens to a gradient where a run would edit and record its value: a metric that reads the site adds its own
  /// part, it is recorded, and goes on as the gradient of what was there before the edits. Rows [first_row, first_row +
  /// d.dim[0]) of the batch.
  void pass(Site site, Index layer, Rows d, Index first_row = 0);
  bool passes(Site site, Index layer) const {
    return recorder_.wants(site, layer) || seeds_.wants(site, layer) || edit_.wants(site, layer);
  }
  struct NormSites {
    Site scale, normalized;
    Index layer = 0;
  };
  /// dx = gradient through norm(x) of dout (which dx may be), or dx += it. `name` is that of the gain's and bias's
  /// gradients, "blocks.3.ln1".
  struct NormCall {
    NormKind kind;
    const NormWeights& weights;
    std::string name;
    ConstRows x, dout;
    Rows dx;
    std::optional<NormSites> sites{};
    bool accumulate = false;
    Index first_row = 0;
    bool parameters = true;        ///< whether gain and bias get their gradients here
    const Real* dscale = nullptr;  ///< [rows], added to the divisor's gradient
    bool records = true;           ///< whether the sites are recorded and read here; edited they are in any case
  };
  void norm(const NormCall& call);
  /// From the gradient of what a sublayer adds to the stream, in dout_, to that of what it computes.
  void write_stream(const NormWeights& post_norm, const std::string& name, const NormSites& sites, Site raw, Site added,
                    const Real* dscale = nullptr);
  /// dx_ += the gradient of a sublayer's input, given that of what its norm gives, [N, d_model], which is overwritten.
  void read_stream(const NormWeights& weights, const std::string& name, const NormSites& sites, Site input, ConstRows x,
                   Rows dnormed);
  void read_with_attention(Index layer, Rows dnormed);
  bool pre_norm() const { return config_.pre_norm && config_.norm != NormKind::none; }
  /// The input of a sublayer after its norm, computed again: in `buffer`, or x itself without a norm.
  ConstRows normed_input(const NormWeights& weights, const NormSites& sites, ConstRows x, Rows buffer,
                         Index first_row = 0);
  ConstRows norm_of(const NormWeights& weights, const NormSites& sites, ConstRows x, Rows buffer, Index first_row = 0);
  /// What the MLP reads before its norm: the stream, or, where that is edited, a copy of its own.
  ConstRows mlp_stream(Index layer);

  // backward_ends.cc: from the metric to the stream, from the stream to tokens
  void unembed();
  struct Logits {
    std::vector<Index> rows;  ///< of the batch, ascending
    BasicTensor<Real> memory;
    Rows d;  ///< [rows, d_vocab_out]
  };
  Logits logits_gradient();
  void multiply_unembedding(ConstRows dlogits, Rows dx);
  void embed();
  void positions();

  // backward_attention.cc, backward_mlp.cc: from dout_ to dnormed, the gradient of what the sublayer reads
  void attention(Index layer, Rows dnormed);
  void results(Index layer, ConstMatrix W_O);
  void attend(Index layer);
  void rotate_back(Index layer, Rows d);
  void smear_back(Index layer);
  void normalise_heads(const WeightVector& gain, const std::string& name, ConstRows x, Rows d);
  void normalise_own_keys(Index layer);
  BasicTensor<Real> normed_heads(const WeightVector& gain, ConstRows x) const;
  void projection_weights(Index layer);
  void mlp(Index layer, Rows dnormed);
  void activate_frozen(Index layer, Index first, Rows dpre);
  ConstRows mlp_post(Index layer, Index first, Index count);
  void mlp_weights(Index layer, Index first, ConstRows dpre, ConstRows dlinear);

  // backward_heads.cc: from dq_, dk_, dv_ to the inputs of single heads
  void head_inputs(Index layer);
  struct HeadRead {
    ConstRows d;    // [N, heads dh]
    ConstMatrix W;  // [d_model, heads dh] or, shared by groups of them, [d_model, G dh]
  };
  void head_input(Site site, Index layer, std::initializer_list<HeadRead> reads);
  bool edits_head_inputs(Index layer) const;
  void edited_head_inputs(Index layer);
  /// What all edited heads of a layer share.
  struct EditedReads {
    std::vector<ConstMatrix> W;           // W_Q, W_K, W_V
    BasicTensor<Real> positions, dinput;  // [N, d_model]: shortformer's; the gradient of attn_input, of all heads
  };
  void edited_head_read(EditedReads& reads, Site site, Index layer, Index head, ConstRows in, Rows dx);
  void record_head(Site site, Index layer, Index head, Rows d);

  // backward_edited.cc: what interventions take apart
  bool edges_into(const Reader& reader) const { return edges_ != nullptr && edges_->reads(reader); }
  bool own_mlp_input(Index layer) const {
    return edit_.wants(Site::mlp_in, layer) || edges_into({Reader::Kind::mlp, layer});
  }
  void pull_edges(const Reader& reader, ConstRows d) {
    if (edges_ != nullptr) edges_->pull(reader, d);
  }
  void pull_writer(Writer::Kind kind, Index layer, Rows d) {
    if (edges_ != nullptr) edges_->pull_writer(kind, layer, d);
  }
  BasicTensor<Real> post_scale(Index layer) const;
  bool edits(const NormSites& sites) const {
    return edit_.wants(sites.scale, sites.layer) || edit_.wants(sites.normalized, sites.layer);
  }
  struct EditedNorm {
    BasicTensor<Real> natural_scale, scale;  // [rows, 1]: of x; as edited
    BasicTensor<Real> normalized, edited;    // [rows, d]: (x - mean) / scale; as edited
  };
  EditedNorm edited_norm(NormKind kind, const NormSites& sites, ConstRows x, Index first_row) const;
  void edited_norm_backward(const NormCall& call);
  void edited_norm_forward(NormKind kind, const NormWeights& weights, const NormSites& sites, ConstRows x, Rows out,
                           Index first_row) const;
  void edited_results(Index layer, ConstMatrix W_O);
  void edited_attention(Index layer, const kernels::AttentionBackwardProblem<Real>& problem, Index sequence);

  // Parameters' gradients. Nothing happens unless they are wanted.
  BasicTensor<Real>& weight(const std::string& name, Shape shape, bool zero = false);
  /// Whether this gradient begins with what the caller's holds, instead of with nothing.
  bool carries(const std::string& name, const Shape& shape) const;
  /// weight(name) [d_out, d_in] = dy^T x (+ what is there).
  void matrix_gradient(const std::string& name, ConstRows dy, ConstRows x, bool accumulate = false);
  static void multiply(ConstRows a, ConstRows b, Rows c, bool accumulate);
  void bias_gradient(const std::string& name, const WeightVector& bias, ConstRows dy);
  /// Where a vector's gradient is added up; null if it is absent or not wanted.
  Real* vector_gradient(const std::string& name, const WeightVector& vector);

  ConstRows kept(Site site, Index layer = 0) const { return tape_.at(site, layer); }
  const LayerWeights& layer_weights(Index layer) const {
    return model_.weights.layers[static_cast<std::size_t>(layer)];
  }
  static std::string in_block(Index layer, std::string_view name) { return fmt::format("blocks.{}.{}", layer, name); }
  kernels::ActivationRule activation_rule() const {
    return options_.rules.ratio_activations ? kernels::ActivationRule::ratio : kernels::ActivationRule::exact;
  }

  const Model& model_;
  const ModelConfig& config_;
  const Metric& metric_;
  const PullOptions& options_;
  RunOptions run_options_;
  std::span<const Tokens> batch_;
  BatchLayout layout_;
  BasicGradients<Real> result_;
  std::set<std::string> written_;  // of result_.weights, in this run
  Tape<Real> tape_;                // what the forward leaves
  Seeds<Real> seeds_;              // a metric's coefficients at a site
  BasicTrace<Real> wanted_;        // where the recorder writes: becomes result_.sites
  Recorder<Real> recorder_;
  Editor<Real> edit_;
  std::unique_ptr<Forward<Real>> forward_;  // kept for its edges, where there are any
  EdgeEditor<Real>* edges_ = nullptr;
  WeightReader reader_;

  BasicTensor<Real> workspace_;               // holds all that follow
  Rows dx_;                                   // [N, d_model]: the gradient of the residual stream
  Rows dout_;                                 // [N, d_model]: of what a sublayer gives
  Rows dnormed_, dnormed_mlp_;                // [N, d_model]: of what attention and MLP read
  Rows normed_;                               // [N, d_model]: what they read, computed again
  Rows dpos_;                                 // [N, d_model]: of position embeddings
  Rows dq_, dk_, dv_, dz_;                    // [N, H dh], [N, G dh] twice, [N, H dh]
  Rows dk_of_head_, dv_of_head_;              // [N, H dh]: what each query head contributes to dk and dv
  Rows dpre_, dlinear_, post_;                // [up to kMlpRows, d_mlp]
  Rows heads_;                                // [N, d_model]: one head's input's gradient
  BasicTensor<Real> mlp_stream_;              // [N, d_model]: the MLP's own input, where it is edited
  std::vector<BasicTensor<Real>> cos_, sin_;  // by table, [N, rotary_dim / 2]
};

}  // namespace kirchhoff::engine
