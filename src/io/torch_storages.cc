#include "io/torch_storages.h"

#include <algorithm>  // for max
#include <map>        // for map

#include "io/bytes.h"
#include "io/checked_size.h"
#include "io/printable.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::io {
namespace {

constexpr std::string_view kPickleName = "data.pkl";

std::uint64_t bytes_of(const PickleStorage& storage, const std::string& subject) {
  const std::optional<Index> bytes = checked_stored_bytes(storage.dtype, {storage.count});
  check(bytes.has_value(), ErrorCode::format, "{} claims {} elements", subject, storage.count);
  return static_cast<std::uint64_t>(*bytes);
}

/// The folder of the one data.pkl, with its slash.
std::string find_prefix(const ZipArchive& archive) {
  const ZipMember* found = nullptr;
  for (const ZipMember& member : archive.members()) {
    if (member.name != kPickleName && !member.name.ends_with("/data.pkl")) continue;
    check(found == nullptr, ErrorCode::format, "'{}': both {} and {} in one archive", archive.path(),
          printable(found == nullptr ? "" : found->name), printable(member.name));
    found = &member;
  }
  check(found != nullptr, ErrorCode::format, "'{}': a zip archive without data.pkl, so not a torch file",
        archive.path());
  return found->name.substr(0, found->name.size() - kPickleName.size());
}

void check_byte_order(ZipArchive& archive, const std::string& prefix) {
  const ZipMember* member = archive.find(prefix + "byteorder");
  if (member == nullptr) return;  // written by torch 2.1 and later
  const FileBytes order = archive.read(*member);
  check(order.text() == "little", ErrorCode::unsupported, "'{}': byte order {} is not supported", archive.path(),
        printable(order.text()));
}

std::int64_t top_integer(const Pickle& pickle) {
  const auto* value = std::get_if<std::int64_t>(&pickle.top->data);
  return value == nullptr ? -1 : *value;
}

/// The number 0x1950a86a20f9469cfc6c, little-endian.
bool is_magic(const Pickle& pickle) {
  const auto* bytes = std::get_if<std::unique_ptr<PickleBytes>>(&pickle.top->data);
  return bytes != nullptr && (*bytes)->is_integer &&
         (*bytes)->bytes == std::string_view("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19");
}

void check_little_endian(const Pickle& sizes, const std::string& path) {
  const auto* dict = std::get_if<PickleDict>(&sizes.top->data);
  if (dict == nullptr) return;
  for (const auto& [key, value] : dict->items) {
    const auto* name = std::get_if<std::string>(&key->data);
    const auto* flag = std::get_if<bool>(&value->data);
    check(name == nullptr || *name != "little_endian" || flag == nullptr || *flag, ErrorCode::unsupported,
          "'{}': a big-endian torch file is not supported", path);
  }
}

/// The pickles of a legacy file one after the other.
class LegacyReader {
 public:
  explicit LegacyReader(const FileBytes& file) : file_(file) {}
  Pickle next(const std::string& what) {
    Pickle pickle = parse_pickle(rest(), what);
    position_ += pickle.consumed;
    return pickle;
  }
  /// A storage: the number of elements, then their bytes. How wide they are is only known to who asks for them.
  FileBytes rest() const { return {file_.path, file_.bytes.subspan(position_), file_.owner, file_.offset + position_}; }
  void skip(std::uint64_t bytes) { position_ += bytes; }

 private:
  const FileBytes& file_;
  std::uint64_t position_ = 0;
};

/// Notes the dtypes of the storages that the values reachable in the arena name.
std::map<std::string, DType> storage_types(const Pickle& pickle, const std::string& path) {
  std::map<std::string, DType> types;
  for (const PickleValue& value : pickle.arena) {
    const auto* storage = std::get_if<std::shared_ptr<const PickleStorage>>(&value.data);
    if (storage == nullptr) continue;
    check(!(*storage)->is_view, ErrorCode::unsupported,
          "'{}': storage {} is a view of another (a format of 2016); re-save it with a newer torch", path,
          printable((*storage)->key));
    const auto [found, is_new] = types.emplace((*storage)->key, (*storage)->dtype);
    check(is_new || found->second == (*storage)->dtype, ErrorCode::format, "'{}': storage {} has two dtypes", path,
          printable((*storage)->key));
  }
  return types;
}

}  // namespace

