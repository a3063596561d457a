#include "kirchhoff/io/sha256.h"

#include <gtest/gtest.h>

#include "io_test_support.h"

namespace kirchhoff::io {
namespace {

std::string hash_of(std::string_view text) {
  Sha256 hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.finish();
}

// Examples of FIPS 180-4 (NIST "SHA256.pdf") and of RFC 6234.
TEST(Sha256, StandardVectors) {
  EXPECT_EQ(hash_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash_of(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesOfAnySizeGiveTheSame) {
  const std::string text(1000, 'q');
  for (const std::size_t size : {1u, 7u, 55u, 56u, 63u, 64u, 65u, 128u, 999u}) {
    Sha256 hash;
    for (std::size_t i = 0; i < text.size(); i += size)
      hash.add(std::as_bytes(std::span(text).subspan(i, std::min(size, text.size() - i))));
    EXPECT_EQ(hash.finish(), hash_of(text)) << size;
  }
}

}  // namespace
}  // namespace kirchhoff::io
