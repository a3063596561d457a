#include "kirchhoff/model/config.h"

#include <cmath>  // for isfinite

#include "kirchhoff/base/error.h"

namespace kirchhoff {
namespace {

constexpr Index kMaxHeadsWidth = Index{1} << 22;  ///< n_heads d_head

void in_range(const char* name, Index value, Index low, Index high) {
  check(value >= low && value <= high, ErrorCode::format, "{} is {}, expected between {} and {}", name, value, low,
        high);
}

void positive(const char* name, double value) {
  check(std::isfinite(value) && value > 0, ErrorCode::format, "{} is {}, expected a number above 0", name, value);
}

void not_negative(const char* name, double value) {
  check(std::isfinite(value) && value >= 0, ErrorCode::format, "{} is {}, expected 0 or more", name, value);
}

template <class T>
void one_per(const char* name, const std::vector<T>& list, const char* of, Index count) {
  check(static_cast<Index>(list.size()) == count, ErrorCode::format, "{} has {} entries, {} is {}", name, list.size(),
        of, count);
}

void validate_positions(const ModelConfig& c) {
  const bool rotary = c.positions == Positions::rotary;
  if (c.positions == Positions::learned || c.positions == Positions::shortformer)
    in_range("n_ctx", c.n_ctx, 1, Index{1} << 30);
  if (c.positions == Positions::alibi) {
    one_per("alibi_slopes", c.alibi_slopes, "n_heads", c.n_heads);
    for (double slope : c.alibi_slopes) positive("alibi_slopes", slope);
  }
  if (!rotary) return;
  check(c.rotary_dim >= 2 && c.rotary_dim % 2 == 0 && c.rotary_dim <= c.d_head, ErrorCode::format,
        "rotary_dim is {}, expected an even number up to d_head {}", c.rotary_dim, c.d_head);
  one_per("rotary_table_of_layer", c.rotary_table_of_layer, "n_layers", c.n_layers);
  for (Index table : c.rotary_table_of_layer)
    in_range("rotary_table_of_layer", table, 0, static_cast<Index>(c.rotary_tables.size()) - 1);
  for (const RotaryTable& table : c.rotary_tables) {
    one_per("inv_freq", table.inv_freq, "rotary_dim / 2", c.rotary_dim / 2);
    for (double frequency : table.inv_freq) positive("inv_freq", frequency);
  }
}

}  // namespace

void ModelConfig::validate() const {
  in_range("n_layers", n_layers, 0, 4096);
  in_range("d_model", d_model, 1, Index{1} << 20);
  in_range("n_heads", n_heads, 1, Index{1} << 20);
  in_range("n_kv_heads", n_kv_heads, 1, n_heads);
  in_range("d_head", d_head, 1, Index{1} << 20);
  in_range("n_heads d_head", n_heads * d_head, 1, kMaxHeadsWidth);
  check(n_heads % n_kv_heads == 0, ErrorCode::format, "n_heads {} is not a multiple of n_kv_heads {}", n_heads,
        n_kv_heads);
  if (!attn_only) in_range("d_mlp", d_mlp, 1, Index{1} << 22);
  in_range("d_vocab", d_vocab, 1, Index{1} << 24);
  in_range("d_vocab_out", d_vocab_out, 1, Index{1} << 24);
  in_range("n_ctx", n_ctx, 0, Index{1} << 30);
  validate_positions(*this);

  positive("norm_eps", norm_eps);
  positive("embed_scale", embed_scale);
  not_negative("attn_softcap", attn_softcap);
  not_negative("logit_softcap", logit_softcap);
  check(std::isfinite(logit_scale), ErrorCode::format, "logit_scale is {}, expected a finite number", logit_scale);
  one_per("window_of_layer", window_of_layer, "n_layers", n_layers);
  for (Index window : window_of_layer) in_range("window_of_layer", window, 0, Index{1} << 30);
  one_per("attn_scale_of_layer", attn_scale_of_layer, "n_layers", n_layers);
  for (double scale : attn_scale_of_layer) positive("attn_scale_of_layer", scale);

  check(!shared_norm || parallel, ErrorCode::format, "shared_norm needs parallel blocks");
  check(!attn_only || !parallel, ErrorCode::format, "an attention-only model has no parallel MLP");
  check(pre_norm || post_norm || norm == NormKind::none, ErrorCode::format,
        "neither pre_norm nor post_norm, but norm is not none");
}

}  // namespace kirchhoff
