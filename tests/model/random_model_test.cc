#include "kirchhoff/model/random_model.h"

#include <cmath>  // for sqrt
#include <set>    // for set

#include "kirchhoff/base/parallel.h"
#include "model/support.h"

namespace kirchhoff {
namespace {

TEST(RandomModel, EveryCapabilityGivesACompleteModel) {
  std::set<std::string> names;
  for (const NamedShape& shape : capability_shapes()) {
    EXPECT_TRUE(names.insert(shape.name).second) << shape.name;
    const Model model = random_model(shape.config, 1);
    EXPECT_EQ(static_cast<Index>(model.weights.layers.size()), shape.config.n_layers);
    EXPECT_EQ(model.weights.layers[0].ln2.w.present(), !shape.config.attn_only && shape.config.pre_norm &&
                                                           !shape.config.shared_norm &&
                                                           shape.config.norm != NormKind::none)
        << shape.name;
    EXPECT_EQ(model.weights.layers[0].W_gate.present(), shape.config.gated_mlp && !shape.config.attn_only);
  }
  EXPECT_GE(names.size(), 20U);
}

TEST(RandomModel, SameSeedSameModelWhateverTheThreads) {
  const ModelConfig config = capability_shapes().front().config;
  const Model a = random_model(config, 5);
  const Index before = thread_count();
  set_thread_count(1);
  const Model b = random_model(config, 5);
  set_thread_count(before);
  test::expect_same_weights(a, b);
  EXPECT_NE(test::values_of(random_model(config, 6).weights.W_E), test::values_of(a.weights.W_E));
}

TEST(RandomModel, VarianceIsOneOverFanIn) {
  const Model model = random_model(shape_of("pythia-70m"), 2);
  const std::vector<float> values = test::values_of(model.weights.layers[3].W_out);
  double sum = 0.0, squares = 0.0;
  for (const float v : values) {
    sum += static_cast<double>(v);
    squares += static_cast<double>(v) * static_cast<double>(v);
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0.0, 1e-4);
  EXPECT_NEAR(squares / n * 2048.0, 1.0, 1e-2);
}

TEST(RandomModel, Options) {
  const ModelConfig config = capability_shapes().front().config;
  const Model bare = random_model(config, 1, {.biases = false, .tied = true});
  EXPECT_FALSE(bare.weights.layers[0].b_Q.present());
  EXPECT_FALSE(bare.weights.ln_final.b.present());
  EXPECT_EQ(bare.weights.W_U.storage().data, bare.weights.W_E.storage().data);
}

TEST(Shapes, NamesAndSizes) {
  const ModelConfig c = shape_of("gpt2-small");
  EXPECT_EQ(c.n_layers, 12);
  EXPECT_EQ(c.d_model, 768);
  EXPECT_EQ(c.d_vocab, 50257);
  for (const std::string& name : shape_names()) EXPECT_NO_THROW(shape_of(name).validate()) << name;
  test::expect_mentions(test::error_of([] { shape_of("gpt5"); }), {"gpt5", "gpt2-small"});
}

}  // namespace
}  // namespace kirchhoff
