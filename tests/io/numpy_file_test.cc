#include "kirchhoff/io/numpy_file.h"

#include <gtest/gtest.h>

#include "io_test_support.h"

namespace kirchhoff::io {
namespace {

/// An .npy file of version `version` with this header and data.
std::string npy(const std::string& header, const std::string& data, char version = 1) {
  std::string text = "\x93NUMPY";
  text += version;
  text += '\0';
  const auto length = static_cast<std::uint32_t>(header.size());
  text.append(reinterpret_cast<const char*>(&length), version == 1 ? 2 : 4);
  return text + header + data;
}

StoredTensor parse_npy_text(const std::string& text) { return parse_npy(in_memory(text, "a.npy"), "a"); }
Error npy_refusal(const std::string& header, const std::string& data = {}) {
  return error_of([&] { parse_npy_text(npy(header, data)); });
}

TEST(NumpyFile, HeadersAsNumpyWritesThem) {
  const std::string data("\x01\x02\x03\x04\x05\x06", 6);
  for (const char version : {'\1', '\2', '\3'}) {
    const StoredTensor tensor =
        parse_npy_text(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }   \n", data, version));
    EXPECT_EQ(tensor.shape, (Shape{2, 3}));
    EXPECT_EQ(decode(tensor)[5], 6.f);
  }
  EXPECT_EQ(parse_npy_text(npy("{'descr': '|u1', 'fortran_order': False, 'shape': ()}", "\x07")).shape, Shape{});
  EXPECT_EQ(parse_npy_text(npy("{'shape': (6L,), 'fortran_order': False, 'descr': '|i1'}", data)).shape, Shape{6});
}

TEST(NumpyFile, FortranOrderAndBigEndianAreUndone) {
  const StoredTensor fortran = parse_npy_text(
      npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3)}", std::string("\x00\x03\x01\x04\x02\x05", 6)));
  const Tensor values = decode(fortran);
  for (Index i = 0; i < 6; ++i) EXPECT_EQ(values[i], static_cast<float>(i));
  const StoredTensor big = parse_npy_text(
      npy("{'descr': '>i2', 'fortran_order': True, 'shape': (1, 2)}", std::string("\x01\x00\xff\xfe", 4)));
  EXPECT_EQ(decode(big)[0], 256.f);
  EXPECT_EQ(decode(big)[1], -2.f);
  const StoredTensor empty =
      parse_npy_text(npy("{'descr': '>f8', 'fortran_order': True, 'shape': (0, 9223372036854775807)}", ""));
  EXPECT_TRUE(empty.bytes.empty());
}

TEST(NumpyFile, HeadersThatAreNoLiteralsAreRefused) {
  for (const char* header :
       {"", "[]", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", "{'shape': (-1,)}",
        "{'shape': (3 * 4,)}", "{'descr': '<f4', 'descr': '<f4'}", "{'evil': 1}", "{'shape': (1, 2", "{'descr': '<f4'",
        "{'descr': '<f4', 'fortran_order': False, 'shape': ()} + 1", "{'shape': (99999999999999999999,)}"}) {
    EXPECT_EQ(npy_refusal(header).code(), ErrorCode::format) << header;
    EXPECT_TRUE(mentions(npy_refusal(header), "npy header")) << npy_refusal(header).what();
  }
}

TEST(NumpyFile, TypesThatAreNotReadAreNamed) {
  for (const char* descr : {"'<c8'", "'<U5'", "'|V2'", "'|S1'", "'<M8[ns]'", "''", "'<f16'", "[('a', '<f4')]"}) {
    const Error error = npy_refusal(fmt::format("{{'descr': {}, 'fortran_order': False, 'shape': ()}}", descr));
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << descr;
    EXPECT_TRUE(mentions(error, "a.npy")) << error.what();
  }
}

TEST(NumpyFile, SizesMustFit) {
  EXPECT_TRUE(mentions(npy_refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "abc"),
                       "8 bytes, the file has 3"));
  EXPECT_TRUE(mentions(npy_refusal("{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}", "abc"),
                       "2 bytes, the file has 3"));
  EXPECT_TRUE(
      mentions(npy_refusal("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}"), "overflow"));
  EXPECT_TRUE(mentions(error_of([] { parse_npy_text("\x93NUMPY\x01"); }), "truncated"));
}

}  // namespace
}  // namespace kirchhoff::io