TorchParts open_torch_zip(const FileBytes& file) {
  const auto archive = std::make_shared<ZipArchive>(file);
  const std::string prefix = find_prefix(*archive);
  check_byte_order(*archive, prefix);
  const std::string pickle_name = prefix + std::string(kPickleName);
  const ZipMember& described = *archive->find(pickle_name);
  // torch stores it as it is; values take more room in memory than in the file, so a packed one must stay small.
  constexpr std::uint64_t kLargestPacked = std::uint64_t{16} << 20;
  check(!described.deflated || described.size <= std::max<std::uint64_t>(kLargestPacked, 2 * file.size()),
        ErrorCode::unsupported, "'{}': {} unpacks to {} bytes, too much for a file of {}; store it uncompressed",
        file.path, printable(pickle_name), described.size, file.size());
  const FileBytes pickle = archive->read(described);
  const auto read_storage = [archive, prefix](const PickleStorage& storage, const std::string& tensor) {
    const std::string name = prefix + "data/" + storage.key;
    const std::string subject =
        fmt::format("'{}': tensor {}: storage {}", archive->path(), printable(tensor), printable(name));
    const ZipMember* member = archive->find(name);
    check(member != nullptr, ErrorCode::format, "{} is not in the archive", subject);
    const std::uint64_t needed = bytes_of(storage, subject);
    check(member->size >= needed, ErrorCode::format, "{} has {} of {} bytes", subject, member->size, needed);
    FileBytes bytes = archive->read(*member);
    bytes.bytes = bytes.bytes.first(needed);
    return bytes;
  };
  return {parse_pickle(pickle, pickle_name), read_storage};
}

TorchParts open_torch_legacy(const FileBytes& file) {
  LegacyReader reader(file);
  check(is_magic(reader.next("magic number")), ErrorCode::unsupported,
        "'{}': a pickle that torch.save did not write; re-save the state_dict with torch.save", file.path);
  constexpr std::int64_t kVersion = 1001;
  const Pickle version = reader.next("protocol version");
  check(top_integer(version) == kVersion, ErrorCode::unsupported, "'{}': legacy torch protocol version {}, expected {}",
        file.path, top_integer(version), kVersion);
  check_little_endian(reader.next("system information"), file.path);
  Pickle data = reader.next("data");
  const std::map<std::string, DType> types = storage_types(data, file.path);
  const Pickle keys = reader.next("storage keys");
  const auto* list = std::get_if<PickleSequence>(&keys.top->data);
  check(list != nullptr, ErrorCode::format, "'{}': the list of storage keys is missing", file.path);
  std::map<std::string, FileBytes> storages;
  for (const PickleValue* item : list->items) {
    const auto* key = std::get_if<std::string>(&item->data);
    const auto type = key == nullptr ? types.end() : types.find(*key);
    check(type != types.end(), ErrorCode::format, "'{}': a storage that no tensor uses", file.path);
    FileBytes rest = reader.rest();
    const std::string subject = fmt::format("'{}': storage {}", file.path, printable(*key));
    check(rest.size() >= sizeof(std::int64_t), ErrorCode::format, "{} is missing: truncated at byte {}", subject,
          file.size());
    const std::uint64_t needed = bytes_of({*key, type->second, load<std::int64_t>(rest.bytes.data())}, subject);
    check(needed <= rest.size() - sizeof(std::int64_t), ErrorCode::format, "{} has {} of {} bytes", subject,
          rest.size() - sizeof(std::int64_t), needed);
    reader.skip(sizeof(std::int64_t) + needed);
    rest.bytes = rest.bytes.subspan(sizeof(std::int64_t), needed);
    rest.offset += sizeof(std::int64_t);
    check(storages.emplace(*key, std::move(rest)).second, ErrorCode::format, "{} is listed twice", subject);
  }
  const auto read_storage = [storages = std::move(storages), path = file.path](const PickleStorage& storage,
                                                                               const std::string& tensor) {
    const std::string subject =
        fmt::format("'{}': tensor {}: storage {}", path, printable(tensor), printable(storage.key));
    const auto found = storages.find(storage.key);
    check(found != storages.end(), ErrorCode::format, "{} is not in the file", subject);
    const std::uint64_t needed = bytes_of(storage, subject);
    check(found->second.size() == needed, ErrorCode::format, "{} has {} of {} bytes", subject, found->second.size(),
          needed);
    return found->second;
  };
  return {std::move(data), read_storage};
}

}  // namespace kirchhoff::io
