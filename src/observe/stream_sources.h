#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff::observe {

/// Who writes to the stream and is no head.
enum class SourceKind { embed, pos, b_O, post_bias, mlp };

/// "embed", "pos", "a3.b_O", "a3.ln_post.b", "m3".
struct StreamSource {
  SourceKind kind{};
  Index layer = -1;  ///< -1: before the first one. The attention of layer l reads the sources of layers below l.
  std::string node() const;
};

/// Every source of a model, by layer.
std::vector<StreamSource> stream_sources(const ModelConfig& config, const Weights& weights);

/// How many of `sources` the attention of `layer` reads: the first ones.
Index sources_below(const std::vector<StreamSource>& sources, Index layer);

/// The sites that write_source reads.
std::vector<std::string> stream_source_sites(const ModelConfig& config);

/// out := what the source wrote at one position, [d_model]; the divisor of a norm behind the attention is the run's.
template <class Real>
void write_source(const Model& model, const BasicTrace<Real>& trace, const StreamSource& source, Index pos,
                  std::span<Real> out);

/// What every head of a layer wrote at one position, z_h W_O^h, behind the norm that follows the attention if there is
/// one, without the shared b_O: [head, d_model].
template <class Real>
TensorF64 write_heads(const Model& model, const BasicTrace<Real>& trace, Index layer, Index pos);

/// x := (x - mean x) / scale * gain (RMS: no mean), the norm's linear part with its divisor held, without its bias.
template <class Real>
void through_norm(NormKind kind, const NormWeights& weights, double scale, std::span<Real> x);

/// u := the direction in front of the norm, given the one behind it: the transpose of through_norm.
template <class Real>
void back_through_norm(NormKind kind, const NormWeights& weights, double scale, std::span<Real> u);

/// Whether a norm stands before the attention, and its divisor at a position (1 without).
inline bool has_ln1(const ModelConfig& config) { return config.pre_norm && config.norm != NormKind::none; }
template <class Real>
double ln1_scale(const ModelConfig& config, const BasicTrace<Real>& trace, Index layer, Index pos);
/// The same behind the attention.
inline bool has_ln1_post(const ModelConfig& config) { return config.post_norm && config.norm != NormKind::none; }
template <class Real>
double ln1_post_scale(const ModelConfig& config, const BasicTrace<Real>& trace, Index layer, Index pos);

}  // namespace kirchhoff::observe
