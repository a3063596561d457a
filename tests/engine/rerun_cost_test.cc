// What rerun() computes, leaves out and refuses.
#include "engine/rerun_support.h"

namespace kirchhoff {
namespace {

using test::kLength;
using test::rerun_logits;

/// GPT-2's kind of model, a run of one prompt.
class Reruns : public ::testing::Test {
 protected:
  Reruns()
      : model_(random_model(capability_shapes().front().config, 7)),
        tokens_(test::random_tokens(kLength, model_.config.d_vocab, 8)),
        base_(model_, {&tokens_, 1}) {}

  static Interventions zero(Site site, Index layer, Index position) {
    Interventions variant;
    variant.sites.push_back({.site = site_name(site, layer), .where = {.positions = {position}}});
    return variant;
  }
  RerunCost cost_of(const Interventions& variant, const RerunOptions& options = {.vanish = 0.0}) const {
    return rerun(model_, base_, each_of({&variant, 1}), options, [](const Variant&) {});
  }

  const Model model_;
  const Tokens tokens_;
  const RerunBase base_;
};

/// 2 m k n for each product by hand: z of one position of the last layer but one is changed.
TEST_F(Reruns, ComputeOnlyWhatCanDiffer) {
  const ModelConfig& c = model_.config;
  const Index position = 4, later = kLength - position, last = c.n_layers - 1;
  const auto width = c.n_heads * c.d_head;
  const Index mlp = 2 * c.d_model * c.d_mlp, logits = c.d_model * 3;
  // The MLP of that position; in the last layer keys and values of it alone, and everything at the last position, whose
  // stream has not changed before: 9 keys, no queries but at a changed position.
  const Index at_z = width * c.d_model + mlp + c.d_model * 2 * c.n_kv_heads * c.d_head + 2 * kLength * width +
                     width * c.d_model + mlp + logits;
  const RerunOptions options{.columns = {1, 2, 3}, .vanish = 0.0};
  EXPECT_EQ(cost_of(zero(Site::z, last - 1, position), options).flops, 2.0 * static_cast<double>(at_z));

  // The stream that enters the last layer but one: keys, values and queries of one position, then attention from it on.
  Index seen = 0;
  for (Index p = position; p < kLength; ++p) seen += p + 1;
  const Index qkv = c.d_model * (width + 2 * c.n_kv_heads * c.d_head);
  const Index at_stream = qkv + 2 * seen * width + later * (width * c.d_model + mlp) +
                          later * c.d_model * 2 * c.n_kv_heads * c.d_head + c.d_model * width + 2 * kLength * width +
                          width * c.d_model + mlp + logits;
  EXPECT_EQ(cost_of(zero(Site::resid_pre, last - 1, position), options).flops, 2.0 * static_cast<double>(at_stream));

  // What cannot reach the last position costs nothing.
  EXPECT_EQ(cost_of(zero(Site::z, last, position)).flops, 0.0);
  EXPECT_EQ(cost_of(zero(Site::resid_post, last, position)).flops, 0.0);
}

TEST_F(Reruns, UnchangedPositionsVanish) {
  Interventions none = zero(Site::z, 0, 2);
  none.sites[0].edit = Edit::scale;  // by 1
  std::vector<double> logits;
  RerunCost cost;
  logits = rerun_logits(model_, base_, {&none, 1}, {.vanish = 1e-5}, &cost);
  EXPECT_GE(cost.dropped_rows, 1);
  EXPECT_LT(cost.flops, cost_of(none).flops / 2);
  const View<const float, 2> want = base_.trace().logits_of(0);
  EXPECT_LE(test::relative_error(logits, want.row(kLength - 1)), 1e-6);
  // What the stream is, before anything is computed from it.
  Interventions same = zero(Site::resid_pre, 1, 2);
  same.sites[0].edit = Edit::scale;
  EXPECT_EQ(cost_of(same, {.vanish = 1e-5}).flops, 0.0);
  // A change that is there does not.
  EXPECT_EQ(cost_of(zero(Site::z, 0, 2), {.vanish = 1e-5}).dropped_rows, 0);
}

TEST_F(Reruns, RefuseWhatTheyCannotDo) {
  const Interventions variant = zero(Site::z, 0, 2);
  const auto code_of = [&](const Interventions& v, const RerunOptions& options) {
    try {
      cost_of(v, options);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::internal;
  };
  EXPECT_EQ(code_of(variant, {.memory = 1000}), ErrorCode::out_of_memory);
  EXPECT_EQ(code_of(variant, {.positions = {kLength}}), ErrorCode::usage);
  EXPECT_EQ(code_of(variant, {.positions = {-1, 2}}), ErrorCode::usage);
  EXPECT_EQ(code_of(variant, {.columns = {model_.config.d_vocab_out}}), ErrorCode::usage);
  EXPECT_EQ(code_of(zero(Site::z, 0, kLength), {}), ErrorCode::usage);
  EXPECT_EQ(code_of(variant, {.progress = [](std::string_view, Index, Index) { return false; }}),
            ErrorCode::interrupted);
}

}  // namespace
}  // namespace kirchhoff
