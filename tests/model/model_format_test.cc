// What ModelFormat writes is what others wrote: the files of tests/data/golden, tensor by tensor.
#include "kirchhoff/model/model_format.h"

#include <unistd.h>

#include <algorithm>

#include "kirchhoff/io/safetensors.h"
#include "model/slots.h"
#include "model/support.h"

namespace kirchhoff {
namespace {

struct Folder {
  explicit Folder(const std::string& name)
      : path((std::filesystem::temp_directory_path() / fmt::format("kirchhoff-{}-{}", name, ::getpid())).string()) {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

/// The weights of a model in the order of a format.
std::vector<std::vector<float>> values_in_order(const ModelFormat& format, Model& model) {
  std::vector<std::vector<float>> all;
  for (const WeightShape& shape : format.weights()) {
    const Slot slot = find_slot(shape.slot, format.config().qk_norm);
    const Index layer = std::max<Index>(0, shape.layer);
    std::vector<float>& values = all.emplace_back();
    if (slot.matrix == nullptr) {
      values = slot.vector(model.weights, layer)->f32();
    } else {
      const WeightMatrix& matrix = *slot.matrix(model.weights, layer);
      values.resize(static_cast<std::size_t>(shape.size()));
      EXPECT_EQ(matrix.d_out() * matrix.d_in(), shape.size()) << shape.name;
      matrix.rows(0, matrix.d_out(), values.data());
    }
    EXPECT_EQ(static_cast<Index>(values.size()), shape.size()) << shape.name;
  }
  return all;
}

void write(const ModelFormat& format, const std::vector<std::vector<float>>& values, const std::string& directory,
           DType dtype = DType::f32) {
  const std::vector<std::span<const float>> spans(values.begin(), values.end());
  format.write(directory, spans, dtype);
}

class GoldenFolders : public testing::TestWithParam<const char*> {};

/// Fused, interleaved and transposed tensors included; those that a loader ignores (masks) are not written.
TEST_P(GoldenFolders, AreWrittenAsTheyAre) {
  const std::string golden = test::golden(GetParam());
  Model model = load_model(golden);
  const ModelFormat format(io::read_json_file(golden + "/config.json"), golden + "/config.json");
  const Folder folder("format");
  write(format, values_in_order(format, model), folder.path);
  const io::SafetensorsFile written = io::read_safetensors(folder.path + "/model.safetensors");
  const io::SafetensorsFile original = io::read_safetensors(golden + "/model.safetensors");
  std::size_t found = 0;
  for (const io::StoredTensor& tensor : original.checkpoint.tensors) {
    const io::StoredTensor* ours = written.checkpoint.find(tensor.name);
    if (ours == nullptr) continue;  // counted below
    ++found;
    EXPECT_EQ(ours->shape, tensor.shape) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(ours->bytes, tensor.bytes)) << tensor.name;
  }
  EXPECT_EQ(found, written.checkpoint.tensors.size()) << "a tensor is written that the original lacks";
  EXPECT_EQ(original.checkpoint.tensors.size() - found, model.origin.ignored.size());
  test::expect_same_weights(load_model(folder.path), model);
}
INSTANTIATE_TEST_SUITE_P(Families, GoldenFolders,
                         testing::Values("gpt2", "gpt_neox-parallel", "gptj", "llama-gqa", "llama-linear-rope-bias",
                                         "qwen2", "qwen3", "phi3", "bloom", "falcon-rotary", "mpt", "stablelm", "olmo2",
                                         "starcoder2"),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(ModelFormat, ATiedHeadIsWrittenOnce) {
  const std::string golden = test::golden("gpt2");
  const ModelFormat format(io::read_json_file(golden + "/config.json"), golden);
  ASSERT_TRUE(format.tied());
  for (const WeightShape& shape : format.weights()) EXPECT_NE(shape.name, "W_U");
  EXPECT_EQ(format.weights().front().name, "W_E");
}

/// Binding is what training does: a matrix changes with its values, a vector when it is bound again.
TEST(ModelFormat, BoundMatricesFollowTheirValuesAndVectorsDoNot) {
  const ModelFormat format({{"n_layers", 1},
                            {"d_model", 2},
                            {"n_heads", 1},
                            {"d_head", 2},
                            {"n_ctx", 4},
                            {"d_vocab", 3},
                            {"attn_only", true},
                            {"normalization_type", "LN"}},
                           "test");
  Model model = format.model();
  std::vector<std::vector<float>> values;
  const auto owner = std::make_shared<int>();
  for (const WeightShape& shape : format.weights()) values.emplace_back(static_cast<std::size_t>(shape.size()), 1.0F);
  for (std::size_t i = 0; i < values.size(); ++i) format.bind(model, i, values[i].data(), owner);
  const auto index = [&](std::string_view name) {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (format.weights()[i].name == name) return i;
    ADD_FAILURE() << name;
    return std::size_t{0};
  };
  values[index("blocks.0.W_Q")][1] = 5.0F;
  values[index("ln_final.w")][1] = 5.0F;
  EXPECT_EQ(model.weights.layers[0].W_Q.storage()(0, 1), 5.0F);
  EXPECT_EQ(model.weights.ln_final.w.f32()[1], 1.0F);
  format.bind(model, index("ln_final.w"), values[index("ln_final.w")].data(), owner);
  EXPECT_EQ(model.weights.ln_final.w.f32()[1], 5.0F);
}

TEST(ModelFormat, RefusesWhatCannotBeWritten) {
  const std::string golden = test::golden("gpt2");
  Model model = load_model(golden);
  const ModelFormat format(io::read_json_file(golden + "/config.json"), golden);
  std::vector<std::vector<float>> values = values_in_order(format, model);
  const Folder folder("refuses");
  EXPECT_EQ(test::error_of([&] { write(format, values, folder.path, DType::i64); }).code(), ErrorCode::usage);
  EXPECT_EQ(test::error_of([&] { write(format, values, folder.path + "/absent"); }).code(), ErrorCode::io);
  values[0][0] = 1e6F;
  const Error error = test::error_of([&] { write(format, values, folder.path, DType::f16); });
  EXPECT_EQ(error.code(), ErrorCode::numerical);
  test::expect_mentions(error, {"wte.weight"});
  EXPECT_FALSE(std::filesystem::exists(folder.path + "/model.safetensors"));
}

}  // namespace
}  // namespace kirchhoff
