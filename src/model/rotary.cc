#include "model/rotary.h"

#include <bit>      // for bit_floor
#include <cmath>    // for pow
#include <numbers>  // for pi

namespace kirchhoff {

RotaryTable plain_rotary(double theta, Index rotary_dim) {
  RotaryTable table;
  for (Index j = 0; j < rotary_dim / 2; ++j)
    table.inv_freq.push_back(std::pow(theta, -2.0 * static_cast<double>(j) / static_cast<double>(rotary_dim)));
  return table;
}

void scale_linear(RotaryTable& table, double factor) {
  for (double& frequency : table.inv_freq) frequency /= factor;
}

void scale_llama3(RotaryTable& table, const Llama3Scaling& s) {
  for (double& frequency : table.inv_freq) {
    const double wavelength = 2.0 * std::numbers::pi / frequency;
    if (wavelength < s.original_context / s.high_freq_factor) continue;
    if (wavelength > s.original_context / s.low_freq_factor) {
      frequency /= s.factor;
      continue;
    }
    const double keep =
        (s.original_context / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
    frequency = (1.0 - keep) * frequency / s.factor + keep * frequency;
  }
}

void set_rotary(ModelConfig& config, RotaryTable table) {
  config.positions = Positions::rotary;
  config.rotary_dim = 2 * static_cast<Index>(table.inv_freq.size());
  config.rotary_tables = {std::move(table)};
  config.rotary_table_of_layer.assign(static_cast<std::size_t>(config.n_layers), 0);
}

void set_rotary(ModelConfig& config, RotaryTable global, RotaryTable local) {
  set_rotary(config, std::move(global));
  config.rotary_tables.push_back(std::move(local));
  for (std::size_t l = 0; l < config.rotary_table_of_layer.size(); ++l)
    config.rotary_table_of_layer[l] = config.window_of_layer[l] > 0 ? 1 : 0;
}

std::vector<double> alibi_slopes(Index n_heads, double max_bias) {
  const auto lower = static_cast<Index>(std::bit_floor(static_cast<std::uint64_t>(n_heads)));
  std::vector<double> slopes;
  for (Index h = 1; h <= lower; ++h)
    slopes.push_back(std::pow(2.0, -max_bias * static_cast<double>(h) / static_cast<double>(lower)));
  for (Index h = 1; static_cast<Index>(slopes.size()) < n_heads; h += 2)
    slopes.push_back(std::pow(2.0, -max_bias * static_cast<double>(h) / static_cast<double>(2 * lower)));
  return slopes;
}

}  // namespace kirchhoff
