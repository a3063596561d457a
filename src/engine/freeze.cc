#include "engine/freeze.h"

#include "engine/selected_rows.h"

namespace kirchhoff::engine {
namespace {

void append(const ModelConfig& config, bool wanted, Site site, const std::vector<Index>& layers,
            std::vector<SiteRef>& sites) {
  if (!wanted || !info(site).absent(config).empty()) return;
  for (const Index layer : layers) sites.push_back({site, layer});
}

}  // namespace

std::vector<SiteRef> frozen_sites(const ModelConfig& config, const Freeze& freeze) {
  const std::vector<Index> layers = selected(freeze.layers, config.n_layers, "freeze, layers");
  std::vector<SiteRef> sites;
  append(config, freeze.patterns, Site::pattern, layers, sites);
  append(config, freeze.attention_scales, Site::ln1_scale, layers, sites);
  append(config, freeze.mlp_scales, Site::ln2_scale, layers, sites);
  append(config, freeze.post_scales, Site::ln1_post_scale, layers, sites);
  append(config, freeze.post_scales, Site::ln2_post_scale, layers, sites);
  append(config, freeze.inner_scales, Site::mlp_ln_scale, layers, sites);
  append(config, freeze.final_scale, Site::final_scale, {0}, sites);
  append(config, freeze.mlp_gates && config.gated_mlp, Site::mlp_pre, layers, sites);
  append(config, freeze.mlp_activations, Site::mlp_post, layers, sites);
  return sites;
}

std::vector<Index> frozen_gates(const ModelConfig& config, const Freeze& freeze) {
  if (!freeze.mlp_gates || config.gated_mlp || config.attn_only) return {};
  return selected(freeze.layers, config.n_layers, "freeze, layers");
}

}  // namespace kirchhoff::engine

namespace kirchhoff {

std::vector<std::string> freeze_sites(const ModelConfig& config, const Freeze& freeze) {
  std::vector<std::string> names;
  for (const SiteRef& ref : engine::frozen_sites(config, freeze)) names.push_back(site_name(ref));
  for (const Index layer : engine::frozen_gates(config, freeze)) names.push_back(site_name(Site::mlp_pre, layer));
  return names;
}

}  // namespace kirchhoff
