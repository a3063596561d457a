#include "kirchhoff/engine/sites.h"

#include <fmt/format.h>

#include <algorithm>  // for min, transform
#include <iterator>   // for back_inserter, size
#include <optional>   // for optional

#include "engine/near_names.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff {
namespace {

using std::string_view;

// Why a model of this kind has no such site; empty if it has.
constexpr string_view present(const ModelConfig&) { return {}; }
string_view if_position_embedding(const ModelConfig& c) {
  const bool has = c.positions == Positions::learned || c.positions == Positions::shortformer;
  return has ? "" : "the model has no position embedding";
}
string_view if_norm1(const ModelConfig& c) {
  if (c.norm == NormKind::none) return "the model has no norms";
  return c.pre_norm ? "" : "no norm precedes the sublayers of this model, only one follows each (ln1_post, ln2_post)";
}
string_view if_mlp(const ModelConfig& c) { return c.attn_only ? "the model is attention-only: it has no MLPs" : ""; }
string_view if_norm2(const ModelConfig& c) {
  if (c.attn_only) return if_mlp(c);
  return c.shared_norm ? "the blocks have one norm: the MLP reads what ln1 gives" : if_norm1(c);
}
string_view if_post_norm(const ModelConfig& c) {
  return c.post_norm ? "" : "no norm follows the sublayers of this model";
}
string_view if_post_norm2(const ModelConfig& c) { return c.attn_only ? if_mlp(c) : if_post_norm(c); }
string_view if_shortformer(const ModelConfig& c) {
  return c.positions == Positions::shortformer ? "" : "only shortformer models add positions to the input of q and k";
}
string_view if_smeared(const ModelConfig& c) { return c.smeared_keys ? "" : "the model's keys are not smeared"; }
string_view if_rotary(const ModelConfig& c) {
  return c.positions == Positions::rotary ? "" : "the model has no rotary positions";
}
string_view if_resid_mid(const ModelConfig& c) {
  if (c.attn_only) return "attention-only blocks have no resid_mid: there is no MLP after the attention";
  return c.parallel ? "parallel blocks have no resid_mid: attention and MLP both read resid_pre" : "";
}
string_view if_gated(const ModelConfig& c) {
  if (c.attn_only) return if_mlp(c);
  return c.gated_mlp ? "" : "the MLPs are not gated: they have one branch, hook_pre";
}
string_view if_solu_ln(const ModelConfig& c) {
  if (c.attn_only) return if_mlp(c);
  return c.activation == Activation::solu_ln ? "" : "only MLPs with the activation solu_ln have a norm inside";
}
string_view if_no_layers(const ModelConfig& c) {
  return c.n_layers == 0 ? "" : "only a model without blocks has it: take the last hook_resid_post";
}
string_view if_final_norm(const ModelConfig& c) { return c.has_final_norm() ? "" : "the model has no final norm"; }

constexpr Axis kPos = Axis::pos, kQuery = Axis::query_pos, kKey = Axis::key_pos, kHead = Axis::head,
               kKvHead = Axis::kv_head, kOne = Axis::one, kDHead = Axis::d_head, kDModel = Axis::d_model,
               kDMlp = Axis::d_mlp, kDVocab = Axis::d_vocab;

// clang-format off
constexpr SiteInfo kSites[] = {
  {Site::embed_module, "embed.hook_out", {kPos, kDModel}, "token embedding, with the embedding scale, before any embedding norm", present},
  {Site::embed, "hook_embed", {kPos, kDModel}, "token embedding as it enters the stream, after the embedding norm (BLOOM)", present},
  {Site::pos_embed, "hook_pos_embed", {kPos, kDModel}, "position embedding", if_position_embedding},
  {Site::resid_pre, "blocks.L.hook_resid_pre", {kPos, kDModel}, "residual stream at the input of the block", present},
  {Site::attn_in, "blocks.L.hook_attn_in", {kPos, kHead, kDModel}, "the block's input as each head reads it, before ln1", present},
  {Site::q_input, "blocks.L.hook_q_input", {kPos, kHead, kDModel}, "the block's input as the queries of each head read it, before ln1", present},
  {Site::k_input, "blocks.L.hook_k_input", {kPos, kKvHead, kDModel}, "the block's input as the keys of each head read it, before ln1", present},
  {Site::v_input, "blocks.L.hook_v_input", {kPos, kKvHead, kDModel}, "the block's input as the values of each head read it, before ln1", present},
  {Site::ln1_scale, "blocks.L.ln1.hook_scale", {kPos, kOne}, "divisor of the norm before attention: sqrt(variance or mean square + eps)", if_norm1},
  {Site::ln1_normalized, "blocks.L.ln1.hook_normalized", {kPos, kDModel}, "normalised input of attention, before gain and bias", if_norm1},
  {Site::attn_input, "blocks.L.attn.hook_attn_input", {kPos, kDModel}, "input of q and k: ln1's output plus the position embedding", if_shortformer},
  {Site::q, "blocks.L.attn.hook_q", {kPos, kHead, kDHead}, "queries with bias, before q/k norm and rotation", present},
  {Site::k, "blocks.L.attn.hook_k", {kPos, kKvHead, kDHead}, "keys with bias, before q/k norm and rotation", present},
  {Site::v, "blocks.L.attn.hook_v", {kPos, kKvHead, kDHead}, "values with bias", present},
  {Site::smeared_k, "blocks.L.attn.hook_smeared_k", {kPos, kKvHead, kDHead}, "keys after q/k norm and smearing with the key before, before rotation", if_smeared},
  {Site::rot_q, "blocks.L.attn.hook_rot_q", {kPos, kHead, kDHead}, "queries after q/k norm and rotation", if_rotary},
  {Site::rot_k, "blocks.L.attn.hook_rot_k", {kPos, kKvHead, kDHead}, "keys after q/k norm, smearing and rotation", if_rotary},
  {Site::attn_scores, "blocks.L.attn.hook_attn_scores", {kHead, kQuery, kKey}, "scores after scale, soft-cap, ALiBi and mask (hidden keys: -inf)", present},
  {Site::pattern, "blocks.L.attn.hook_pattern", {kHead, kQuery, kKey}, "attention probabilities", present},
  {Site::z, "blocks.L.attn.hook_z", {kPos, kHead, kDHead}, "values weighted by the pattern: what W_O reads", present},
  {Site::result, "blocks.L.attn.hook_result", {kPos, kHead, kDModel}, "each head's output z W_O, without b_O and before any post-norm", present},
  {Site::attn_module, "blocks.L.attn.hook_out", {kPos, kDModel}, "attention's raw output: the sum of the heads, plus b_O", present},
  {Site::ln1_post_scale, "blocks.L.ln1_post.hook_scale", {kPos, kOne}, "divisor of the norm after attention", if_post_norm},
  {Site::ln1_post_normalized, "blocks.L.ln1_post.hook_normalized", {kPos, kDModel}, "normalised attention output, before gain and bias", if_post_norm},
  {Site::attn_out, "blocks.L.hook_attn_out", {kPos, kDModel}, "what attention adds to the stream, after a post-norm if there is one", present},
  {Site::resid_mid, "blocks.L.hook_resid_mid", {kPos, kDModel}, "residual stream between attention and MLP", if_resid_mid},
  {Site::mlp_in, "blocks.L.hook_mlp_in", {kPos, kDModel}, "the stream as the MLP reads it, before ln2", if_mlp},
  {Site::ln2_scale, "blocks.L.ln2.hook_scale", {kPos, kOne}, "divisor of the norm before the MLP", if_norm2},
  {Site::ln2_normalized, "blocks.L.ln2.hook_normalized", {kPos, kDModel}, "normalised input of the MLP, before gain and bias", if_norm2},
  {Site::mlp_pre, "blocks.L.mlp.hook_pre", {kPos, kDMlp}, "input of the activation; gated MLPs: the gate branch x W_gate", if_mlp},
  {Site::mlp_pre_linear, "blocks.L.mlp.hook_pre_linear", {kPos, kDMlp}, "gated MLPs: the linear branch x W_in", if_gated},
  {Site::mlp_mid, "blocks.L.mlp.hook_mid", {kPos, kDMlp}, "solu_ln: after the activation, before its norm", if_solu_ln},
  {Site::mlp_ln_scale, "blocks.L.mlp.ln.hook_scale", {kPos, kOne}, "solu_ln: divisor of the norm over d_mlp", if_solu_ln},
  {Site::mlp_ln_normalized, "blocks.L.mlp.ln.hook_normalized", {kPos, kDMlp}, "solu_ln: normalised, before gain and bias", if_solu_ln},
  {Site::mlp_post, "blocks.L.mlp.hook_post", {kPos, kDMlp}, "what W_out reads", if_mlp},
  {Site::mlp_module, "blocks.L.mlp.hook_out", {kPos, kDModel}, "the MLP's raw output, with b_out", if_mlp},
  {Site::ln2_post_scale, "blocks.L.ln2_post.hook_scale", {kPos, kOne}, "divisor of the norm after the MLP", if_post_norm2},
  {Site::ln2_post_normalized, "blocks.L.ln2_post.hook_normalized", {kPos, kDModel}, "normalised MLP output, before gain and bias", if_post_norm2},
  {Site::mlp_out, "blocks.L.hook_mlp_out", {kPos, kDModel}, "what the MLP adds to the stream, after a post-norm if there is one", if_mlp},
  {Site::resid_post, "blocks.L.hook_resid_post", {kPos, kDModel}, "residual stream at the output of the block", present},
  {Site::resid_final, "hook_resid_final", {kPos, kDModel}, "the stream as it is read out in a model without blocks", if_no_layers},
  {Site::final_scale, "ln_final.hook_scale", {kPos, kOne}, "divisor of the final norm", if_final_norm},
  {Site::final_normalized, "ln_final.hook_normalized", {kPos, kDModel}, "normalised final stream, before gain and bias", if_final_norm},
  {Site::unembed_in, "unembed.hook_in", {kPos, kDModel}, "what W_U reads: after the final norm with gain and bias", present},
  {Site::unembed_out, "unembed.hook_out", {kPos, kDVocab}, "x W_U + b_U, before the logit scale and soft-cap; without those two, the logits", present},
};
// clang-format on
static_assert(std::size(kSites) == kSiteCount);

constexpr bool table_is_in_enum_order() {
  for (Index i = 0; i < kSiteCount; ++i)
    if (static_cast<Index>(kSites[i].site) != i) return false;
  return true;
}
static_assert(table_is_in_enum_order());

/// `*`: any run of characters but dots; `**`: any run.
bool matches(string_view pattern, string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] != '*') return !text.empty() && text[0] == pattern[0] && matches(pattern.substr(1), text.substr(1));
  const bool any = pattern.starts_with("**");
  const string_view rest = pattern.substr(any ? 2 : 1);
  for (std::size_t n = 0;; ++n) {
    if (matches(rest, text.substr(n))) return true;
    if (n == text.size() || (!any && text[n] == '.')) return false;
  }
}

