#pragma once
#include <algorithm>  // for copy_n
#include <span>       // for span
#include <vector>     // for vector

#include "engine/batch_layout.h"
#include "kirchhoff/model/config.h"
#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff::engine {

/// What a resumed run reads of the run that it branches off: everything from which a row can go on, by layer, as rows
/// of [N tokens of all sequences, width].
template <class Real>
struct BaseState {
  using Rows = BasicTensor<Real>;

  explicit BaseState(std::span<const Tokens> batch) : tokens(batch.begin(), batch.end()), layout(batch, 0, true) {}

  std::vector<Tokens> tokens;
  BatchLayout layout;
  std::vector<Rows> stream;       ///< [n_layers + 1]: what enters each layer, and what leaves the last
  std::vector<Rows> mid;          ///< [n_layers]: between attention and MLP; none in parallel and attention-only blocks
  std::vector<Rows> q, k;         ///< [n_layers]: after q/k norm and rotation
  std::vector<Rows> v, z;         ///< [n_layers]
  std::vector<Rows> unsmeared_k;  ///< [n_layers]: k before smearing (after q/k norm); none without smeared keys
  Rows token, position;           ///< the embedding's parts, where positions are embedded
  std::vector<Rows> mlp_out;      ///< [n_layers]: what the MLP adds to the stream
  std::vector<std::vector<Real>> post_scale;  ///< [n_layers]: the divisor of the norm behind attention, if there is one
  std::vector<Rows> cos, sin;                 ///< [rotary tables]: the rotation of each row
};

/// Copies rows into a tensor of their own.
template <class Real>
BasicTensor<Real> copy_of(View<const Real, 2> rows) {
  auto copy = BasicTensor<Real>::uninitialised({rows.dim[0], rows.dim[1]});
  for (Index r = 0; r < rows.dim[0]; ++r) std::copy_n(rows.row(r).data(), rows.dim[1], copy.data() + r * rows.dim[1]);
  return copy;
}

/// Bytes of the state of a run of so many tokens.
inline Index base_state_bytes(const ModelConfig& c, Index tokens, Index real_bytes) {
  const bool has_mid = !c.parallel && !c.attn_only;
  const Index layer = c.d_model * (1 + (has_mid ? 1 : 0) + (c.attn_only ? 0 : 1)) +
                      (2 * c.n_heads + (c.smeared_keys ? 3 : 2) * c.n_kv_heads) * c.d_head;
  Index rotations = 0;
  for (const RotaryTable& table : c.rotary_tables) rotations += 2 * static_cast<Index>(table.inv_freq.size());
  return real_bytes * tokens * (c.n_layers * layer + 3 * c.d_model + rotations);
}

}  // namespace kirchhoff::engine
