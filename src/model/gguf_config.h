#pragma once
#include <string>  // for string

#include "kirchhoff/io/checkpoint.h"
#include "kirchhoff/io/gguf.h"
#include "kirchhoff/model/config_reader.h"
#include "model/recipe.h"

/// What the architectures of GGUF files share. Conventions are llama.cpp's: its converter reorders fused projections to
/// [all q | all k | all v], writes weights [out, in], and adds the 1 of Gemma's 1 + w.
namespace kirchhoff::gguf {

/// The metadata `<architecture>.*` without that prefix, and `vocab_size` from the token list where the file has none.
/// Other keys (general.*, tokenizer.*, split.*, quantize.*) say nothing about the network.
Json hyperparameters(const io::GgufMetadata& metadata, const std::string& architecture);

/// Layers, widths, heads, vocabulary, context, and 1 / sqrt(d_head) as the scale of scores. The rows of token_embd
/// decide about the vocabulary: some files pad it.
void read_sizes(ConfigReader& config, const io::Checkpoint& checkpoint, Recipe& recipe);
void read_rms_norm(ConfigReader& config, ModelConfig& model);
void read_layer_norm(ConfigReader& config, ModelConfig& model);

/// rope.freq_base, rope.dimension_count, linear scaling, and the divisors of rope_freqs.weight (Llama 3.1).
RotaryTable rope_table(ConfigReader& config, const io::Checkpoint& checkpoint, Recipe& recipe);
void read_rope(ConfigReader& config, const io::Checkpoint& checkpoint, Recipe& recipe);

/// attn_q, attn_k, attn_v or a fused attn_qkv, and attn_output; biases where the file has them. `interleaved_heads`:
/// the rows of a head of q and k alternate between its halves (llama), and are put back in order.
void attention_rules(Recipe& recipe, const io::Checkpoint& checkpoint, bool interleaved_heads = false);
/// ffn_up and ffn_down, and ffn_gate if the model is gated.
void mlp_rules(Recipe& recipe, const io::Checkpoint& checkpoint);
/// token_embd, output_norm, and output or, where there is none, the embedding again.
void ends_rules(Recipe& recipe, const io::Checkpoint& checkpoint);

bool has(const io::Checkpoint& checkpoint, std::string_view tensor);

}  // namespace kirchhoff::gguf
