#include "kirchhoff/io/tensor_writer.h"

#include <gtest/gtest.h>

#include "io_test_support.h"
#include "kirchhoff/base/progress.h"
#include "kirchhoff/io/numpy_file.h"
#include "kirchhoff/io/safetensors.h"

namespace kirchhoff::io {
namespace {

class TensorWriter : public testing::Test {
 protected:
  TensorWriter() : f32_({2, 3}), f64_(Shape{}) {
    for (Index i = 0; i < 6; ++i) f32_[i] = static_cast<float>(i) - 0.5f;
    f64_[0] = 0.1;
    tensors_ = {borrowed("layer/w", f32_), borrowed("scalar", f64_), borrowed("empty", empty_)};
  }
  static void expect_equal(const Checkpoint& read, const std::vector<StoredTensor>& written) {
    ASSERT_EQ(read.tensors.size(), written.size());
    for (std::size_t i = 0; i < written.size(); ++i) {
      EXPECT_EQ(read.tensors[i].name, written[i].name);
      EXPECT_EQ(read.tensors[i].dtype, written[i].dtype);
      EXPECT_EQ(read.tensors[i].shape, written[i].shape);
      EXPECT_TRUE(std::equal(written[i].bytes.begin(), written[i].bytes.end(), read.tensors[i].bytes.begin(),
                             read.tensors[i].bytes.end()));
    }
  }

  Tensor f32_, empty_{Shape{0, 4}};
  TensorF64 f64_;
  std::vector<StoredTensor> tensors_;
  TemporaryDirectory directory_;
};

TEST_F(TensorWriter, SafetensorsRoundTrip) {
  const std::string path = directory_.path("a.safetensors");
  write_safetensors(path, tensors_, {{"made_by", "a \"test\""}});
  const SafetensorsFile file = read_safetensors(path);
  expect_equal(file.checkpoint, tensors_);
  EXPECT_EQ(file.metadata.at("made_by"), "a \"test\"");
  EXPECT_EQ(file.checkpoint.tensors[0].file_offset % 8, 0u);
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
}

TEST_F(TensorWriter, NpzRoundTripOnBordersOf64Bytes) {
  const std::string path = directory_.path("a.npz");
  write_npz(path, tensors_);
  expect_equal(read_npz(path), tensors_);
  const std::string first = std::string(map_file(path).text());
  write_npz(path, tensors_);
  EXPECT_EQ(first, map_file(path).text());  // the same content, the same bytes
}

TEST_F(TensorWriter, WhatCannotBeWrittenLeavesNothingBehind) {
  const std::string path = directory_.path("a.safetensors");
  const std::vector<StoredTensor> twice{tensors_[0], tensors_[0]};
  EXPECT_EQ(error_of([&] { write_safetensors(path, twice); }).code(), ErrorCode::usage);
  StoredTensor block = tensors_[0];
  block.dtype = DType::q4_0;
  EXPECT_TRUE(mentions(error_of([&] { write_safetensors(path, std::span(&block, 1)); }), "Q4_0"));
  StoredTensor bf16 = tensors_[0];
  bf16.dtype = DType::bf16;
  EXPECT_TRUE(mentions(error_of([&] { write_npz(path, std::span(&bf16, 1)); }), "BF16"));
  StoredTensor latin = tensors_[0];
  latin.name = "\xe9";
  EXPECT_TRUE(mentions(error_of([&] { write_safetensors(path, std::span(&latin, 1)); }), "UTF-8"));
  EXPECT_EQ(error_of([&] { write_safetensors(directory_.path("absent/a.safetensors"), tensors_); }).code(),
            ErrorCode::io);
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

}  // namespace
}  // namespace kirchhoff::io
