#pragma once
#include <optional>  // for optional
#include <span>      // for span
#include <string>    // for string
#include <vector>    // for vector

#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff {

/// What of a token at a position is explained. l: the logits there, V of them, p = softmax(l).
enum class Readout {
  logit,    ///< l_token, or l_token - l_foil
  centred,  ///< l_token - mean of l: what moves all logits alike counts nothing (Olsson et al. 2022, "logit attr")
  /// ln V - loss, in nats: how far the loss of the token, -ln p_token, lies below that of a uniform guess. The loss is
  /// not linear in what was written; along the straight line from no logits to the model's it is a sum all the same
  /// (integrated gradients, Aumann and Shapley): ln V - loss = sum of c_v l_v, c_v = [v = token] - integral over a in
  /// [0, 1] of softmax(a l)_v. Positive: lowers the loss. With a soft-cap on the logits, c has its slope inside.
  loss,
};

/// The number to explain: the logit of a token, or the logit of `token` minus that of `foil`, at one position; or
/// another reading of the token, which takes no foil.
struct LogitTarget {
  TokenId token = 0;
  std::optional<TokenId> foil;
  Index pos = -1;  ///< counted from the end if negative
  Readout readout = Readout::logit;
};

/// "logit(target)", "logit(target) - logit(foil)", "logit(target) - mean(logits)", "ln(vocabulary) - loss(target)".
std::string metric_name(const LogitTarget& target);

enum class PartKind { embed, pos, head, mlp, bias };

/// One writer's share. Nodes: "embed", "pos", "a9.h9", "m9" (b_out included), and biases by name: "a9.b_O",
/// "ln_final.b", "unembed.b", "a9.ln_post.b" (the bias of a norm behind the attention, where there is one).
struct AttributionPart {
  std::string node;
  PartKind kind{};
  Index layer = -1, head = -1;  ///< -1 where there is none
  double value = 0.0;
};

/// A logit (difference), or another readout, as a sum over everything that wrote to the residual stream.
struct Attribution {
  LogitTarget target;                  ///< its position resolved, so never negative
  std::vector<AttributionPart> parts;  ///< embed, pos, then layer by layer, then the final biases
  double sum = 0.0;                    ///< of the parts
  double own = 0.0;                    ///< the number that the model computed; logits before their soft-cap
  std::optional<double> soft_capped;   ///< the same after the soft-cap; only for logits of models that have one
  double closure = 0.0;                ///< |sum - own| / sum of |parts|: Kirchhoff's law, relative to the parts' size
  double final_scale = 1.0;            ///< the divisor of the final norm at this position, held fixed

  /// The sum over the parts of one kind.
  double total(PartKind kind) const;
};

/// The sites that attribute_logit reads.
std::vector<std::string> attribution_sites(const ModelConfig& config);

/// Direct logit attribution of `target` in a run of one sequence. Every part y of the stream gives
/// (y - mean y) / s * w . (W_U c) * logit_scale, with s the final norm's own divisor in this run (no mean under RMS)
/// and c what the readout makes of the vocabulary (1 for the token, -1 for the foil), so the parts sum to the model's
/// number exactly up to rounding. Where a norm follows the attention (Gemma-2/3, OLMo-2) its divisor is held at its
/// value in this run too. What a part does through later layers is not in it, and a soft-cap on the logits is not
/// linear: the logit before it is what is attributed. (Elhage et al. 2021; reference: "direct logit attribution".)
/// Errors: usage (a token or position out of range, a site that was not captured, logits that were not computed, a foil
/// where the readout takes none).
template <class Real>
Attribution attribute_logit(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target);

/// The same of several targets, at any positions, one Attribution each. Targets that differ in their position alone
/// share one direction, except under Readout::loss.
template <class Real>
std::vector<Attribution> attribute_logits(const Model& model, const BasicTrace<Real>& trace,
                                          std::span<const LogitTarget> targets);

/// The heads' parts alone, [target, layer, head]: z . (W_O u), so that no head's output is ever formed. Costs a product
/// of (different directions) x d_model x (n_heads d_head) a layer, and n_heads d_head multiplications a target and
/// layer. Reads the sites z, the divisors of norms, and for Readout::loss logits.
template <class Real>
TensorF64 attribute_heads(const Model& model, const BasicTrace<Real>& trace, std::span<const LogitTarget> targets);

/// How one head's share splits over the positions that it reads from: [target, key position], each row summing to the
/// head's part up to rounding (b_V is inside the values). With Readout::centred and the next token as each position's
/// target this is the "logit attr" of Olsson et al. 2022, [destination, source]. Needs the sites of attribution_sites,
/// and the layer's pattern and v.
template <class Real>
TensorF64 attribute_sources(const Model& model, const BasicTrace<Real>& trace, std::span<const LogitTarget> targets,
                            Index layer, Index head);
template <class Real>
std::vector<double> attribute_sources(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target,
                                      Index layer, Index head);

/// How one MLP's share splits over its neurons.
struct NeuronAttribution {
  Index layer = 0;
  std::vector<double> values;  ///< [d_mlp]
  double bias = 0.0;           ///< of b_out, and of the norm behind the MLP where there is one
  double sum = 0.0;            ///< of both
  double own = 0.0;            ///< the MLP's part in attribute_logit
  double closure = 0.0;        ///< |sum - own| / sum of |terms|
};

/// The sites that attribute_neurons reads beyond those of attribution_sites.
std::vector<std::string> neuron_sites(const ModelConfig& config, Index layer);

/// Per neuron n, what it wrote as the target reads it: post_n (W_out u)_n, one NeuronAttribution a target. The divisor
/// of a norm behind the MLP is held. Errors: as attribute_logit; unsupported (no MLPs).
template <class Real>
std::vector<NeuronAttribution> attribute_neurons(const Model& model, const BasicTrace<Real>& trace,
                                                 std::span<const LogitTarget> targets, Index layer);

/// What the loss of the target's token would rise by without each part's own logits, in the order of
/// Attribution::parts: loss(l - l_part) - loss(l), the final norm's divisor held, the soft-cap (if any) applied anew.
/// Exact, and not a sum: two parts that say the same miss each other little. (Not an ablation: what later layers make
/// of the part stays.) Costs a product parts x d_model x d_vocab_out. Sites and errors as attribute_logit; the target's
/// readout and foil count nothing.
template <class Real>
std::vector<double> removal_losses(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target);

}  // namespace kirchhoff
