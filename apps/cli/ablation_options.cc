#include "ablation_options.h"

#include <charconv>  // for from_chars
#include <sstream>   // for istringstream

#include "kirchhoff/base/error.h"

namespace kirchhoff::cli {

void AblationCommandOptions::declare(Command& command) {
  command.option("--kind", "KIND", kind, "what takes the ablated values' place (default zero)",
                 {"zero", "mean", "resample"});
  command.flag("--keep-patterns", keep_patterns, "attention stays as it was: only what moves through values changes");
  command.flag("--freeze-norms", freeze_norms, "norms divide by what they did without ablation");
}

NodeAblationOptions AblationCommandOptions::resolve(const Session& session) const {
  NodeAblationOptions options;
  options.kind = kind == "zero" ? Ablation::zero : kind == "mean" ? Ablation::mean : Ablation::resample;
  options.keep_patterns = keep_patterns;
  options.freeze_norms = freeze_norms;
  options.seed = session.seed;
  return options;
}

std::string ablation_text(const NodeAblationOptions& options, const std::string& baseline) {
  return fmt::format("{} ablation, {}{}{}", name(options.kind),
                     options.keep_patterns ? "patterns kept" : "everything behind recomputed",
                     options.freeze_norms ? ", norms' divisors kept" : "",
                     options.kind == Ablation::zero ? "" : fmt::format("; values: {}", baseline));
}

std::vector<Index> parse_layers(const std::string& text, Index n_layers, const std::string& option) {
  std::vector<Index> layers;
  if (text == "all")
    for (Index layer = 0; layer < n_layers; ++layer) layers.push_back(layer);
  std::istringstream stream(text == "all" ? "" : text);
  for (std::string part; std::getline(stream, part, ',');) {
    Index layer = 0;
    const char* const end = part.data() + part.size();
    const auto [stop, status] = std::from_chars(part.data(), end, layer);
    check(status == std::errc() && stop == end && layer >= 0 && layer < n_layers, ErrorCode::usage,
          "option '{}': '{}' is not a layer: there are {}, from 0", option, part, n_layers);
    layers.push_back(layer);
  }
  check(!layers.empty(), ErrorCode::usage, "option '{}': '{}' selects no layer", option, text);
  return layers;
}

}  // namespace kirchhoff::cli
