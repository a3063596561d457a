#include "engine/variants.h"

#include <algorithm>  // for max, min

#include "engine/selected_rows.h"
#include "engine/site_shape.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::engine {

/// Sites of no layer belong to the first one, with the embedding, or to the last one.
Entry entry_of(Site site) {
  switch (site) {
    case Site::embed_module:
    case Site::embed:
    case Site::pos_embed:
      return Entry::embed;
    case Site::resid_pre:
    case Site::attn_in:
    case Site::q_input:
    case Site::k_input:
    case Site::v_input:
    case Site::ln1_scale:
    case Site::ln1_normalized:
    case Site::attn_input:
    case Site::q:
    case Site::k:
    case Site::v:
    case Site::smeared_k:
    case Site::rot_q:
    case Site::rot_k:
      return Entry::stream;
    case Site::attn_scores:
    case Site::pattern:
      return Entry::queries;
    case Site::z:
      return Entry::z;
    case Site::result:
    case Site::attn_module:
    case Site::ln1_post_scale:
    case Site::ln1_post_normalized:
    case Site::attn_out:
      return Entry::result;
    case Site::resid_mid:
    case Site::mlp_in:
    case Site::ln2_scale:
    case Site::ln2_normalized:
    case Site::mlp_pre:
    case Site::mlp_pre_linear:
    case Site::mlp_mid:
    case Site::mlp_ln_scale:
    case Site::mlp_ln_normalized:
    case Site::mlp_post:
    case Site::mlp_module:
    case Site::ln2_post_scale:
    case Site::ln2_post_normalized:
    case Site::mlp_out:
      return Entry::mid;
    case Site::resid_post:
    case Site::resid_final:
      return Entry::post;
    case Site::final_scale:
    case Site::final_normalized:
    case Site::unembed_in:
    case Site::unembed_out:
      return Entry::post;
  }
  return Entry::embed;
}

namespace {

struct Place {
  Index layer;
  Entry entry;
};

Place place_of(const ModelConfig& config, SiteRef ref) {
  const Entry entry = entry_of(ref.site);
  if (info(ref.site).per_layer()) return {ref.layer, entry};
  return {entry == Entry::embed ? 0 : std::max<Index>(0, config.n_layers - 1), entry};
}

Place place_of(const ModelConfig& config, const Reader& reader) {
  switch (reader.kind) {
    case Reader::Kind::mlp:
      return {reader.layer, Entry::mid};
    case Reader::Kind::logits:
      return {std::max<Index>(0, config.n_layers - 1), Entry::post};
    default:
      return {reader.layer, Entry::stream};
  }
}

/// Where the parts that a freeze takes from elsewhere lie in a layer.
std::vector<Place> places_of(const ModelConfig& config, const Freeze& freeze) {
  std::vector<Place> places;
  for (const Index layer : entries_of(freeze.layers, config.n_layers, "there is no layer")) {
    if (freeze.attention_scales) places.push_back({layer, Entry::stream});
    if (freeze.patterns) places.push_back({layer, Entry::queries});
    if (freeze.post_scales) places.push_back({layer, Entry::result});
    if (!config.attn_only &&
        (freeze.mlp_scales || freeze.post_scales || freeze.inner_scales || freeze.mlp_gates || freeze.mlp_activations))
      places.push_back({layer, Entry::mid});
  }
  if (freeze.final_scale) places.push_back({std::max<Index>(0, config.n_layers - 1), Entry::post});
  return places;
}

}  // namespace

std::vector<Join> joins_of(const ModelConfig& config, const BatchLayout& base, const Interventions& variant) {
  std::vector<Join> joins;
  const auto add = [&](Place place, const Selection& sequences, const Selection& positions) {
    for (const Index s : entries_of(sequences, base.batch(), "there is no sequence"))
      joins.push_back({place.layer, place.entry, s, entries_of(positions, base.length(s), "there is no position")});
  };
  for (const Intervention& intervention : variant.sites)
    for (const SiteRef& ref : find_sites(config, intervention.site)) {
      add(place_of(config, ref), intervention.where.sequences, intervention.where.positions);
      // Shortformer's positions are read in every layer.
      if (ref.site == Site::pos_embed && config.positions == Positions::shortformer)
        for (Index layer = 0; layer < config.n_layers; ++layer)
          add({layer, Entry::stream}, intervention.where.sequences, intervention.where.positions);
    }
  for (const EdgeIntervention& intervention : variant.edges)
    for (const Edge& edge : intervention.edges)
      add(place_of(config, edge.reader), intervention.sequences, intervention.positions);
  for (const Freeze& freeze : variant.freezes)
    for (const Place& place : places_of(config, freeze)) add(place, freeze.sequences, Selection());
  return joins;
}

Index editor_size(const ModelConfig& config, const BatchLayout& base, const Interventions& variant) {
  Index size = 0;
  for (const Intervention& intervention : variant.sites) {
    if (intervention.edit != Edit::mean && intervention.edit != Edit::mean_all) continue;
    for (const SiteRef& ref : find_sites(config, intervention.site)) {
      const SiteShape shape = shape_of_site(config, ref.site);
      size += 2 * base.longest() * shape.heads * (shape.by_key ? base.longest() : shape.width);
    }
  }
  const Index writers = 2 + config.n_layers * (config.n_heads + 1);
  for (const EdgeIntervention& edges : variant.edges)
    size += (edges.edit == Edit::mean ? 3 : 1) * std::min(writers, static_cast<Index>(edges.edges.size())) *
            base.rows() * config.d_model;
  return size;
}

}  // namespace kirchhoff::engine
