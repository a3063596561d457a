#include "kirchhoff/io/inspect.h"

#include "io/file_kind.h"
#include "io/json_members.h"
#include "io/json_tensors.h"
#include "io/llama2c.h"
#include "io/printable.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/io/gguf.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/io/numpy_file.h"
#include "kirchhoff/io/safetensors.h"
#include "kirchhoff/io/sharded.h"
#include "kirchhoff/io/torch_file.h"

namespace kirchhoff::io {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLongArray = 16, kShown = 8;

/// An array, cut if it is long.
template <class T>
Json array_json(const std::vector<T>& values) {
  Json shown = Json::array();
  const bool cut = values.size() > kLongArray;
  for (std::size_t i = 0; i < (cut ? kShown : values.size()); ++i) shown.push_back(Json(static_cast<T>(values[i])));
  if (!cut) return shown;
  return {{"array", values.size()}, {"first", std::move(shown)}};
}

/// The same for arrays anywhere in a document.
Json shortened(const Json& value) {
  Json result = value;
  if (value.is_array()) {
    std::vector<Json> items;
    for (const Json& item : value) items.push_back(shortened(item));
    return array_json(items);
  }
  if (value.is_object())
    for (auto& [key, member] : result.items()) member = shortened(member);
  return result;
}

Json gguf_json(const GgufMetadata& metadata) {
  Json keys = Json::object();
  for (const auto& [key, value] : metadata.values())
    members(keys).emplace_back(key, std::visit(
                                        [](const auto& v) -> Json {
                                          if constexpr (requires { v.push_back({}); } &&
                                                        !std::is_same_v<std::decay_t<decltype(v)>, std::string>)
                                            return array_json(v);
                                          else
                                            return v;
                                        },
                                        value));
  return keys;
}

/// The type of a part of a tokenizer: null, its "type", or those of a sequence.
Json part_type(const Json& part) {
  if (!part.is_object()) return part.is_null() ? Json() : Json(part.type_name());
  return part.value("type", Json("?"));
}

Json tokenizer_json(const Json& document, const std::string& path) {
  const auto model = document.find("model");
  check(model != document.end() && model->is_object(), ErrorCode::format, "'{}': 'model' is missing or no object",
        path);
  Json keys = {{"version", document.value("version", Json())}, {"model.type", part_type(*model)}};
  for (const char* list : {"vocab", "merges"}) {
    const auto found = model->find(list);
    if (found != model->end())
      keys[fmt::format("model.{}", list)] = {{found->is_object() ? "entries" : "array", found->size()}};
  }
  for (const char* part : {"normalizer", "pre_tokenizer", "post_processor", "decoder"})
    if (document.contains(part)) keys[part] = part_type(document[part]);
  if (document.contains("added_tokens")) keys["added_tokens"] = {{"array", document["added_tokens"].size()}};
  return keys;
}

/// The parsed file: its tensors, and its keys in `inspection`.
Checkpoint read(const FileBytes& file, Inspection& inspection) {
  Checkpoint checkpoint;
  switch (file_kind(file)) {
    case FileKind::safetensors: {
      SafetensorsFile parsed = parse_safetensors(file);
      for (const auto& [key, value] : parsed.metadata) members(inspection.keys).emplace_back(key, value);
      return std::move(parsed.checkpoint);
    }
    case FileKind::gguf: {
      GgufFile parsed = parse_gguf(file);
      inspection.keys = gguf_json(parsed.metadata);
      return std::move(parsed.checkpoint);
    }
    case FileKind::torch_zip:
    case FileKind::torch_legacy: {
      TorchFile parsed = parse_torch(file);
      if (!parsed.extra.is_null()) inspection.keys = shortened(parsed.extra);
      return std::move(parsed.checkpoint);
    }
    case FileKind::npz:
      return parse_npz(file);
    case FileKind::npy:
      return read_npy(file.path);
    case FileKind::json_tensors: {
      JsonTensors parsed = parse_json_tensors(file);
      inspection.keys = shortened(parsed.extra);
      return std::move(parsed.checkpoint);
    }
    case FileKind::llama2c: {
      Llama2cFile parsed = parse_llama2c(file);
      inspection.keys = std::move(parsed.config);
      return std::move(parsed.checkpoint);
    }
    case FileKind::json_index:
      checkpoint = read_sharded(file.path);
      checkpoint.format = "index";
      return checkpoint;
    case FileKind::json_tokenizer: {
      constexpr Index kMostBytes = Index{1} << 30;
      inspection.keys = tokenizer_json(
          parse_json(file.text(), file.path, {.max_bytes = kMostBytes, .object_at_top = true}), file.path);
      checkpoint.format = "tokenizer";
      return checkpoint;
    }
    case FileKind::json:
      inspection.keys = shortened(parse_json(file.text(), file.path, {.object_at_top = true}));
      checkpoint.format = "config";
      return checkpoint;
    case FileKind::unknown:
      break;
  }
  fail(ErrorCode::format, "'{}': no format that is known here: {} bytes, starting with {}", file.path, file.size(),
       printable(file.text().substr(0, 8)));
}

}  // namespace

Inspection inspect(const std::string& path, const InspectOptions& options) {
  const FileBytes file = map_file(path);
  Inspection result;
  result.path = path;
  result.file_size = file.size();
  result.keys = Json::object();
  const Checkpoint checkpoint = read(file, result);
  result.format = checkpoint.format;
  const auto total = static_cast<Index>(checkpoint.tensors.size());
  for (const StoredTensor& tensor : checkpoint.tensors) {
    result.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, static_cast<Index>(tensor.bytes.size()),
                              tensor.file_offset, tensor.file, std::nullopt});
    if (!options.stats) continue;
    report(options.progress, "statistics", static_cast<Index>(result.tensors.size()) - 1, total);
    throw_if_interrupted();
    result.tensors.back().stats = tensor_stats(tensor);
  }
  return result;
}

}  // namespace kirchhoff::io
