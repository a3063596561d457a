#include "kirchhoff/io/torch_file.h"

#include <gtest/gtest.h>

#include "io/zip_writer.h"
#include "io_test_support.h"

namespace kirchhoff::io {
namespace {

using namespace std::string_literals;

/// A torch archive made of this pickle and one storage of 12 floats, 0 to 11, with key 0.
class TorchArchive : public testing::Test {
 protected:
  TorchFile parse(const std::string& pickle) {
    const std::string path = directory_.path("m.pt");
    {
      std::array<float, 12> values;
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
      AtomicFile file(path);
      ZipWriter zip(file);
      zip.add("m/data.pkl", pickle, {});
      zip.add("m/data/0", "", std::as_bytes(std::span(values)));
      zip.finish();
      file.commit();
    }
    return read_torch(path);
  }
  Error refusal(const std::string& pickle) {
    return error_of([&] { parse(pickle); });
  }

  static std::string text(const std::string& value) {
    const auto length = static_cast<std::uint32_t>(value.size());
    return fmt::format("X{}{}", std::string_view(reinterpret_cast<const char*>(&length), 4), value);
  }
  static std::string integer(std::int32_t value) {
    return fmt::format("J{}", std::string_view(reinterpret_cast<const char*>(&value), 4));
  }
  static std::string tuple(const std::vector<std::int32_t>& values) {
    std::string result = "(";
    for (const std::int32_t value : values) result += integer(value);
    return result + "t";
  }
  static std::string storage(const std::string& type = "torch\nFloatStorage", std::int32_t count = 12) {
    return fmt::format("({}c{}\n{}{}{}tQ", text("storage"), type, text("0"), text("cpu"), integer(count));
  }
  static std::string tensor(std::int32_t offset, const std::vector<std::int32_t>& shape,
                            const std::vector<std::int32_t>& strides, const std::string& from = storage()) {
    return fmt::format("ctorch._utils\n_rebuild_tensor_v2\n({}{}{}{}\x89}}tR", from, integer(offset), tuple(shape),
                       tuple(strides));
  }
  /// A dict of these keys and values, each pickled.
  static std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
    std::string result = "\x80\x02}(";
    for (const auto& [key, value] : items) result += text(key) + value;
    return result + "u";
  }
  static std::string pickle(const std::vector<std::pair<std::string, std::string>>& items) { return dict(items) + "."; }

