// Models that none of us made, with the values that their authors state (data/README.md beside the repository).
#include <gtest/gtest.h>

#include <algorithm>   // for find
#include <cstdlib>     // for getenv
#include <filesystem>  // for exists
#include <fstream>     // for ifstream
#include <iterator>    // for istreambuf_iterator

#include "engine/support.h"
#include "kirchhoff/engine/generate.h"
#include "kirchhoff/engine/loss.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/io/model_files.h"
#include "kirchhoff/model/load.h"
#include "kirchhoff/model/tokenizer.h"

namespace kirchhoff {
namespace {

using Json = nlohmann::ordered_json;
using test::relative_error;

class SharedData : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* shared = std::getenv("KIRCHHOFF_SHARED");
    folder_ = std::string(shared != nullptr ? shared : KIRCHHOFF_SOURCE_DIR "/../shared") + "/data/";
    if (!std::filesystem::exists(folder_)) GTEST_SKIP() << "'" << folder_ << "' is not there";
  }
  std::string path(const std::string& name) const { return folder_ + name; }

  std::string folder_;
};

// Every activation of block 0, the block outputs, the final norm and the logits for three inputs.
TEST_F(SharedData, NanoSortPartials) {
  const Model model = load_model(path("nano-sort/gpt-nano-sort-model.json"));
  const io::Checkpoint partials = io::open_model_files(path("nano-sort/gpt-nano-sort-t0-partials.json")).checkpoint;
  const auto want = [&](const char* name) {
    const io::StoredTensor* stored = partials.find(name);
    EXPECT_NE(stored, nullptr) << name;
    return stored == nullptr ? Tensor() : io::decode(*stored);
  };
  const Tensor idx = want("idx");
  std::vector<Tokens> batch(3);
  for (Index i = 0; i < idx.size(); ++i)
    batch[static_cast<std::size_t>(i / 11)].push_back(static_cast<TokenId>(idx[i]));
  const Trace trace = run(model, batch, {.capture = {"**"}});

  const std::pair<const char*, const char*> same_layout[] = {
      {"tok_emb", "hook_embed"},
      {"x", "blocks.0.hook_resid_pre"},
      {"y", "blocks.0.attn.hook_z"},
      {"yProj", "blocks.0.hook_attn_out"},
      {"attnResid", "blocks.0.hook_resid_mid"},
      {"fc", "blocks.0.mlp.hook_pre"},
      {"gelu", "blocks.0.mlp.hook_post"},
      {"mlp", "blocks.0.hook_mlp_out"},
      {"mlpResid", "blocks.0.hook_resid_post"},
      {"block0", "blocks.0.hook_resid_post"},
      {"block1", "blocks.1.hook_resid_post"},
      {"block2", "blocks.2.hook_resid_post"},
      {"attSm", "blocks.0.attn.hook_pattern"},
      {"ln_f", "unembed.hook_in"},
  };
  for (const auto& [name, site] : same_layout)
    EXPECT_LE(relative_error(trace.at(site).values(), want(name).values()), 2e-6) << name;
  EXPECT_LE(relative_error(trace.logits.values(), want("lm_head").values()), 2e-6);

  // theirs: [batch, head, pos, d_head]
  const std::pair<const char*, const char*> head_first[] = {
      {"q", "blocks.0.attn.hook_q"}, {"k", "blocks.0.attn.hook_k"}, {"v", "blocks.0.attn.hook_v"}};
  for (const auto& [name, site] : head_first) {
    const Tensor theirs = want(name);
    const auto view = theirs.view<4>();
    std::vector<float> ours_order;
    for (Index b = 0; b < 3; ++b)
      for (Index t = 0; t < 11; ++t)
        for (Index h = 0; h < 3; ++h)
          for (Index i = 0; i < 16; ++i) ours_order.push_back(view(b, h, t, i));
    EXPECT_LE(relative_error(trace.at(site).values(), ours_order), 2e-6) << name;
  }
}

// karpathy/llama2.c, test_all.py: 200 greedy tokens.
TEST_F(SharedData, Stories260KByteForByte) {
  const std::string file = path("stories260K/stories260K.bin");
  const Model model = load_model(file);
  const Json derived = io::read_json_file(path("stories260K/derived_greedy.json"));
  const auto ids = derived["greedy_token_ids"].get<Tokens>();
  const Tokens prompt{derived["bos"].get<TokenId>()};
  ASSERT_EQ(ids.size(), 201U);
  ASSERT_EQ(ids[0], prompt[0]);
  const Generation generated = generate(model, prompt, {.max_new_tokens = 200});
  EXPECT_EQ(generated.tokens, Tokens(ids.begin() + 1, ids.end()));

  std::ifstream stream(path("stories260K/expected_stdout_t0_n200.txt"), std::ios::binary);
  std::string expected((std::istreambuf_iterator<char>(stream)), {});
  while (!expected.empty() && expected.back() == '\n') expected.pop_back();  // the program ends its line
  const auto tokenizer = make_tokenizer(io::open_model_files(file));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->decode_bytes(generated.tokens), expected);
}

