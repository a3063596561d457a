#pragma once
#include <cstdint>      // for uint8_t
#include <span>         // for span
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "kirchhoff/model/config.h"

namespace kirchhoff {

/// A place in the computation whose value a run can record, in the order in which a block computes them. Names and
/// shapes are TransformerLens's; sites.cc has the one table of them.
enum class Site : std::uint8_t {
  embed_module,
  embed,
  pos_embed,
  resid_pre,
  attn_in,
  q_input,
  k_input,
  v_input,
  ln1_scale,
  ln1_normalized,
  attn_input,
  q,
  k,
  v,
  smeared_k,
  rot_q,
  rot_k,
  attn_scores,
  pattern,
  z,
  result,
  attn_module,
  ln1_post_scale,
  ln1_post_normalized,
  attn_out,
  resid_mid,
  mlp_in,
  ln2_scale,
  ln2_normalized,
  mlp_pre,
  mlp_pre_linear,
  mlp_mid,
  mlp_ln_scale,
  mlp_ln_normalized,
  mlp_post,
  mlp_module,
  ln2_post_scale,
  ln2_post_normalized,
  mlp_out,
  resid_post,
  resid_final,
  final_scale,
  final_normalized,
  unembed_in,
  unembed_out,
};
inline constexpr Index kSiteCount = static_cast<Index>(Site::unembed_out) + 1;

/// What an axis of a recorded tensor counts. `batch` comes first in every one.
enum class Axis : std::uint8_t { none, pos, query_pos, key_pos, head, kv_head, one, d_head, d_model, d_mlp, d_vocab };

/// One row of the vocabulary.
struct SiteInfo {
  Site site;
  std::string_view name;  ///< "hook_embed", "blocks.L.attn.hook_q": L stands for the layer
  Axis axes[3];           ///< after batch; Axis::none fills up
  std::string_view doc;   ///< one line
  /// Empty if a model of this kind has the site, otherwise why it does not: "parallel blocks have no resid_mid: ...".
  std::string_view (*absent)(const ModelConfig&);
  bool per_layer() const { return name.starts_with("blocks."); }
};

/// All sites, indexed by Site.
std::span<const SiteInfo> all_sites();
const SiteInfo& info(Site site);
/// "head", "query_pos", ...: as the tensors of a trace name their axes.
std::string_view name(Axis axis);

/// A site of one layer; the layer is 0 where there are no layers.
struct SiteRef {
  Site site{};
  Index layer = 0;
  friend bool operator==(const SiteRef&, const SiteRef&) = default;
};

/// "blocks.3.attn.hook_pattern".
std::string site_name(SiteRef ref);
inline std::string site_name(Site site, Index layer = 0) { return site_name(SiteRef{site, layer}); }

/// The stream that the final norm and W_U read: the last hook_resid_post, or, of a model without blocks,
/// hook_resid_final.
inline SiteRef final_stream(const ModelConfig& config) {
  return config.n_layers > 0 ? SiteRef{Site::resid_post, config.n_layers - 1} : SiteRef{Site::resid_final, 0};
}

/// Every site that a model of this kind has, in firing order.
std::vector<SiteRef> sites_of(const ModelConfig& config);

/// The sites that `pattern` names. It is a name; or has `*` for any run of characters between dots and `**` for any run
/// at all ("blocks.*.hook_resid_post", "**"); or is a shorthand: "k6", "resid_post5", "scale4ln1", "pattern3", "scale".
/// Error{usage} if it names none, saying why the model lacks the site, or which names are nearest.
std::vector<SiteRef> find_sites(const ModelConfig& config, std::string_view pattern);

}  // namespace kirchhoff
