#include "kirchhoff/observe/paths.h"

#include <utility>  // for move

#include "observe/linear_mlp.h"
#include "observe/logit_direction.h"
#include "observe/one_sequence.h"
#include "observe/path_expander.h"
#include "observe/stream_sources.h"

namespace kirchhoff {
namespace {

using namespace observe;

std::vector<std::string> sites_of_nodes(const ModelConfig& config, Index layers, MlpPaths mlp) {
  std::vector<std::string> sites = stream_source_sites(config);
  for (Index layer = 0; layer < layers; ++layer) {
    sites.push_back(site_name(Site::pattern, layer));
    sites.push_back(site_name(Site::v, layer));
    if (mlp == MlpPaths::recorded || config.attn_only) continue;
    for (const std::string& site : linear_mlp_sites(config, layer)) sites.push_back(site);
    sites.push_back(site_name(mlp_stream_site(config), layer));
  }
  return sites;
}

}  // namespace

std::vector<std::string> path_sites(const ModelConfig& config, MlpPaths mlp) {
  std::vector<std::string> sites = sites_of_nodes(config, config.n_layers, mlp);
  if (config.has_final_norm()) sites.push_back(site_name(Site::final_scale));
  if (config.logit_softcap > 0.0) sites.push_back(site_name(Site::unembed_out));
  sites.push_back(site_name(final_stream(config)));
  return sites;
}

std::vector<std::string> stream_path_sites(const ModelConfig& config, Index layer, MlpPaths mlp) {
  std::vector<std::string> sites = sites_of_nodes(config, layer, mlp);
  sites.push_back(site_name(stream_entering(config, layer)));
  return sites;
}

template <class Real>
PathExpansion expand_paths(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target,
                           const PathOptions& options) {
  const ModelConfig& config = model.config;
  PathExpansion result;
  result.target = target;
  result.target.pos = resolve_position(target.pos, sequence_length(trace));
  const OwnLogit own = own_logit(model, trace, result.target);
  result.own = own.value;
  result.soft_capped = own.soft_capped;
  LogitDirection u = logit_direction(model, trace, result.target);
  Root<Real> root{
      .stage = 2 * config.n_layers,
      .reads = {{.pos = result.target.pos,
                 .stream = at_position(trace, final_stream(config).site, final_stream(config).layer, result.target.pos),
                 .direction = std::move(u.stream)}}};
  if (model.weights.ln_final.b.present() && config.final_norm) root.constants.emplace_back("ln_final.b", u.norm_bias);
  if (model.weights.b_U.present()) root.constants.emplace_back("unembed.b", u.unembed_bias);
  return expand(model, trace, std::move(result), root, options);
}

template <class Real>
PathExpansion expand_paths(const Model& model, const BasicTrace<Real>& trace, const StreamTarget& target,
                           const PathOptions& options) {
  const ModelConfig& config = model.config;
  check(target.layer >= 0 && target.layer <= config.n_layers, ErrorCode::usage,
        "the stream that enters layer {}: there are {} layers, and {} for the stream behind the last", target.layer,
        config.n_layers, config.n_layers);
  check(static_cast<Index>(target.direction.size()) == config.d_model, ErrorCode::usage,
        "the direction has {} numbers, the stream of this model {}", target.direction.size(), config.d_model);
  PathExpansion result;
  result.target.pos = resolve_position(target.pos, sequence_length(trace));
  result.layer = target.layer;
  const SiteRef site = stream_entering(config, target.layer);
  const Root<Real> root{.stage = 2 * target.layer,
                        .reads = {{.pos = result.target.pos,
                                   .stream = at_position(trace, site.site, site.layer, result.target.pos),
                                   .direction = target.direction}}};
  result.own = dot(root.reads.front().direction, root.reads.front().stream.data());
  return expand(model, trace, std::move(result), root, options);
}

template PathExpansion expand_paths(const Model&, const Trace&, const LogitTarget&, const PathOptions&);
template PathExpansion expand_paths(const Model&, const TraceF64&, const LogitTarget&, const PathOptions&);
template PathExpansion expand_paths(const Model&, const Trace&, const StreamTarget&, const PathOptions&);
template PathExpansion expand_paths(const Model&, const TraceF64&, const StreamTarget&, const PathOptions&);

}  // namespace kirchhoff
