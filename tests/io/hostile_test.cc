// Every safetensors, GGUF, torch and numpy file of tests/data/hostile, as its manifest says.
#include <gtest/gtest.h>

#include "io_test_support.h"
#include "kirchhoff/io/checkpoint.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/io/model_files.h"

namespace kirchhoff::io {
namespace {

using Json = nlohmann::ordered_json;

bool concerns_io(const std::string& file) {
  for (const char* folder : {"safetensors/", "gguf/", "torch/", "numpy/"})
    if (file.starts_with(folder)) return true;
  return false;
}

void expect_values(const Checkpoint& checkpoint, const Json& values) {
  EXPECT_EQ(checkpoint.tensors.size(), values.size());
  for (const auto& [name, expected] : values.items()) {
    SCOPED_TRACE(name);
    const StoredTensor* tensor = checkpoint.find(name);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->shape, expected["shape"].get<Shape>());
    const TensorF64 decoded = decode_f64(*tensor);
    ASSERT_EQ(decoded.size(), static_cast<Index>(expected["data"].size()));
    for (Index i = 0; i < decoded.size(); ++i) {
      const Json& value = expected["data"][static_cast<std::size_t>(i)];
      EXPECT_EQ(decoded[i], value.is_boolean() ? static_cast<double>(value.get<bool>()) : value.get<double>()) << i;
    }
  }
}

class Hostile : public testing::TestWithParam<Json> {};

TEST_P(Hostile, IsRefusedOrLoadedAsTheManifestSays) {
  const Json& entry = GetParam();
  const std::string path = test_data("hostile/" + entry["file"].get<std::string>());
  if (entry["expect"] == "ok") {
    const ModelFiles files = open_model_files(path);
    if (entry.contains("values")) expect_values(files.checkpoint, entry["values"]);
    return;
  }
  if (entry.value("container_ok", false)) {
    EXPECT_NO_THROW(read_gguf(path));
  }
  const Error error = error_of([&] { open_model_files(path); });
  EXPECT_TRUE(error.code() == ErrorCode::format || error.code() == ErrorCode::unsupported) << error.what();
  EXPECT_TRUE(mentions(error, path)) << error.what();
  for (const Json& name : entry["names"])
    EXPECT_TRUE(mentions(error, name.get<std::string>())) << name << " in " << error.what();
  if (entry.contains("must_not_create")) {
    const auto created = entry["must_not_create"].get<std::string>();
    EXPECT_FALSE(std::filesystem::exists(created) ||
                 std::filesystem::exists(std::filesystem::path(path).parent_path() / created));
  }
}

std::vector<Json> entries() {
  std::vector<Json> result;
  const Json manifest = read_json_file(test_data("hostile/manifest.json"));
  for (const Json& entry : manifest["files"])
    if (concerns_io(entry["file"].get<std::string>())) result.push_back(entry);
  return result;
}

INSTANTIATE_TEST_SUITE_P(Manifest, Hostile, testing::ValuesIn(entries()),
                         [](const testing::TestParamInfo<Json>& param) {
                           auto name = param.param["file"].get<std::string>();
                           for (char& c : name)
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           return name;
                         });

TEST(HostileManifest, IsComplete) { EXPECT_EQ(entries().size(), 79u); }

}  // namespace
}  // namespace kirchhoff::io
