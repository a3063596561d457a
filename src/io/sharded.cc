#include "kirchhoff/io/sharded.h"

#include <filesystem>     // for path
#include <map>            // for map
#include <unordered_map>  // for unordered_map
#include <unordered_set>  // for unordered_set

#include "io/file_kind.h"
#include "io/printable.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/io/mapped_file.h"
#include "kirchhoff/io/safetensors.h"
#include "kirchhoff/io/torch_file.h"

namespace kirchhoff::io {
namespace {

/// tensor -> shard, as the index says it. A shard is a plain file name: no index may reach outside its directory.
std::unordered_map<std::string, std::string> read_weight_map(const std::string& path) {
  const auto index = read_json_file(path, {.object_at_top = true});
  const auto map = index.find("weight_map");
  check(map != index.end() && map->is_object(), ErrorCode::format, "'{}': 'weight_map' is missing or no object", path);
  std::unordered_map<std::string, std::string> result;
  for (const auto& [tensor, shard] : map->items()) {
    check(shard.is_string(), ErrorCode::format, "'{}': weight_map: the shard of {} is a {}, expected a file name", path,
          printable(tensor), shard.type_name());
    const auto& name = shard.get_ref<const std::string&>();
    constexpr std::size_t kLongest = 255;  // NAME_MAX
    check(!name.empty() && name != "." && name != ".." && name.size() <= kLongest &&
              name.find_first_of(std::string_view("/\0", 2)) == std::string::npos,
          ErrorCode::format, "'{}': weight_map: the shard of {} is {}, expected a plain file name", path,
          printable(tensor), printable(name));
    result.emplace(tensor, name);
  }
  return result;
}

Checkpoint read_shard(const std::string& path) {
  const FileBytes file = map_file(path);
  switch (file_kind(file)) {
    case FileKind::safetensors:
      return parse_safetensors(file).checkpoint;
    case FileKind::torch_zip:
    case FileKind::torch_legacy:
      return parse_torch(file).checkpoint;
    default:
      fail(ErrorCode::format, "'{}': this shard is neither a safetensors nor a torch file", path);
  }
}

}  // namespace

Checkpoint read_sharded(const std::string& index_path) {
  const auto weight_map = read_weight_map(index_path);
  std::map<std::string, Index> shards;  // -> tensors that the map expects in it
  for (const auto& [tensor, shard] : weight_map) ++shards[shard];
  Checkpoint result;
  result.path = index_path;
  result.tensors.reserve(weight_map.size());
  for (const auto& [shard, expected] : shards) {
    const std::string path = (std::filesystem::path(index_path).parent_path() / shard).string();
    std::error_code ignored;
    check(std::filesystem::exists(path, ignored), ErrorCode::not_found,
          "'{}': shard '{}', which '{}' lists, is not there", path, shard, index_path);
    Checkpoint part = read_shard(path);
    result.format = part.format;
    Index found = 0;
    for (StoredTensor& tensor : part.tensors) {
      const auto entry = weight_map.find(tensor.name);
      check(entry != weight_map.end(), ErrorCode::format, "'{}': tensor {} is not in the weight_map of '{}'", path,
            printable(tensor.name), index_path);
      check(entry->second == shard, ErrorCode::format, "'{}': tensor {} lies here, the weight_map of '{}' says in {}",
            path, printable(tensor.name), index_path, printable(entry->second));
      ++found;
      result.tensors.push_back(std::move(tensor));
    }
    if (found == expected) continue;
    std::unordered_set<std::string_view> names;
    for (const StoredTensor& tensor : result.tensors) names.insert(tensor.name);
    for (const auto& [tensor, of] : weight_map)
      check(of != shard || names.contains(tensor), ErrorCode::format,
            "'{}': tensor {} is missing, the weight_map of '{}' says it is here", path, printable(tensor), index_path);
  }
  return result;
}

}  // namespace kirchhoff::io
