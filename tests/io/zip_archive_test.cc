#include "io/zip_archive.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "io/zip_writer.h"
#include "io_test_support.h"
#include "kirchhoff/io/torch_file.h"

namespace kirchhoff::io {
namespace {

template <class T>
void put(std::string& text, T value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string deflated(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

struct Member {
  std::string name, packed;
  std::uint64_t size;
  std::uint32_t crc;
  std::uint16_t method = 8, flags = 0;
};

Member deflated_member(const std::string& name, const std::string& text) {
  return {name, deflated(text), text.size(),
          static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()))};
}

/// A classic archive (no zip64) written by hand.
std::string archive_of(const std::vector<Member>& members) {
  std::string text, directory;
  for (const Member& m : members) {
    const auto offset = static_cast<std::uint32_t>(text.size()), packed = static_cast<std::uint32_t>(m.packed.size());
    const auto name = static_cast<std::uint16_t>(m.name.size());
    put<std::uint32_t>(text, 0x04034b50);
    for (const std::uint16_t field : {std::uint16_t{20}, m.flags, m.method, std::uint16_t{0}, std::uint16_t{33}})
      put(text, field);
    for (const std::uint32_t field : {m.crc, packed, static_cast<std::uint32_t>(m.size)}) put(text, field);
    put(text, name);
    put<std::uint16_t>(text, 0);
    text += m.name + m.packed;
    put<std::uint32_t>(directory, 0x02014b50);
    for (const std::uint16_t field :
         {std::uint16_t{20}, std::uint16_t{20}, m.flags, m.method, std::uint16_t{0}, std::uint16_t{33}})
      put(directory, field);
    for (const std::uint32_t field : {m.crc, packed, static_cast<std::uint32_t>(m.size)}) put(directory, field);
    put(directory, name);
    for (int i = 0; i < 4; ++i) put<std::uint16_t>(directory, 0);
    put<std::uint32_t>(directory, 0);
    put(directory, offset);
    directory += m.name;
  }
  const auto begin = static_cast<std::uint32_t>(text.size());
  text += directory;
  put<std::uint32_t>(text, 0x06054b50);
  put<std::uint32_t>(text, 0);
  for (int i = 0; i < 2; ++i) put(text, static_cast<std::uint16_t>(members.size()));
  put(text, static_cast<std::uint32_t>(directory.size()));
  put(text, begin);
  put<std::uint16_t>(text, 0);
  return text;
}

Error zip_refusal(const std::vector<Member>& members) {
  return error_of([&] {
    ZipArchive archive(in_memory(archive_of(members), "a.zip"));
    for (const ZipMember& member : archive.members()) archive.read(member);
  });
}

TEST(ZipArchive, InflatesAndBorrows) {
  const std::string text(100000, 'x');
  Member stored{"stored", "abc", 3, 0};
  stored.method = 0;
  const FileBytes file = in_memory(archive_of({deflated_member("deflated", text), stored}), "a.zip");
  ZipArchive archive(file);
  EXPECT_EQ(archive.read(*archive.find("deflated")).text(), text);
  const FileBytes borrowed = archive.read(*archive.find("stored"));
  EXPECT_EQ(borrowed.text(), "abc");
  EXPECT_EQ(borrowed.bytes.data(), file.bytes.data() + borrowed.offset);
  EXPECT_EQ(archive.find("absent"), nullptr);
  // Unpacked once: the second look gives the same memory.
  EXPECT_EQ(archive.read(*archive.find("deflated")).bytes.data(), archive.read(*archive.find("deflated")).bytes.data());
}

TEST(ZipArchive, ReadsTheZip64RecordsOfTheWriter) {
  const TemporaryDirectory directory;
  const std::string path = directory.path("a.zip");
  AtomicFile file(path);
  ZipWriter writer(file);
  const std::string body = "body";
  writer.add("one", "head ", std::as_bytes(std::span(body)));
  writer.add("two", "", {});
  writer.finish();
  file.commit();
  ZipArchive archive(map_file(path));
  ASSERT_EQ(archive.members().size(), 2u);
  EXPECT_EQ(archive.read(*archive.find("one")).text(), "head body");
  EXPECT_EQ(archive.read(*archive.find("two")).size(), 0u);
}

TEST(ZipArchive, CorruptDataAreFound) {
  Member wrong_crc = deflated_member("m", "some text");
  wrong_crc.crc ^= 1;
  EXPECT_TRUE(mentions(zip_refusal({wrong_crc}), "checksum"));
  Member too_short = deflated_member("m", "some text");
  too_short.size += 1;
  EXPECT_TRUE(mentions(zip_refusal({too_short}), "does not inflate to its 10 bytes"));
  Member too_long = deflated_member("m", "some text");
  too_long.size -= 1;
  EXPECT_TRUE(mentions(zip_refusal({too_long}), "does not inflate"));
  Member garbage = deflated_member("m", "some text");
  garbage.packed = "\xFF\xFF\xFF\xFF";
  EXPECT_TRUE(mentions(zip_refusal({garbage}), "'m'"));
}

TEST(ZipArchive, BombsAreRefused) {
  Member liar = deflated_member("m", "x");
  liar.size = 1 << 30;
  EXPECT_TRUE(mentions(zip_refusal({liar}), "claims 1073741824 bytes"));
  // True ones: five times 16 MiB of zeros in 16 KB each.
  std::vector<Member> bombs(5, deflated_member("0", std::string(std::size_t{16} << 20, '\0')));
  for (std::size_t i = 1; i < bombs.size(); ++i) bombs[i].name = std::to_string(i);
  const Error error = zip_refusal(bombs);
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_TRUE(mentions(error, "zip member '4' unpacks to 16777216 bytes")) << error.what();
}

TEST(ZipArchive, APackedPickleMustBeSmall) {
  // As data 20 MiB would pass; as a pickle they describe 20 million values.
  TemporaryDirectory directory;
  const std::string path =
      directory.write("bomb.pt", archive_of({deflated_member("m/data.pkl", std::string(std::size_t{20} << 20, 'N'))}));
  const Error error = error_of([&] { read_torch(path); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_TRUE(mentions(error, "'m/data.pkl' unpacks to 20971520 bytes")) << error.what();
}

TEST(ZipArchive, WhatIsNotReadIsNamed) {
  Member encrypted = deflated_member("m", "x");
  encrypted.flags = 1;
  EXPECT_TRUE(mentions(zip_refusal({encrypted}), "encrypted"));
  Member method = deflated_member("m", "x");
  method.method = 12;
  EXPECT_TRUE(mentions(zip_refusal({method}), "compression method 12"));
  EXPECT_TRUE(mentions(zip_refusal({deflated_member("m", "x"), deflated_member("m", "y")}), "duplicate"));
}

}  // namespace
}  // namespace kirchhoff::io
