#include "kirchhoff/io/inspect.h"

#include <gtest/gtest.h>

#include <cmath>   // for isnan
#include <limits>  // for numeric_limits

#include "io_test_support.h"
#include "kirchhoff/io/tensor_writer.h"

namespace kirchhoff::io {
namespace {

TEST(Inspect, TensorsWithWhereTheyLie) {
  const std::string path = test_data("hostile/gguf/alignment_64_ok.gguf");
  const Inspection file = inspect(path);
  EXPECT_EQ(file.format, "gguf");
  EXPECT_EQ(file.file_size, 320u);
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.tensors[1].name, "b");
  EXPECT_EQ(file.tensors[1].shape, (Shape{2, 8}));
  EXPECT_EQ(file.tensors[1].bytes, 64);
  EXPECT_EQ(file.tensors[1].file_offset, 256u);
  EXPECT_EQ(file.keys["general.alignment"], 64);
  EXPECT_FALSE(file.tensors[1].stats.has_value());
}

TEST(Inspect, Formats) {
  const std::vector<std::pair<const char*, const char*>> formats{
      {"hostile/safetensors/ok.safetensors", "safetensors"},
      {"hostile/torch/nested_checkpoint.pt", "torch"},
      {"hostile/numpy/ok.npz", "npz"},
      {"golden-gguf/f32.a.npy", "npy"},
      {"hostile/tokenizer/ok.tokenizer.json", "tokenizer"},
      {"hostile/config/llama_ok.json", "config"},
      {"golden/gpt2-inverse-layer-scale/model.safetensors.index.json", "index"},
  };
  for (const auto& [name, format] : formats) EXPECT_EQ(inspect(test_data(name)).format, format) << name;
  EXPECT_EQ(inspect(test_data("hostile/torch/nested_checkpoint.pt")).keys["epoch"], 3);
  EXPECT_EQ(inspect(test_data("hostile/config/llama_ok.json")).keys["model_type"], "llama");
  const Inspection tokenizer = inspect(test_data("hostile/tokenizer/ok.tokenizer.json"));
  EXPECT_EQ(tokenizer.keys["model.type"], "BPE");
  EXPECT_EQ(tokenizer.keys["model.vocab"]["entries"], 5);
}

TEST(Inspect, StatisticsLeaveOutWhatIsNotFinite) {
  const TemporaryDirectory directory;
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  Tensor mixed({6}), none({2});
  const std::array<float, 6> values{1, kNan, -3, kInfinity, -kInfinity, 4};
  std::copy(values.begin(), values.end(), mixed.data());
  none[0] = none[1] = kNan;
  const std::vector<StoredTensor> tensors{borrowed("mixed", mixed), borrowed("none", none)};
  write_safetensors(directory.path("a"), tensors);
  const Inspection file = inspect(directory.path("a"), {.stats = true, .progress = {}});
  const TensorStats& stats = *file.tensors[0].stats;
  EXPECT_EQ(stats.min, -3);
  EXPECT_EQ(stats.max, 4);
  EXPECT_DOUBLE_EQ(stats.mean, 2.0 / 3);
  EXPECT_EQ(stats.nans, 1);
  EXPECT_EQ(stats.infinities, 2);
  EXPECT_TRUE(std::isnan(file.tensors[1].stats->min));
  EXPECT_EQ(file.tensors[1].stats->nans, 2);
}

TEST(Inspect, CancelledByTheCaller) {
  const InspectOptions options{.stats = true, .progress = [](std::string_view, Index, Index) { return false; }};
  EXPECT_EQ(error_of([&] { inspect(test_data("golden-gguf/f32.gguf"), options); }).code(), ErrorCode::interrupted);
}

TEST(Inspect, LongArraysAreCut) {
  const TemporaryDirectory directory;
  std::string numbers = "0";
  for (int i = 1; i < 100; ++i) numbers += fmt::format(",{}", i);
  const Inspection file =
      inspect(directory.write("config.json", fmt::format(R"({{"a": [{}], "b": [1, 2]}})", numbers)));
  EXPECT_EQ(file.keys.dump(), R"({"a":{"array":100,"first":[0,1,2,3,4,5,6,7]},"b":[1,2]})");
}

TEST(Inspect, IsAsStrictAsLoading) {
  for (const char* name :
       {"safetensors/hole.safetensors", "gguf/misaligned.gguf", "torch/os_system.pt", "numpy/object_array.npz",
        "config/nan_eps.json", "tokenizer/truncated.tokenizer.json", "tokenizer/no_model.tokenizer.json"}) {
    const Error error = error_of([&] { inspect(test_data(fmt::format("hostile/{}", name))); });
    EXPECT_TRUE(mentions(error, name)) << error.what();
  }
  EXPECT_EQ(error_of([] { inspect("/absent"); }).code(), ErrorCode::not_found);
  EXPECT_TRUE(mentions(error_of([] { inspect("/tmp"); }), "directory"));
  EXPECT_TRUE(mentions(error_of([] { inspect("/dev/null"); }), "not a regular file"));
}

}  // namespace
}  // namespace kirchhoff::io
