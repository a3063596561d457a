#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/base/types.h"
#include "kirchhoff/kernels/activations.h"

namespace kirchhoff {

enum class NormKind {
  none,
  layer_norm,  ///< (x - mean) / sqrt(var + eps) * w + b
  rms,         ///< x / sqrt(mean(x^2) + eps) * w
};

using kernels::Activation;

enum class Positions {
  none,
  learned,      ///< W_pos[pos] added to the embedding
  shortformer,  ///< W_pos[pos] added to the normalised input of q and k only
  rotary,
  alibi,  ///< slope[h] * (key_pos - query_pos) added to the scaled scores
};

/// How q and k are normalised before the rotation.
enum class QkNorm {
  none,
  per_head,    ///< RMS over each head's d_head (Qwen3, Gemma-3)
  full_width,  ///< RMS over the concatenated heads (OLMo-2)
};

/// The rotation of one kind of layer: pair j turns by pos * inv_freq[j]; inv_freq has rotary_dim / 2 entries with every
/// scaling rule (linear, llama3, rope_freqs of a GGUF file) already applied, in double.
struct RotaryTable {
  std::vector<double> inv_freq;
};

/// Facts about one network as capabilities. The forward sees only these, never a family's name.
struct ModelConfig {
  std::string family;        ///< "llama", "gpt2", ...: for people
  std::string architecture;  ///< what the file called itself: "LlamaForCausalLM", "gguf:llama", "HookedTransformer"

  Index n_layers = 0, d_model = 0, n_heads = 0, n_kv_heads = 0, d_head = 0, d_mlp = 0;
  Index d_vocab = 0;      ///< rows of W_E
  Index d_vocab_out = 0;  ///< columns of W_U
  Index n_ctx = 0;        ///< longest input; 0: no limit in the model (ALiBi)

  // Embedding and positions
  Positions positions = Positions::none;
  double embed_scale = 1.0;                  ///< Gemma: sqrt(d_model)
  bool embed_norm = false;                   ///< BLOOM: a norm after the embedding
  Index rotary_dim = 0;                      ///< first dimensions of a head that turn
  bool rotary_adjacent = false;              ///< pairs (2j, 2j+1) (GPT-J) instead of (j, j + rotary_dim/2)
  std::vector<RotaryTable> rotary_tables;    ///< one, or one for global and one for local layers
  std::vector<Index> rotary_table_of_layer;  ///< [n_layers] index into rotary_tables
  std::vector<double> alibi_slopes;          ///< [n_heads], positive; already divided by what the family divides by

  // Blocks
  NormKind norm = NormKind::layer_norm;
  double norm_eps = 1e-5;
  bool pre_norm = true;    ///< norms before attention and MLP; false: OLMo-2
  bool post_norm = false;  ///< norms on the sublayers' outputs before they are added: Gemma-2/3, OLMo-2
  bool final_norm = true;
  bool parallel = false;     ///< attention and MLP both read resid_pre
  bool shared_norm = false;  ///< parallel blocks in which ln1 also feeds the MLP (GPT-J, Phi, Falcon-7B): ln2 is ln1
  bool attn_only = false;

  // Attention
  bool causal = true;
  std::vector<Index> window_of_layer;       ///< [n_layers] query q sees keys q-w+1..q; 0: all
  std::vector<double> attn_scale_of_layer;  ///< [n_layers] scores = (q . k) * scale
  double attn_softcap = 0.0;                ///< c * tanh(s / c) if > 0
  QkNorm qk_norm = QkNorm::none;
  /// Key j of head g becomes s k_j + (1 - s) k_{j-1}, s = sigmoid(LayerWeights::smear[g]), after the q/k norm and
  /// before any rotation, so that the key which turns at position j is the smeared one; a sequence's first key stays
  /// (Olsson et al. 2022, "In-context Learning and Induction Heads", Argument 2).
  bool smeared_keys = false;

  // MLP
  bool gated_mlp = false;  ///< act(x W_gate) * (x W_in)
  Activation activation = Activation::gelu_tanh;

  // Logits
  double logit_scale = 1.0;
  double logit_softcap = 0.0;  ///< c * tanh(l / c) if > 0, after logit_scale

  /// Whether the stream is normalised, not only passed on, before W_U.
  bool has_final_norm() const { return final_norm && norm != NormKind::none; }
  /// Fails (format) if a number is out of range or two contradict each other, naming the field.
  void validate() const;
};

}  // namespace kirchhoff
