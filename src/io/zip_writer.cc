#include "io/zip_writer.h"

#include <zlib.h>

namespace kirchhoff::io {
namespace {

constexpr std::uint16_t kVersion = 45;  // needed for zip64
constexpr std::uint16_t kUtf8Names = 1 << 11;
constexpr std::uint16_t kDate = 1 << 5 | 1;       // 1980-01-01
constexpr std::uint32_t kLargest32 = 0xFFFFFFFF;  // the value is in a zip64 record

/// Little-endian numbers one after the other.
class Record {
 public:
  template <class T>
  Record& put(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Record& put16(std::uint16_t value) { return put(value); }
  Record& put32(std::uint32_t value) { return put(value); }
  Record& put64(std::uint64_t value) { return put(value); }
  Record& text(std::string_view value) {
    text_ += value;
    return *this;
  }
  const std::string& bytes() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

void ZipWriter::add(const std::string& name, std::string_view head, Bytes body) {
  auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(head.data()), head.size());
  if (!body.empty()) crc = crc32_z(crc, reinterpret_cast<const Bytef*>(body.data()), body.size());
  const Member member{name, head.size() + body.size(), file_.position(), static_cast<std::uint32_t>(crc)};
  members_.push_back(member);
  Record local;
  local.put32(0x04034b50).put16(kVersion).put16(kUtf8Names).put16(0).put16(0).put16(kDate).put32(member.crc);
  local.put32(kLargest32).put32(kLargest32).put16(static_cast<std::uint16_t>(name.size())).put16(20).text(name);
  local.put16(1).put16(16).put64(member.size).put64(member.size);
  file_.write(local.bytes());
  file_.write(head);
  file_.write(body);
}

void ZipWriter::finish() {
  const std::uint64_t begin = file_.position();
  for (const Member& member : members_) {
    Record central;
    central.put32(0x02014b50)
        .put16(kVersion)
        .put16(kVersion)
        .put16(kUtf8Names)
        .put16(0)
        .put16(0)
        .put16(kDate)
        .put32(member.crc);
    central.put32(kLargest32)
        .put32(kLargest32)
        .put16(static_cast<std::uint16_t>(member.name.size()))
        .put16(28)
        .put16(0)
        .put16(0)
        .put16(0);
    central.put32(0).put32(kLargest32).text(member.name);
    central.put16(1).put16(24).put64(member.size).put64(member.size).put64(member.header);
    file_.write(central.bytes());
  }
  const std::uint64_t end = file_.position(), count = members_.size();
  Record tail;
  tail.put32(0x06064b50)
      .put64(44)
      .put16(kVersion)
      .put16(kVersion)
      .put32(0)
      .put32(0)
      .put64(count)
      .put64(count)
      .put64(end - begin);
  tail.put64(begin);
  tail.put32(0x07064b50).put32(0).put64(end).put32(1);
  tail.put32(0x06054b50).put16(0).put16(0).put16(0xFFFF).put16(0xFFFF).put32(kLargest32).put32(kLargest32).put16(0);
  file_.write(tail.bytes());
}

}  // namespace kirchhoff::io
