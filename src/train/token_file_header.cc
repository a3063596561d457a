#include "train/token_file_header.h"

#include <algorithm>  // for all_of
#include <bit>        // for endian
#include <cctype>     // for isxdigit
#include <cstring>    // for memcpy

#include "kirchhoff/base/error.h"
#include "kirchhoff/io/json_file.h"

namespace kirchhoff::train {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are read as they lie");

using Json = nlohmann::ordered_json;

constexpr std::string_view kMagic = "KHTOKENS";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kJsonBegin = 16, kAlignment = 4096;
constexpr std::size_t kRoom = 40;  // digits that tokens and documents may grow by

Json to_json(const TokenFileInfo& info) {
  Json sources = Json::array();
  for (const TokenFileInfo::Source& source : info.sources)
    sources.push_back({{"name", source.name}, {"bytes", source.bytes}, {"sha256", source.sha256}});
  return {{"vocabulary", info.vocabulary}, {"token_bytes", info.token_bytes}, {"tokens", info.tokens},
          {"documents", info.documents},   {"separator", info.separator},     {"tokenizer", info.tokenizer},
          {"sources", std::move(sources)}};
}

std::uint32_t number_at(std::string_view file, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, file.data() + at, sizeof value);
  return value;
}

/// Reads an object's keys once each; the rest is an error.
class HeaderReader {
 public:
  HeaderReader(const Json& json, std::string where, std::size_t keys) : json_(json), where_(std::move(where)) {
    check(json.is_object() && json.size() == keys, ErrorCode::format, "{}: expected an object of {} keys", where_,
          keys);
  }
  const Json& at(const char* key) const {
    check(json_.contains(key), ErrorCode::format, "{}: the key '{}' is missing", where_, key);
    return json_.at(key);
  }
  Index number(const char* key, Index least, Index most) const {
    const Json& value = at(key);
    check(value.is_number_integer() && value >= least && value <= most, ErrorCode::format,
          "{}: {} is {}, expected a whole number from {} to {}", where_, key, value.dump(), least, most);
    return value.get<Index>();
  }
  std::string text(const char* key) const {
    check(at(key).is_string(), ErrorCode::format, "{}: {} is {}, expected a string", where_, key, at(key).dump());
    return at(key).get<std::string>();
  }
  std::string hash(const char* key) const {
    const std::string value = text(key);
    const auto is_hex = [](unsigned char c) { return std::isxdigit(c) != 0; };
    check(value.size() == 64 && std::all_of(value.begin(), value.end(), is_hex), ErrorCode::format,
          "{}: {} is '{}', expected a SHA-256 in hex", where_, key, value);
    return value;
  }

 private:
  const Json& json_;
  std::string where_;
};

TokenFileInfo parse_info(const Json& json, const std::string& where) {
  constexpr Index kMost = Index{1} << 48;
  const HeaderReader header(json, where, 7);
  TokenFileInfo info;
  info.vocabulary = header.number("vocabulary", 1, Index{1} << 31);
  info.token_bytes = header.number("token_bytes", 2, 4);
  check(info.token_bytes != 3, ErrorCode::format, "{}: token_bytes is 3, expected 2 or 4", where);
  info.tokens = header.number("tokens", 1, kMost);
  info.documents = header.number("documents", 1, info.tokens);
  info.separator = static_cast<text::TokenId>(header.number("separator", 0, info.vocabulary - 1));
  info.tokenizer = header.hash("tokenizer");
  const Json& sources = header.at("sources");
  check(sources.is_array(), ErrorCode::format, "{}: sources is {}, expected a list", where, sources.type_name());
  for (const Json& entry : sources) {
    const HeaderReader source(entry, where + ": sources[" + std::to_string(info.sources.size()) + "]", 3);
    info.sources.push_back(
        {source.text("name"), static_cast<std::uint64_t>(source.number("bytes", 0, kMost)), source.hash("sha256")});
  }
  return info;
}

}  // namespace

bool has_magic(std::string_view file) { return file.starts_with(kMagic); }

std::string write_header(const TokenFileInfo& info) {
  TokenFileInfo without_counts = info;
  without_counts.tokens = without_counts.documents = 0;
  const std::size_t room = kJsonBegin + to_json(without_counts).dump().size() + kRoom;
  const std::size_t end = (room + kAlignment - 1) / kAlignment * kAlignment;
  const auto length = static_cast<std::uint32_t>(end - kJsonBegin);
  std::string header(kMagic);
  header.append(reinterpret_cast<const char*>(&kVersion), sizeof kVersion);
  header.append(reinterpret_cast<const char*>(&length), sizeof length);
  header += to_json(info).dump();
  header.resize(end - 1, ' ');
  header += '\n';
  return header;
}

ParsedHeader parse_header(std::string_view file, const std::string& path) {
  check(has_magic(file) && file.size() >= kJsonBegin, ErrorCode::format,
        "'{}' is no token file: it does not begin with {}", path, kMagic);
  const std::uint32_t version = number_at(file, kMagic.size());
  check(version == kVersion, ErrorCode::format, "'{}' is a token file of version {}, expected {}", path, version,
        kVersion);
  const std::uint64_t end = kJsonBegin + std::uint64_t{number_at(file, kMagic.size() + sizeof version)};
  check(end % kAlignment == 0 && end <= file.size(), ErrorCode::format,
        "'{}': the header ends at byte {}, expected a multiple of {} within the {} bytes of the file", path, end,
        kAlignment, file.size());
  const Json json = io::parse_json(file.substr(kJsonBegin, end - kJsonBegin), path);
  return {parse_info(json, "'" + path + "'"), end};
}

}  // namespace kirchhoff::train