  TemporaryDirectory directory_;
};

TEST_F(TorchArchive, RowMajorTensorsAreBorrowedOthersCopied) {
  const TorchFile file = parse(pickle({{"a", tensor(4, {2, 4}, {4, 1})}, {"t", tensor(0, {4, 3}, {1, 4})}}));
  const StoredTensor& a = *file.checkpoint.find("a");
  const StoredTensor& t = *file.checkpoint.find("t");
  EXPECT_GT(a.file_offset, 0u);
  EXPECT_EQ(t.file_offset, 0u);
  EXPECT_EQ(decode(a)[0], 4.f);
  EXPECT_EQ(decode(t)[1], 4.f);
  EXPECT_EQ(decode(t)[3], 1.f);
}

TEST_F(TorchArchive, AxesOfOneDoNotMakeACopy) {
  const TorchFile file = parse(pickle({{"a", tensor(0, {1, 12}, {99, 1})}}));
  EXPECT_GT(file.checkpoint.tensors[0].file_offset, 0u);
}

TEST_F(TorchArchive, ExpansionsAreBounded) {
  EXPECT_EQ(parse(pickle({{"a", tensor(3, {1000, 2}, {0, 1})}})).checkpoint.tensors[0].bytes.size(), 8000u);
  const Error error = refusal(pickle({{"a", tensor(0, {100000, 100000}, {0, 0})}}));
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_TRUE(mentions(error, "'a'") && mentions(error, "40000000000 bytes")) << error.what();
}

TEST_F(TorchArchive, TensorsOutsideTheirStorageAreRefused) {
  const auto refusal_of = [&](const std::string& tensor) { return refusal(pickle({{"a", tensor}})); };
  EXPECT_TRUE(mentions(refusal_of(tensor(1, {12}, {1})), "element 12 of a storage of 12"));
  EXPECT_TRUE(mentions(refusal_of(tensor(0, {2147483647, 2147483647}, {2147483647, 2147483647})), "'a'"));
  EXPECT_TRUE(mentions(refusal_of(tensor(0, {-3}, {1})), "-3"));
  EXPECT_TRUE(mentions(refusal_of(tensor(0, {3, 1}, {1})), "shape [3, 1] with strides [1]"));
  EXPECT_TRUE(mentions(refusal_of(tensor(0, {1}, {1}, storage("torch\nFloatStorage", 13))), "48 of 52 bytes"));
  EXPECT_TRUE(mentions(refusal_of(tensor(0, {1}, {1}, storage("torch\nFloatStorage", -1))), "-1"));
  // A tensor without elements reaches nothing, whatever its strides.
  EXPECT_EQ(parse(pickle({{"a", tensor(0, {0, 5}, {1000, 1000})}})).checkpoint.tensors[0].bytes.size(), 0u);
}

TEST_F(TorchArchive, NestedDictsAreFlattenedAndTheRestIsKept) {
  const std::string half = "G?\xe0\x00\x00\x00\x00\x00\x00"s;
  const std::string inner = dict({{"fc.weight", tensor(0, {3}, {1})}, {"lr", half}}).substr(2);
  const std::string list = fmt::format("]({}{}e", tensor(0, {1}, {1}), integer(5));
  const TorchFile file = parse(pickle({{"model", inner}, {"step", integer(7)}, {"list", list}}));
  ASSERT_EQ(file.checkpoint.tensors.size(), 2u);
  EXPECT_EQ(file.checkpoint.tensors[0].name, "model.fc.weight");
  EXPECT_EQ(file.checkpoint.tensors[1].name, "list.0");
  EXPECT_EQ(file.extra.dump(), R"({"model":{"lr":0.5},"step":7,"list":[null,5]})");
}

TEST_F(TorchArchive, NamesThatMeetAfterFlatteningAreRefused) {
  const std::string one = tensor(0, {1}, {1});
  EXPECT_TRUE(mentions(refusal(pickle({{"a.b", one}, {"a", dict({{"b", one}}).substr(2)}})), "'a.b' appears twice"));
}

TEST_F(TorchArchive, ValuesThatContainThemselvesAreRefused) {
  EXPECT_TRUE(mentions(refusal(pickle({{"x", "]q\x00h\x00\x61"s}})), "nested deeper"));
  // Sixty doublings: a tree of 2^60 leaves.
  std::string doubling = "]q\x00"s;
  for (char i = 0; i < 60; ++i) doubling += fmt::format("](h{0}h{0}eq{1}", i, static_cast<char>(i + 1));
  EXPECT_TRUE(mentions(refusal(fmt::format("({}1{}", doubling, pickle({{"x", "h\x3c"}}).substr(2))), "more values"));
}

TEST_F(TorchArchive, UntypedStoragesTakeTheTensorsDtype) {
  const std::string call =
      fmt::format("ctorch._utils\n_rebuild_tensor_v3\n({}{}{}{}\x89}}ctorch\nfloat32\ntR",
                  storage("torch.storage\nUntypedStorage", 48), integer(2), tuple({2}), tuple({1}));
  const TorchFile file = parse(pickle({{"a", call}}));
  EXPECT_EQ(file.checkpoint.tensors[0].dtype, DType::f32);
  EXPECT_EQ(decode(file.checkpoint.tensors[0])[1], 3.f);
}

TEST(TorchFile, RealCheckpoints) {
  const TorchFile bin = read_torch(test_data("golden/gpt2-n-inner/pytorch_model.bin"));
  EXPECT_EQ(bin.checkpoint.tensors.size(), 30u);
  EXPECT_NE(bin.checkpoint.find("h.0.attn.c_attn.weight"), nullptr);
  const std::string path = shared_data("data/induction/induction_head_infinite.pth");
  if (path.empty()) GTEST_SKIP() << "the shared data are not there";
  const TorchFile induction = read_torch(path);
  ASSERT_NE(induction.checkpoint.find("model.embed.W_E"), nullptr);
  EXPECT_EQ(induction.checkpoint.find("model.embed.W_E")->shape, (Shape{48, 128}));
  EXPECT_EQ(induction.extra["model_config"]["d_vocab"], 128);
}

}  // namespace
}  // namespace kirchhoff::io
