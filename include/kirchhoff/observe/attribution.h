#pragma once
#include <optional>  // for optional
#include <string>    // for string
#include <vector>    // for vector

#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff {

/// The number to explain: the logit of a token, or the logit of `token` minus that of `foil`, at one position.
struct LogitTarget {
  TokenId token = 0;
  std::optional<TokenId> foil;
  Index pos = -1;  ///< counted from the end if negative
};

enum class PartKind { embed, pos, head, mlp, bias };

/// One writer's share. Nodes: "embed", "pos", "a9.h9", "m9" (b_out included), and biases by name: "a9.b_O",
/// "ln_final.b", "unembed.b", "a9.ln_post.b" (the bias of a norm behind the attention, where there is one).
struct AttributionPart {
  std::string node;
  PartKind kind{};
  Index layer = -1, head = -1;  ///< -1 where there is none
  double value = 0.0;
};

/// A logit (difference) as a sum over everything that wrote to the residual stream.
struct Attribution {
  LogitTarget target;                  ///< its position resolved, so never negative
  std::vector<AttributionPart> parts;  ///< embed, pos, then layer by layer, then the final biases
  double sum = 0.0;                    ///< of the parts
  double own = 0.0;                    ///< the number that the model computed, before its logit soft-cap if it has one
  std::optional<double> soft_capped;   ///< the same after the soft-cap; only for models that have one
  double closure = 0.0;                ///< |sum - own| / sum of |parts|: Kirchhoff's law, relative to the parts' size
  double final_scale = 1.0;            ///< the divisor of the final norm at this position, held fixed

  /// The sum over the parts of one kind.
  double total(PartKind kind) const;
};

/// The sites that attribute_logit reads.
std::vector<std::string> attribution_sites(const ModelConfig& config);

/// Direct logit attribution of `target` in a run of one sequence. Every part y of the stream gives
/// (y - mean y) / s * w . (W_U[:, token] - W_U[:, foil]) * logit_scale, with s the final norm's own divisor in this run
/// (no mean under RMS), so the parts sum to the model's logit exactly up to rounding. Where a norm follows the
/// attention (Gemma-2/3, OLMo-2) its divisor is held at its value in this run too. What a part does through later
/// layers is not in it, and a soft-cap on the logits is not linear: the logit before it is what is attributed. (Elhage
/// et al. 2021; reference: "direct logit attribution".) Errors: usage (a token or position out of range, a site that
/// was not captured).
template <class Real>
Attribution attribute_logit(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target);

/// How one head's share splits over the positions that it reads from: [key position], summing to the head's part up to
/// rounding (b_V is inside the values). Needs the sites of attribution_sites, and the layer's pattern and v.
template <class Real>
std::vector<double> attribute_sources(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target,
                                      Index layer, Index head);

}  // namespace kirchhoff