/// The site whose template `name` is an instance of, and the layer; none if it is no site's.
std::optional<SiteRef> parse(string_view name) {
  Index layer = 0;
  std::string generic(name);
  if (name.starts_with("blocks.")) {
    const std::size_t begin = 7, end = name.find('.', begin);
    if (end == string_view::npos || end == begin || end - begin > 9) return {};
    for (const char c : name.substr(begin, end - begin)) {
      if (c < '0' || c > '9') return {};
      layer = layer * 10 + (c - '0');
    }
    generic = fmt::format("blocks.L{}", name.substr(end));
  }
  for (const SiteInfo& s : kSites)
    if (s.name == generic) return SiteRef{s.site, layer};
  return {};
}

/// TransformerLens's get_act_name: "k6", "resid_post5", "scale4ln1", "scale" -> the full name; others as they are.
std::string expand_shorthand(string_view text) {
  if (text.find_first_of(".*") != string_view::npos || text.starts_with("hook_")) return std::string(text);
  const std::size_t digits = text.find_first_of("0123456789");
  if (digits == string_view::npos) return fmt::format("ln_final.hook_{}", text);  // "scale", "normalized"
  const std::size_t after = std::min(text.find_first_not_of("0123456789", digits), text.size());
  const string_view hook = text.substr(0, digits), layer = text.substr(digits, after - digits);
  const string_view part = text.substr(after);
  for (const string_view module : {part, string_view("attn"), string_view("mlp")}) {
    const std::string dot = module.empty() ? "" : ".";
    std::string name = fmt::format("blocks.{}.{}{}hook_{}", layer, module, dot, hook);
    if (parse(name)) return name;
  }
  return std::string(text);
}