TEST_F(SharedData, TracrPrograms) {
  for (const char* program : {"tracr_reverse_len5", "tracr_acdc_proportion", "tracr_frac_prevs_1"}) {
    const Model model = load_model(path(std::string("tracr/") + program + ".safetensors"));
    EXPECT_FALSE(model.config.causal);
    const Json facts = io::read_json_file(path(std::string("tracr/") + program + ".json"));
    const Trace trace = run(model, facts["token_ids_with_bos"].get<Tokens>());
    std::vector<double> want;
    for (const Json& row : facts["logits_f32"])
      for (const Json& value : row) want.push_back(value.get<double>());
    EXPECT_LE(relative_error(trace.logits.values(), want), 2e-6) << program;  // written with six digits
  }
}

TEST_F(SharedData, AlgZooLogits) {
  const Model model = load_model(path("algzoo/transformer_longest_cycle_h4_n4.safetensors"));
  const Json reference = io::read_json_file(path("algzoo/ref_longest_cycle_h4_n4.json"));
  ASSERT_EQ(reference["input"].size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    const Trace trace = run(model, reference["input"][i].get<Tokens>(), {.logits = LogitPositions::last});
    EXPECT_LE(relative_error(trace.logits.values(), reference["output"][i].get<std::vector<double>>()), 1e-5) << i;
  }
}

// On 16 different tokens, repeated: next-token accuracy about 0.00, 0.22, 0.88 in the first three periods; head 0.2
// attends to the previous token (.27 to .29), heads 1.1 to 1.3 to the tokens that followed the earlier occurrences of
// the present one (.44 to .45 from the second period on).
TEST_F(SharedData, InductionHeads) {
  const Model model = load_model(path("induction/induction_head_infinite.pth"));
  constexpr Index kPeriod = 16, kTexts = 100, kTextLength = 80;
  Random random(1);
  double accuracy[3] = {}, previous[8] = {}, induction[8] = {};
  for (Index text = 0; text < kTexts; ++text) {
    Tokens tokens;
    while (tokens.size() < kPeriod) {
      const auto id = static_cast<TokenId>(random.below(model.config.d_vocab));
      if (std::find(tokens.begin(), tokens.end(), id) == tokens.end()) tokens.push_back(id);
    }
    while (tokens.size() < kTextLength) tokens.push_back(tokens[tokens.size() - kPeriod]);
    const Trace trace = run(model, tokens, {.capture = {"blocks.*.attn.hook_pattern"}});
    for (Index t = 1; t < 3 * kPeriod; ++t) {
      const bool right = top_tokens(trace.logits_of(0).row(t - 1), 1)[0].id == tokens[static_cast<std::size_t>(t)];
      const Index predictions = kTexts * (t < kPeriod ? kPeriod - 1 : kPeriod);
      accuracy[t / kPeriod] += right ? 1.0 / static_cast<double>(predictions) : 0.0;
    }
    for (Index head = 0; head < 8; ++head) {
      const auto pattern = trace.at(site_name(Site::pattern, head / 4)).view<4>().at(0).at(head % 4);
      for (Index t = 1; t < kTextLength; ++t)
        previous[head] += static_cast<double>(pattern(t, t - 1)) / static_cast<double>(kTexts * (kTextLength - 1));
      for (Index t = kPeriod; t < kTextLength; ++t)
        for (Index s = t - kPeriod + 1; s >= 0; s -= kPeriod)
          induction[head] += static_cast<double>(pattern(t, s)) / static_cast<double>(kTexts * (kTextLength - kPeriod));
    }
  }
  EXPECT_NEAR(accuracy[0], 0.00, 0.01);
  EXPECT_NEAR(accuracy[1], 0.22, 0.03);
  EXPECT_NEAR(accuracy[2], 0.88, 0.03);
  for (Index head = 0; head < 8; ++head) {
    const bool is_previous = head == 2, is_induction = head >= 5;
    EXPECT_NEAR(previous[head], is_previous ? 0.28 : 0.05, is_previous ? 0.01 : 0.03) << head;
    EXPECT_NEAR(induction[head], is_induction ? 0.445 : 0.06, is_induction ? 0.01 : 0.03) << head;
  }
}

}  // namespace
}  // namespace kirchhoff
