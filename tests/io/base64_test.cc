#include "io/base64.h"

#include <gtest/gtest.h>

#include <string>  // for string

namespace kirchhoff::io {
namespace {

std::string text_of(std::string_view base64) {
  const DecodedBase64 decoded = decode_base64(base64);
  if (!decoded.owner) return "(none)";
  return {reinterpret_cast<const char*>(decoded.bytes.data()), decoded.bytes.size()};
}

// RFC 4648, section 10.
TEST(Base64, StandardVectors) {
  EXPECT_EQ(text_of(""), "");
  EXPECT_EQ(text_of("Zg=="), "f");
  EXPECT_EQ(text_of("Zm8="), "fo");
  EXPECT_EQ(text_of("Zm9v"), "foo");
  EXPECT_EQ(text_of("Zm9vYg=="), "foob");
  EXPECT_EQ(text_of("Zm9vYmFy"), "foobar");
  EXPECT_EQ(text_of("/+//"), "\xff\xef\xff");
}

TEST(Base64, OthersAreRefused) {
  for (const char* text : {"Zg=", "Zg", "Zm9v!m==", "Z===", "Zm=v", "Zm 9", "Zm9-"})
    EXPECT_EQ(text_of(text), "(none)") << text;
}

}  // namespace
}  // namespace kirchhoff::io