/// Why `name` (with or without stars) names nothing in this model.
[[noreturn]] void fail_unknown(const ModelConfig& config, const std::vector<SiteRef>& sites, string_view pattern,
                               const std::string& name) {
  if (const std::optional<SiteRef> ref = parse(name); ref && ref->layer >= config.n_layers)
    fail(ErrorCode::usage, "site '{}': there is no layer {}, the model has {}", pattern, ref->layer,
         config.n_layers == 0 ? "none" : fmt::format("layers 0 to {}", config.n_layers - 1));
  for (const SiteInfo& s : kSites) {
    if (s.absent(config).empty()) continue;
    for (Index layer = 0; layer < (s.per_layer() ? config.n_layers : 1); ++layer)
      if (matches(name, site_name(s.site, layer))) fail(ErrorCode::usage, "site '{}': {}", pattern, s.absent(config));
  }
  std::vector<std::string> names;
  std::transform(sites.begin(), sites.end(), std::back_inserter(names), [](const SiteRef& s) { return site_name(s); });
  throw Error(ErrorCode::usage, fmt::format("unknown site '{}'", pattern),
              fmt::format("nearest: {}", fmt::join(engine::nearest_names(names, name, 3), ", ")));
}

}  // namespace

std::span<const SiteInfo> all_sites() { return kSites; }

