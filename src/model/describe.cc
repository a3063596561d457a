#include "kirchhoff/model/load.h"

namespace kirchhoff {

std::vector<std::string> describe(const Model& model) {
  const ModelConfig& c = model.config;
  std::vector<std::string> lines;
  lines.push_back(fmt::format("{} ({}): {} layers, d_model {}, {} heads of {}", c.family, c.architecture, c.n_layers,
                              c.d_model, c.n_heads, c.d_head));
  return lines;
}

}  // namespace kirchhoff
