#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/model/model.h"
#include "kirchhoff/weights/factored_matrix.h"

namespace kirchhoff {

/// In which form a head's weights are wanted.
struct HeadForm {
  /// As in the file. Otherwise the norms around the head are folded in (framework-math, sections 5, 16, 17): gains of
  /// the norm before it into q, k and v, which are then centred over d_model if that norm subtracts a mean; of a q/k
  /// norm into q and k; of a norm behind it into o, which is centred over d_model where every reader of the stream
  /// subtracts its mean. The norms' divisors, which differ from token to token, are left out.
  bool raw = false;
  /// With rotary positions: how far behind the query the key is, D >= 0. q is turned by D, so that qk() is
  /// W_QK(D) = W_Q R_D^T W_K^T. There is no one QK circuit there; D = 0 is a token looking at itself.
  Index offset = 0;
};

/// The matrices of one head, each [d_head, d_model]: rows of q, k and v are the directions that it reads (W_Q, W_K, W_V
/// transposed), rows of o those that it writes (W_O). Heads that share keys and values have a copy each.
struct HeadMatrices {
  Index layer = 0, head = 0;
  TensorF64 q, k, v, o;
  double score_scale = 1.0;  ///< what q . k is multiplied with; 1 if raw

  /// W_QK = W_Q W_K^T [query side, key side], without score_scale; W_OV = W_V W_O [source, out]: row vectors, x W.
  FactoredMatrix qk() const;
  FactoredMatrix ov() const;
};

/// Errors: usage (no such head, a negative offset, an offset without rotary positions).
HeadMatrices head_matrices(const Model& model, Index layer, Index head, const HeadForm& form = {});

/// Sentences that say what was folded and what was left out, for results; with `scores` also what concerns q and k
/// alone.
std::vector<std::string> head_form_notes(const Model& model, const HeadForm& form, bool scores);

/// `reader` with its keys read from what `writer` wrote: W_QK of the result is W_QK (W_V W_O)^T of the writer's, a term
/// of K-composition (framework-math, section 7). Norms between the two are folded, their divisors left out.
HeadMatrices keys_through(const HeadMatrices& reader, const HeadMatrices& writer);
/// The virtual head "second after first": OV is OV1 OV2; q and k are the second's (section 6).
HeadMatrices virtual_head(const HeadMatrices& second, const HeadMatrices& first);

/// Two dimensions of a head that turn together. W_QK(D) = sum over planes of cos(D theta) C + sin(D theta) S, plus what
/// does not turn: C = a_q a_k^T + b_q b_k^T, S = a_q b_k^T - b_q a_k^T (section 17).
struct RotaryPlane {
  Index first = 0, second = 0;  ///< the rows a and b of q and k
  double theta = 0.0;           ///< radians a position
  double cos_norm = 0.0;        ///< ||C||
  double sin_norm = 0.0;        ///< ||S||
};
/// The planes of a head's matrices of offset 0; none without rotary positions.
std::vector<RotaryPlane> rotary_planes(const ModelConfig& config, const HeadMatrices& head);

}  // namespace kirchhoff
