#include "kirchhoff/engine/sites.h"

#include <gtest/gtest.h>

#include "kirchhoff/base/error.h"
#include "kirchhoff/model/random_model.h"

namespace kirchhoff {
namespace {

ModelConfig gpt2() { return shape_of("gpt2-small"); }

std::vector<std::string> names(const ModelConfig& config, std::string_view pattern) {
  std::vector<std::string> result;
  for (const SiteRef& s : find_sites(config, pattern)) result.push_back(site_name(s));
  return result;
}

std::string error(const ModelConfig& config, std::string_view pattern) {
  try {
    find_sites(config, pattern);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::usage);
    return std::string(e.what()) + (e.help().empty() ? "" : " | " + e.help());
  }
  return "no error";
}

using NameList = std::vector<std::string>;

TEST(Sites, ExactNames) {
  EXPECT_EQ(names(gpt2(), "blocks.3.attn.hook_pattern"), NameList{"blocks.3.attn.hook_pattern"});
  EXPECT_EQ(names(gpt2(), "hook_pos_embed"), NameList{"hook_pos_embed"});
  EXPECT_EQ(names(gpt2(), "blocks.11.ln2.hook_scale"), NameList{"blocks.11.ln2.hook_scale"});
}

TEST(Sites, EveryNameOfAModelFindsItself) {
  for (const NamedShape& shape : capability_shapes())
    for (const SiteRef& s : sites_of(shape.config))
      EXPECT_EQ(names(shape.config, site_name(s)), NameList{site_name(s)});
}

TEST(Sites, StarStaysBetweenDots) {
  EXPECT_EQ(names(gpt2(), "blocks.*.hook_resid_post").size(), 12U);
  EXPECT_EQ(names(gpt2(), "blocks.1*.hook_resid_post").size(), 3U);  // 1, 10, 11
  EXPECT_EQ(names(gpt2(), "hook_*"), (NameList{"hook_embed", "hook_pos_embed"}));
  EXPECT_EQ(names(gpt2(), "blocks.0.ln*.hook_scale"), (NameList{"blocks.0.ln1.hook_scale", "blocks.0.ln2.hook_scale"}));
}

TEST(Sites, DoubleStarCrossesDots) {
  EXPECT_EQ(names(gpt2(), "**").size(), sites_of(gpt2()).size());
  EXPECT_EQ(names(gpt2(), "blocks.0.**").size(), sites_of(gpt2()).size() / 12);  // the others are 7 in all
}

// transformer_lens.utilities.get_act_name
TEST(Sites, Shorthands) {
  const std::pair<const char*, const char*> cases[] = {
      {"k6", "blocks.6.attn.hook_k"},
      {"pre5", "blocks.5.mlp.hook_pre"},
      {"scale4ln1", "blocks.4.ln1.hook_scale"},
      {"normalized2ln2", "blocks.2.ln2.hook_normalized"},
      {"resid_post5", "blocks.5.hook_resid_post"},
      {"attn_scores0", "blocks.0.attn.hook_attn_scores"},
      {"attn_out10", "blocks.10.hook_attn_out"},
      {"scale", "ln_final.hook_scale"},
  };
  for (const auto& [shorthand, full] : cases) EXPECT_EQ(names(gpt2(), shorthand), NameList{full}) << shorthand;
}

TEST(Sites, AbsentSitesSayWhy) {
  ModelConfig parallel = gpt2();
  parallel.parallel = true;
  EXPECT_EQ(error(parallel, "blocks.0.hook_resid_mid"),
            "site 'blocks.0.hook_resid_mid': parallel blocks have no resid_mid: attention and MLP both read resid_pre");
  EXPECT_EQ(error(parallel, "resid_mid3"),
            "site 'resid_mid3': parallel blocks have no resid_mid: attention and MLP both read resid_pre");
  EXPECT_EQ(error(parallel, "blocks.*.attn.hook_rot_q"),
            "site 'blocks.*.attn.hook_rot_q': the model has no rotary positions");
}

TEST(Sites, LayersOutOfRangeAndTyposAreErrors) {
  EXPECT_EQ(error(gpt2(), "blocks.12.hook_resid_pre"),
            "site 'blocks.12.hook_resid_pre': there is no layer 12, the model has layers 0 to 11");
  EXPECT_EQ(error(gpt2(), "blocks.3.attn.hook_patern"),
            "unknown site 'blocks.3.attn.hook_patern' | nearest: blocks.3.attn.hook_pattern, "
            "blocks.0.attn.hook_pattern, blocks.1.attn.hook_pattern");
  EXPECT_NE(error(gpt2(), ""), "no error");
  EXPECT_NE(error(gpt2(), "blocks.-1.hook_resid_pre"), "no error");
  EXPECT_NE(error(gpt2(), "blocks.99999999999999999999.hook_resid_pre"), "no error");
}

}  // namespace
}  // namespace kirchhoff
