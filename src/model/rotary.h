#pragma once
#include "kirchhoff/model/config.h"

namespace kirchhoff {

/// inv_freq[j] = theta^(-2j / rotary_dim), j < rotary_dim / 2, before any scaling (RoFormer, arXiv 2104.09864).
RotaryTable plain_rotary(double theta, Index rotary_dim);

/// Positions divided by `factor`: every frequency is.
void scale_linear(RotaryTable& table, double factor);

/// Llama 3.1's rule: wavelengths longer than context / low_freq_factor are stretched by `factor`, those shorter than
/// context / high_freq_factor are kept, between them the two are blended.
struct Llama3Scaling {
  double factor, low_freq_factor, high_freq_factor, original_context;
};
void scale_llama3(RotaryTable& table, const Llama3Scaling& scaling);

/// Sets one table for every layer.
void set_rotary(ModelConfig& config, RotaryTable table);
/// Sets two tables: `global` where window_of_layer is 0, `local` elsewhere.
void set_rotary(ModelConfig& config, RotaryTable global, RotaryTable local);

/// ALiBi slopes 2^(-max_bias (h + 1) / n) for n a power of two; otherwise those of the next lower power of two followed
/// by every other one of the next higher (the paper's rule, arXiv 2108.12409, as BLOOM, MPT and Falcon have it).
std::vector<double> alibi_slopes(Index n_heads, double max_bias = 8.0);

}  // namespace kirchhoff
