#include "kirchhoff/io/safetensors.h"

#include <gtest/gtest.h>

#include <set>  // for set

#include "io_test_support.h"
#include "kirchhoff/io/sharded.h"
#include "kirchhoff/io/tensor_writer.h"

namespace kirchhoff::io {
namespace {

using namespace std::string_literals;

/// A file with this header and `data_bytes` of data.
std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + std::string(data_bytes, '\1');
}

Error safetensors_refusal(const std::string& header, std::size_t data_bytes) {
  return error_of([&] { parse_safetensors(in_memory(file_of(header, data_bytes), "m.safetensors")); });
}

TEST(Safetensors, TensorsLieWhereTheFileHasThem) {
  const std::string path = test_data("golden/llama-gqa/model.safetensors");
  const SafetensorsFile file = read_safetensors(path);
  EXPECT_EQ(file.metadata.at("format"), "pt");
  const FileBytes bytes = map_file(path);
  for (const StoredTensor& tensor : file.checkpoint.tensors) {
    EXPECT_EQ(tensor.file, path);
    const Bytes there = bytes.bytes.subspan(tensor.file_offset, tensor.bytes.size());
    EXPECT_TRUE(std::equal(there.begin(), there.end(), tensor.bytes.begin())) << tensor.name;
  }
}

TEST(Safetensors, MembersOfAWrongTypeAreNamed) {
  EXPECT_TRUE(mentions(safetensors_refusal(R"({"w": 3})", 0), "'w'"));
  EXPECT_TRUE(
      mentions(safetensors_refusal(R"({"w": {"dtype": "F32", "shape": [1]}})", 4), "'data_offsets' is missing"));
  EXPECT_TRUE(
      mentions(safetensors_refusal(R"({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], "x": 1}})", 4),
               "unknown key 'x'"));
  EXPECT_TRUE(
      mentions(safetensors_refusal(R"({"w": {"dtype": "F32", "shape": [1], "shape": [1], "data_offsets": [0, 4]}})", 4),
               "duplicate key 'shape'"));
  EXPECT_TRUE(
      mentions(safetensors_refusal(R"({"w": {"dtype": "F32", "shape": [1.5], "data_offsets": [0, 4]}})", 4), "1.5"));
  EXPECT_TRUE(mentions(safetensors_refusal(R"({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]}})", 4),
                       "data_offsets"));
  EXPECT_TRUE(
      mentions(safetensors_refusal(R"({"w": {"dtype": "F32", "shape": [1], "data_offsets": [4]}})", 4), "1 numbers"));
  EXPECT_TRUE(mentions(safetensors_refusal(R"({"w": {"dtype": 1, "shape": [1], "data_offsets": [0, 4]}})", 4),
                       "dtype with a text"));
  EXPECT_TRUE(mentions(safetensors_refusal(R"({"w": {"dtype": "F32", "shape": [[1]], "data_offsets": [0, 4]}})", 4),
                       "an array"));
  EXPECT_TRUE(mentions(safetensors_refusal(R"({"__metadata__": {"k": 1}})", 0), "'k'"));
  EXPECT_TRUE(mentions(safetensors_refusal(R"({"__metadata__": {"k": "1", "k": "2"}})", 0), "duplicate key 'k'"));
  EXPECT_TRUE(mentions(
      safetensors_refusal(R"({"w": {"dtype": "F32", "shape": [18446744073709551615], "data_offsets": [0, 4]}})", 4),
      "overflow"));
}

TEST(Safetensors, DtypesOfTheFormatThatAreNotReadAreUnsupportedNotMalformed) {
  EXPECT_EQ(safetensors_refusal(R"({"w": {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]}})", 8).code(),
            ErrorCode::unsupported);
  EXPECT_EQ(safetensors_refusal(R"({"w": {"dtype": "float", "shape": [1], "data_offsets": [0, 4]}})", 4).code(),
            ErrorCode::format);
}

TEST(Safetensors, NamesCannotSendEscapesToATerminal) {
  const std::string what =
      safetensors_refusal(R"({"\u001b[2J\u009b": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}})", 4).what();
  EXPECT_NE(what.find("\\x1b[2J\\xc2\\x9b"), std::string::npos) << what;
  const std::string long_name(5000, 'n');
  const std::string shortened =
      safetensors_refusal(
          fmt::format(R"({{"{}": {{"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}}})", long_name), 4)
          .what();
  EXPECT_LT(shortened.size(), 400u);
}

