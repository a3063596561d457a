// Records intermediates by their names: the residual stream after every block, and the last block's attention.
//
//   03_capture MODEL PROMPT
#include <fmt/core.h>

#include <algorithm>  // for max_element
#include <cmath>      // for sqrt

#include "prompt.h"

int main(int argc, char** argv) try {
  if (argc != 3) return fmt::print(stderr, "usage: {} MODEL PROMPT\n", argv[0]), 2;
  const example::Loaded loaded = example::load(argv[1], argv[2]);
  const kirchhoff::Index last_layer = loaded.model.config.n_layers - 1;

  // Names are TransformerLens's, `*` stands for any layer. Asking for a site changes no value of the run.
  const std::string pattern_name = kirchhoff::site_name(kirchhoff::Site::pattern, last_layer);
  const kirchhoff::Trace trace =
      kirchhoff::run(loaded.model, loaded.prompt, {.capture = {"blocks.*.hook_resid_post", pattern_name}});

  for (kirchhoff::Index layer = 0; layer <= last_layer; ++layer) {
    const std::string name = kirchhoff::site_name(kirchhoff::Site::resid_post, layer);
    const auto stream = trace.at(name).view<3>().at(0);  // [pos, d_model]
    double squares = 0.0;
    for (const float x : stream.row(stream.dim[0] - 1)) squares += static_cast<double>(x) * x;
    fmt::print("{:<28} length at the last position {:9.4f}\n", name, std::sqrt(squares));
  }

  const auto pattern = trace.at(pattern_name).view<4>().at(0);  // [head, query_pos, key_pos]
  for (kirchhoff::Index head = 0; head < pattern.dim[0]; ++head) {
    const auto weights = pattern.at(head).row(pattern.dim[1] - 1);
    const auto strongest = std::ranges::max_element(weights);
    const auto key = static_cast<std::size_t>(strongest - weights.begin());
    fmt::print("head {}.{} looks at position {} ({}) with {:.4f}\n", last_layer, head, key,
               example::shown(loaded, loaded.prompt[key]), *strongest);
  }
  return 0;
} catch (const kirchhoff::Error& error) {
  return fmt::print(stderr, "error: {}\n", error.what()), 1;
}