const SiteInfo& info(Site site) { return kSites[static_cast<std::size_t>(site)]; }

std::string_view name(Axis axis) {
  constexpr string_view kNames[] = {"",    "pos",    "query_pos", "key_pos", "head",   "kv_head",
                                    "one", "d_head", "d_model",   "d_mlp",   "d_vocab"};
  return kNames[static_cast<std::size_t>(axis)];
}

std::string site_name(SiteRef ref) {
  const SiteInfo& s = info(ref.site);
  return s.per_layer() ? fmt::format("blocks.{}{}", ref.layer, s.name.substr(8)) : std::string(s.name);
}

std::vector<SiteRef> sites_of(const ModelConfig& config) {
  std::vector<SiteRef> before, block, after, all;
  for (const SiteInfo& s : kSites)
    if (s.absent(config).empty())
      (s.per_layer() ? block : s.site < Site::resid_pre ? before : after).push_back({s.site, 0});
  all = before;
  for (Index layer = 0; layer < config.n_layers; ++layer)
    for (const SiteRef& s : block) all.push_back({s.site, layer});
  all.insert(all.end(), after.begin(), after.end());
  return all;
}

std::vector<SiteRef> find_sites(const ModelConfig& config, std::string_view pattern) {
  const std::string name = expand_shorthand(pattern);
  const std::vector<SiteRef> all = sites_of(config);
  std::vector<SiteRef> found;
  for (const SiteRef& s : all)
    if (matches(name, site_name(s))) found.push_back(s);
  if (found.empty()) fail_unknown(config, all, pattern, name);
  return found;
}

}  // namespace kirchhoff
