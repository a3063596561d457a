// ModelConfig::validate, and every hostile config.json by its manifest.
#include "kirchhoff/model/config.h"

#include "kirchhoff/model/random_model.h"
#include "model/support.h"

namespace kirchhoff {
namespace {

using Change = void (*)(ModelConfig&);

class BadConfig : public ::testing::TestWithParam<std::pair<const char*, Change>> {};

TEST_P(BadConfig, IsRefusedByName) {
  ModelConfig c = shape_of("smollm2-135m");
  c.validate();
  GetParam().second(c);
  const Error error = test::error_of([&] { c.validate(); });
  EXPECT_EQ(error.code(), ErrorCode::format);
  test::expect_mentions(error, {GetParam().first});
}

INSTANTIATE_TEST_SUITE_P(
    Field, BadConfig,
    ::testing::Values(
        std::pair{"n_layers", Change([](ModelConfig& c) { c.n_layers = 0; })},
        std::pair{"d_model", Change([](ModelConfig& c) { c.d_model = Index{1} << 32; })},
        std::pair{"n_kv_heads", Change([](ModelConfig& c) { c.n_kv_heads = 2; })},
        std::pair{"n_heads d_head",
                  Change([](ModelConfig& c) { c.d_head = c.n_heads = c.n_kv_heads = Index{1} << 20; })},
        std::pair{"d_mlp", Change([](ModelConfig& c) { c.d_mlp = -1; })},
        std::pair{"d_vocab", Change([](ModelConfig& c) { c.d_vocab = 0; })},
        std::pair{"rotary_dim", Change([](ModelConfig& c) { c.rotary_dim = 66; })},
        std::pair{"rotary_dim", Change([](ModelConfig& c) { c.rotary_dim = 7; })},
        std::pair{"rotary_table_of_layer", Change([](ModelConfig& c) { c.rotary_table_of_layer[3] = 1; })},
        std::pair{"rotary_table_of_layer", Change([](ModelConfig& c) { c.rotary_table_of_layer.pop_back(); })},
        std::pair{"inv_freq", Change([](ModelConfig& c) { c.rotary_tables[0].inv_freq.pop_back(); })},
        std::pair{"inv_freq", Change([](ModelConfig& c) { c.rotary_tables[0].inv_freq[0] = -1.0; })},
        std::pair{"norm_eps", Change([](ModelConfig& c) { c.norm_eps = 0.0; })},
        std::pair{"embed_scale", Change([](ModelConfig& c) { c.embed_scale = 1.0 / 0.0; })},
        std::pair{"attn_scale_of_layer", Change([](ModelConfig& c) { c.attn_scale_of_layer.clear(); })},
        std::pair{"window_of_layer", Change([](ModelConfig& c) { c.window_of_layer[0] = -4; })},
        std::pair{"logit_softcap", Change([](ModelConfig& c) { c.logit_softcap = -1.0; })},
        std::pair{"shared_norm", Change([](ModelConfig& c) { c.shared_norm = true; })},
        std::pair{"alibi_slopes", Change([](ModelConfig& c) { c.positions = Positions::alibi; })},
        std::pair{"n_ctx", Change([](ModelConfig& c) {
                    c.positions = Positions::learned;
                    c.n_ctx = 0;
                  })}));

TEST(HostileConfig, EveryFileAsTheManifestSays) {
  const auto manifest = io::read_json_file(test::test_data("hostile/manifest.json"));
  int seen = 0;
  for (const auto& entry : manifest["files"]) {
    const std::string file = entry["file"].get<std::string>();
    if (!file.starts_with("config/")) continue;
    ++seen;
    SCOPED_TRACE(file);
    const std::string path = test::test_data("hostile/" + file);
    const auto read = [&] { return read_config(io::read_json_file(path), path); };
    if (entry["expect"] == "ok") {
      EXPECT_NO_THROW(read());
      continue;
    }
    const Error error = test::error_of(read);
    EXPECT_TRUE(error.code() == ErrorCode::format || error.code() == ErrorCode::unsupported) << error.what();
    test::expect_mentions(error, {file});
    test::expect_mentions(error, entry["names"].get<std::vector<std::string>>());
  }
  EXPECT_EQ(seen, 19);
}

}  // namespace
}  // namespace kirchhoff