TEST(Safetensors, NothingStandsBeforeOrBehindTheHeadersObject) {
  const std::string header = R"({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})";
  EXPECT_TRUE(mentions(safetensors_refusal("\xEF\xBB\xBF" + header, 4), "expected '{'"));
  EXPECT_TRUE(mentions(safetensors_refusal(" " + header, 4), "expected '{'"));
  EXPECT_TRUE(mentions(safetensors_refusal(header + std::string(3, '\0'), 4), "a NUL byte"));
  EXPECT_TRUE(mentions(safetensors_refusal(header + "{}", 4), "end of input"));
}

class Sharded : public testing::Test {
 protected:
  void write_shard(const std::string& name, const std::vector<std::string>& tensors) {
    const Tensor values({2});
    std::vector<StoredTensor> stored;
    for (const std::string& tensor : tensors) stored.push_back(borrowed(tensor, values));
    write_safetensors(directory_.path(name), stored);
  }
  std::string write_index(const std::string& map) {
    return directory_.write("model.safetensors.index.json", R"({"weight_map": )" + map + "}");
  }
  TemporaryDirectory directory_;
};

TEST_F(Sharded, TheGoldenShardsMakeOneCheckpoint) {
  const Checkpoint checkpoint = read_sharded(test_data("golden/gpt2-inverse-layer-scale/model.safetensors.index.json"));
  EXPECT_EQ(checkpoint.format, "safetensors");
  EXPECT_EQ(checkpoint.tensors.size(), 40u);
  std::set<std::string> files;
  for (const StoredTensor& tensor : checkpoint.tensors) files.insert(tensor.file);
  EXPECT_EQ(files.size(), 3u);
}

TEST_F(Sharded, TheMapAndTheShardsMustAgree) {
  write_shard("1.safetensors", {"a", "b"});
  write_shard("2.safetensors", {"c"});
  EXPECT_EQ(
      read_sharded(write_index(R"({"a": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors"})")).tensors.size(),
      3u);
  const auto refusal_of = [&](const std::string& map) { return error_of([&] { read_sharded(write_index(map)); }); };
  const Error absent = refusal_of(R"({"a": "1.safetensors", "b": "1.safetensors", "c": "3.safetensors"})");
  EXPECT_EQ(absent.code(), ErrorCode::not_found);
  EXPECT_TRUE(mentions(absent, "3.safetensors")) << absent.what();
  const Error missing =
      refusal_of(R"({"a": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors", "d": "2.safetensors"})");
  EXPECT_TRUE(mentions(missing, "2.safetensors") && mentions(missing, "'d'")) << missing.what();
  const Error elsewhere = refusal_of(R"({"a": "1.safetensors", "b": "2.safetensors", "c": "2.safetensors"})");
  EXPECT_TRUE(mentions(elsewhere, "'b'")) << elsewhere.what();
  const Error unlisted = refusal_of(R"({"a": "1.safetensors", "c": "2.safetensors"})");
  EXPECT_TRUE(mentions(unlisted, "'b'")) << unlisted.what();
}

TEST_F(Sharded, AShardIsAPlainFileName) {
  for (const std::string& name : {"../model.safetensors"s, "/etc/passwd"s, ""s, ".."s, std::string(100000, 'n')}) {
    const Error error = error_of([&] { read_sharded(write_index(fmt::format(R"({{"a": "{}"}})", name))); });
    EXPECT_TRUE(mentions(error, "plain file name")) << error.what();
    EXPECT_LT(std::string(error.what()).size(), 1000u);
  }
  EXPECT_TRUE(mentions(error_of([&] { read_sharded(write_index("3")); }), "weight_map"));
}

}  // namespace
}  // namespace kirchhoff::io
