// Loading: what is checked, what is mapped, packed weights, memory.
#include "kirchhoff/model/load.h"

#include <limits>  // for quiet_NaN

#include "kirchhoff/io/numpy_file.h"
#include "kirchhoff/model/random_model.h"
#include "model/support.h"

namespace kirchhoff {
namespace {

io::ModelFiles opened(const std::string& folder) { return io::open_model_files(test::golden(folder)); }

Error error_of_loading(const io::ModelFiles& files, const LoadOptions& options = {}) {
  return test::error_of([&] { load_model(files, options); });
}

TEST(Load, WrongShapeNamesFileTensorAndBothShapes) {
  io::ModelFiles files = opened("gpt2");
  test::replace(files, "transformer.h.1.attn.c_proj.weight",
                test::counting("transformer.h.1.attn.c_proj.weight", {32, 31}));
  const Error error = error_of_loading(files);
  EXPECT_EQ(error.code(), ErrorCode::format);
  test::expect_mentions(error, {"transformer.h.1.attn.c_proj.weight", "[32, 31]", "[32, 32]"});
  EXPECT_NE(error.help().find("kirchhoff inspect"), std::string::npos);
}

TEST(Load, TransposedMatrixOfTheRightSizeIsFoundByItsShape) {
  io::ModelFiles files = opened("gpt2");  // nn.Linear [out, in] in a config that promises Conv1D [in, out]
  test::replace(files, "transformer.h.0.mlp.c_fc.weight", test::counting("transformer.h.0.mlp.c_fc.weight", {128, 32}));
  test::expect_mentions(error_of_loading(files), {"c_fc", "[128, 32]", "[32, 128]"});
}

TEST(Load, MissingTensorIsNamed) {
  io::ModelFiles files = opened("llama-gqa");
  std::erase_if(files.checkpoint.tensors,
                [](const io::StoredTensor& t) { return t.name == "model.layers.1.mlp.up_proj.weight"; });
  const Error error = error_of_loading(files);
  EXPECT_EQ(error.code(), ErrorCode::format);
  test::expect_mentions(error, {"llama-gqa", "model.layers.1.mlp.up_proj.weight", "missing", "[72, 32]"});
}

TEST(Load, UnexpectedTensorIsNamed) {
  io::ModelFiles files = opened("llama-gqa");
  files.checkpoint.tensors.push_back(test::counting("model.layers.0.self_attn.q_proj.bias", {32}));
  test::expect_mentions(error_of_loading(files), {"unexpected", "model.layers.0.self_attn.q_proj.bias", "[32]"});
}

TEST(Load, KnownBuffersAreIgnoredAndListed) {
  io::ModelFiles files = opened("llama-gqa");
  files.checkpoint.tensors.push_back(test::counting("model.layers.0.self_attn.rotary_emb.inv_freq", {4}));
  EXPECT_EQ(load_model(files).origin.ignored,
            (std::vector<std::string>{"model.layers.0.self_attn.rotary_emb.inv_freq"}));
}

TEST(Load, MoreLayersInTheFileThanInTheConfig) {
  io::ModelFiles files = opened("llama-gqa");
  files.config["num_hidden_layers"] = 1;
  test::expect_mentions(error_of_loading(files), {"unexpected", "model.layers.1."});
  files.config["num_hidden_layers"] = 4000;  // fails at the first missing layer, not by memory
  test::expect_mentions(error_of_loading(files), {"model.layers.2.", "missing"});
}

TEST(Load, BothPrefixesOfGpt2) {
  io::ModelFiles files = opened("gpt2");
  for (io::StoredTensor& tensor : files.checkpoint.tensors) tensor.name.erase(0, std::string("transformer.").size());
  test::expect_same_weights(load_model(files), load_model(test::golden("gpt2")));
}

TEST(Load, NonFiniteWeightsAreCountedAndNeedAFlag) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto poisoned = [&](const char* name, Index count) {
    io::ModelFiles files = opened("llama-gqa");
    const io::StoredTensor& old = *files.checkpoint.find(name);
    const Tensor values = io::decode(old);
    std::vector<float> copy(values.data(), values.data() + values.size());
    for (Index i = 0; i < count; ++i) copy[static_cast<std::size_t>(i)] = i % 2 == 0 ? nan : -1.0F / 0.0F;
    test::replace(files, name, test::stored(name, old.shape, copy));
    return files;
  };
  for (const auto& [name, count] :
       {std::pair{"model.layers.0.self_attn.v_proj.weight", Index{3}}, {"model.norm.weight", Index{1}}}) {
    const io::ModelFiles files = poisoned(name, count);
    for (WeightsMode mode : {WeightsMode::expanded, WeightsMode::packed}) {
      const Error error = error_of_loading(files, {.weights = mode});
      EXPECT_EQ(error.code(), ErrorCode::numerical);
      test::expect_mentions(error, {name, fmt::format("{} values", count)});
      EXPECT_NO_THROW(load_model(files, {.weights = mode, .allow_nonfinite = true}));
    }
  }
  // A transposed matrix (GPT-2) is scanned on its way too.
  io::ModelFiles gpt2 = opened("gpt2");
  std::vector<float> values(32 * 128, 0.5F);
  values[77] = nan;
  test::replace(gpt2, "transformer.h.1.mlp.c_fc.weight",
                test::stored("transformer.h.1.mlp.c_fc.weight", {32, 128}, values));
  test::expect_mentions(error_of_loading(gpt2), {"transformer.h.1.mlp.c_fc.weight", "1 values"});
}

TEST(Load, ARepeatedHeadMustBeTheEmbeddingThatItIsTiedTo) {
  io::ModelFiles files = opened("llama-llama3-rope");
  io::StoredTensor head = *files.checkpoint.find("model.embed_tokens.weight");
  head.name = "lm_head.weight";
  files.checkpoint.tensors.push_back(head);
  EXPECT_TRUE(load_model(files).tied);
  test::replace(files, "lm_head.weight", test::wavy("lm_head.weight", head.shape, 1.0));
  const Error error = error_of_loading(files);
  EXPECT_EQ(error.code(), ErrorCode::format);
  test::expect_mentions(error, {"lm_head.weight", "model.embed_tokens.weight"});
  files.config["tie_word_embeddings"] = false;
  EXPECT_FALSE(load_model(files).tied);
}

TEST(Load, MapsWhatNeedsNoConversion) {
  const io::ModelFiles files = opened("llama-gqa");
  const Model model = load_model(files);
  EXPECT_EQ(static_cast<const void*>(model.weights.layers[1].W_Q.storage().data),
            static_cast<const void*>(files.checkpoint.find("model.layers.1.self_attn.q_proj.weight")->bytes.data()));
}

TEST(Load, UnalignedFloatsAreCopied) {
  io::ModelFiles files = opened("llama-gqa");
  const std::string name = "model.layers.1.self_attn.q_proj.weight";
  const io::StoredTensor& old = *files.checkpoint.find(name);
  auto shifted = std::make_shared<std::vector<std::byte>>(old.bytes.size() + 1);
  std::memcpy(shifted->data() + 1, old.bytes.data(), old.bytes.size());
  const Model expected = load_model(files);
  test::replace(files, name,
                {name, DType::f32, old.shape, std::span<const std::byte>(shifted->data() + 1, shifted->size() - 1), 0,
                 "memory", shifted});
  test::expect_same_weights(load_model(files), expected);
}

TEST(Load, PrivateCopiesSurviveTheReturnOfPages) {
  // An array that was unpacked from an archive lies in memory of its own and is read three times: for q, k and v. Only
  // pages of a mapped file may be given back in between, whatever offset the tensor carries.
  io::ModelFiles files = opened("gpt2");
  files.config["n_embd"] = 128;
  for (io::StoredTensor& tensor : files.checkpoint.tensors) {
    Shape shape = tensor.shape;
    for (Index& size : shape)
      if (size != 131 && !(tensor.name.ends_with("wpe.weight") && &size == &shape[0])) size *= 4;
    tensor = test::counting(tensor.name, shape);
    tensor.file_offset = 128;
  }
  const Model model = load_model(files);
  const std::vector<float> W_V = test::values_of(model.weights.layers[1].W_V);
  for (const Index d : {0, 77, 127})
    for (const Index m : {0, 64, 127})
      EXPECT_EQ(W_V[static_cast<std::size_t>(d * 128 + m)], static_cast<float>(m * 384 + 256 + d));
}

TEST(Load, WeightsOutliveTheFiles) {
  Model model = [] { return load_model(opened("llama-gqa")); }();
  EXPECT_EQ(test::values_of(model.weights.W_E).size(), 141U * 32U);
}

TEST(Load, ReportsProgressAndCanBeCancelled) {
  Index last = -1, total = 0;
  load_model(opened("gpt2"), {.progress = [&](std::string_view stage, Index done, Index n) {
               EXPECT_EQ(stage, "load weights");
               EXPECT_EQ(done, last + 1);
               last = done;
               total = n;
               return true;
             }});
  EXPECT_EQ(last, total);
  EXPECT_GT(total, 30);
  const auto cancel = [](std::string_view, Index done, Index) { return done < 3; };
  EXPECT_EQ(error_of_loading(opened("gpt2"), {.progress = cancel}).code(), ErrorCode::interrupted);
}

TEST(Load, CountsWeightsOnce) {
  // 131 x 32 embedding (tied), 32 x 32 positions, 2 layers of 4 x 32 x 32 + 2 x 32 x 128 with their vectors, final
  // norm.
  const Index layer = 4 * 32 * 32 + 2 * 32 * 128 + 4 * 32 + 128 + 32 + 4 * 32;
  EXPECT_EQ(load_model(opened("gpt2")).origin.weight_bytes, 4 * (131 * 32 + 32 * 32 + 2 * layer + 64));
}

TEST(Load, DescribesWhatItIsAndWhatWasDone) {
  std::string text;
  for (const std::string& line : describe(load_model(test::golden("gpt2-n-inner")))) text += line + "\n";
  for (const char* fact :
       {"gpt2", "2 layers", "d_model 40", "5 heads", "d_mlp 72", "learned", "tied", "c_attn", "h.0.attn.bias"})
    EXPECT_NE(text.find(fact), std::string::npos) << fact << " in\n" << text;
}

TEST(Load, AvailableMemoryIsSane) {
  EXPECT_GT(available_memory(), Index{1} << 20);
  EXPECT_LT(available_memory(), Index{1} << 50);
}

class PackedEqualsExpanded : public ::testing::TestWithParam<std::string> {};

TEST_P(PackedEqualsExpanded, InEveryBit) {
  const io::ModelFiles files = opened(GetParam());
  const Model expanded = load_model(files, {.weights = WeightsMode::expanded});
  const Model packed = load_model(files, {.weights = WeightsMode::packed});
  EXPECT_FALSE(expanded.origin.packed);
  EXPECT_TRUE(packed.origin.packed);
  test::expect_same_weights(expanded, packed);
  // Any range of rows, not only all.
  const WeightMatrix& q = packed.weights.layers[0].W_Q;
  std::vector<float> some(static_cast<std::size_t>(3 * q.d_in()));
  q.rows(5, 8, some.data());
  const std::vector<float> all = test::values_of(q);
  EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + 5 * q.d_in()));
}

INSTANTIATE_TEST_SUITE_P(Folder, PackedEqualsExpanded,
                         ::testing::Values("gpt2", "gpt2-n-inner", "gpt_neox-parallel", "bloom", "falcon-rotary",
                                           "phi3", "tl-ln-mlp"),
                         [](const auto& folder) {
                           std::string name = folder.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Packed, Gpt2HoldsNoFloats) {
  const Model packed = load_model(opened("gpt2"), {.weights = WeightsMode::packed});
  EXPECT_TRUE(packed.weights.layers[0].W_Q.packed());
  EXPECT_EQ(packed.weights.layers[0].W_Q.bytes(), 32 * 32 * 4);  // its third of c_attn
  EXPECT_FALSE(packed.weights.W_E.packed());                     // mapped as it lies
  EXPECT_EQ(test::error_of([&] { (void)packed.weights.layers[0].W_Q.storage(); }).code(), ErrorCode::internal);
}

}  // namespace
}  // namespace kirchhoff
