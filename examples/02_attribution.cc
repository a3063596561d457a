// Takes the logit difference of two tokens apart: everything that wrote to the residual stream gets its share, and the
// shares add up to the model's own number.
//
//   02_attribution MODEL PROMPT TARGET_ID FOIL_ID
#include <fmt/core.h>

#include <algorithm>  // for sort
#include <cmath>      // for abs

#include "prompt.h"

int main(int argc, char** argv) try {
  if (argc != 5) return fmt::print(stderr, "usage: {} MODEL PROMPT TARGET_ID FOIL_ID\n", argv[0]), 2;
  const example::Loaded loaded = example::load(argv[1], argv[2]);
  const kirchhoff::LogitTarget target{.token = std::stoi(argv[3]), .foil = std::stoi(argv[4])};

  kirchhoff::RunOptions options;
  options.capture = kirchhoff::attribution_sites(loaded.model.config);
  const kirchhoff::Trace trace = kirchhoff::run(loaded.model, loaded.prompt, options);
  kirchhoff::Attribution attribution = kirchhoff::attribute_logit(loaded.model, trace, target);

  std::ranges::sort(attribution.parts,
                    [](const auto& a, const auto& b) { return std::abs(a.value) > std::abs(b.value); });
  for (std::size_t i = 0; i < std::min<std::size_t>(10, attribution.parts.size()); ++i)
    fmt::print("{:<12} {:+9.4f}\n", attribution.parts[i].node, attribution.parts[i].value);

  fmt::print("sum of {} parts {:+.4f}, the model's own {:+.4f}, closure {:.0e}\n", attribution.parts.size(),
             attribution.sum, attribution.own, attribution.closure);
  return 0;
} catch (const kirchhoff::Error& error) {
  return fmt::print(stderr, "error: {}\n", error.what()), 1;
}
