#include "kirchhoff/io/model_files.h"

#include <algorithm>   // for sort
#include <filesystem>  // for path
#include <set>         // for set

#include "io/file_kind.h"
#include "io/hub_cache.h"
#include "io/json_tensors.h"
#include "io/llama2c.h"
#include "io/printable.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/base/progress.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/io/numpy_file.h"
#include "kirchhoff/io/safetensors.h"
#include "kirchhoff/io/sha256.h"
#include "kirchhoff/io/sharded.h"
#include "kirchhoff/io/torch_file.h"

namespace kirchhoff::io {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

bool is_transformer_lens(const Json& config) {
  for (const char* key : {"d_model", "n_ctx", "d_vocab", "n_heads"})
    if (!config.contains(key)) return false;
  return !config.contains("model_type") &&
         (config.contains("normalization_type") || config.contains("positional_embedding_type"));
}

bool is_hugging_face(const Json& config) { return config.contains("model_type") || config.contains("architectures"); }

Json read_object(const fs::path& path) { return read_json_file(path.string(), {.object_at_top = true}); }

Json read_object_if_there(const fs::path& path) { return fs::exists(path) ? read_object(path) : Json(); }

void set_config(ModelFiles& files, const fs::path& path) {
  files.config = read_object(path);
  files.config_path = path.string();
}

/// What else may lie beside the weights.
void add_companions(ModelFiles& files, const fs::path& directory) {
  files.generation_config = read_object_if_there(directory / "generation_config.json");
  files.tokenizer_config = read_object_if_there(directory / "tokenizer_config.json");
  if (const fs::path tokenizer = directory / "tokenizer.json"; fs::exists(tokenizer))
    files.tokenizer_path = tokenizer.string();
}

void add_llama2c_tokenizer(ModelFiles& files, const fs::path& directory) {
  const auto size = files.config.at("vocab_size").get<Index>();
  for (const std::string& name : {fmt::format("tok{}.bin", size), std::string("tokenizer.bin")})
    if (const fs::path path = directory / name; fs::exists(path)) {
      files.tokenizer_path = path.string();
      return;
    }
}

/// Reads the tensors of `path`, and the configuration that it carries itself if there is none beside it.
void read_weights(ModelFiles& files, const std::string& path) {
  const FileBytes file = map_file(path);
  Json inside;
  switch (file_kind(file)) {
    case FileKind::safetensors:
      files.checkpoint = parse_safetensors(file).checkpoint;
      break;
    case FileKind::json_index:
      files.checkpoint = read_sharded(path);
      break;
    case FileKind::torch_zip:
    case FileKind::torch_legacy: {
      TorchFile torch = parse_torch(file);
      files.checkpoint = std::move(torch.checkpoint);
      inside = std::move(torch.extra);
      break;
    }
    case FileKind::npz:
      files.checkpoint = parse_npz(file);
      break;
    case FileKind::npy:
      files.checkpoint = read_npy(path);
      break;
    case FileKind::json_tensors: {
      JsonTensors json = parse_json_tensors(file);
      files.checkpoint = std::move(json.checkpoint);
      inside = std::move(json.extra);
      break;
    }
    case FileKind::llama2c: {
      Llama2cFile llama = parse_llama2c(file);
      files.checkpoint = std::move(llama.checkpoint);
      inside = std::move(llama.config);
      break;
    }
    case FileKind::gguf: {
      GgufFile gguf = parse_gguf(file);
      gguf.metadata.text("general.architecture");  // a file without it is no model
      files.kind = ModelKind::gguf;
      files.config = nullptr;  // a directory of GGUF files may have a config.json; the file says all by itself
      files.config_path.clear();
      files.gguf = std::move(gguf.metadata);
      files.checkpoint = std::move(gguf.checkpoint);
      break;
    }
    case FileKind::json_tokenizer:
      fail(ErrorCode::format, "'{}' is a tokenizer, expected a model", path);
    case FileKind::json:
      parse_json(file.text(), path, {.object_at_top = true});  // says what is wrong with it, if anything is
      fail(ErrorCode::format, "'{}' is JSON without tensors, expected a model (for config.json, name its directory)",
           path);
    case FileKind::unknown:
      fail(ErrorCode::format, "'{}' is no model file that is known here: {} bytes, starting with {}", path, file.size(),
           printable(file.text().substr(0, 8)));
  }
  if (files.config.is_null() && inside.is_object() && !inside.empty()) {
    files.config = std::move(inside);
    files.config_path = path;
  }
}

/// What other programs computed from the model, for `model verify`.
bool holds_expected_values(const fs::path& path) {
  return path.filename() == "expected.safetensors" || path.filename() == "cache.safetensors";
}

/// The weights of a directory, preferred as transformers prefers them; then the only file with a fitting ending. Empty
/// if there are none; Error{usage} that lists them if it is not clear which.
std::string find_weights(const fs::path& directory) {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                           "pytorch_model.bin.index.json", "model.pt", "model.pth"})
    if (const fs::path path = directory / name; fs::exists(path)) return path.string();
  for (const std::vector<std::string_view>& endings :
       std::vector<std::vector<std::string_view>>{{".safetensors"}, {".gguf"}, {".pt", ".pth", ".bin"}, {".npz"}}) {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(directory))
      for (const std::string_view ending : endings)
        if (entry.path().extension() == ending && !holds_expected_values(entry.path()))
          found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    check(found.size() <= 1, ErrorCode::usage, "'{}' holds several models, name one of them: {}", directory.string(),
          fmt::join(found, ", "));
    if (!found.empty()) return (directory / found.front()).string();
  }
  return {};
}

ModelFiles open_directory(const std::string& argument, const fs::path& directory, const OpenOptions& options) {
  ModelFiles files;
  files.argument = argument;
  files.path = directory.string();
  add_companions(files, directory);
  files.kind = ModelKind::plain;
  if (const fs::path config = directory / "tl_config.json"; fs::exists(config)) {
    set_config(files, config);
    files.kind = ModelKind::transformer_lens;
  } else if (const fs::path hf_config = directory / "config.json"; fs::exists(hf_config)) {
    set_config(files, hf_config);
    files.kind = is_transformer_lens(files.config) ? ModelKind::transformer_lens : ModelKind::hugging_face;
  }
  const bool tokenizer_is_enough = !options.weights && !files.tokenizer_path.empty();
  if (tokenizer_is_enough) return files;
  const std::string weights = find_weights(directory);
  check(!weights.empty(), ErrorCode::not_found,
        "'{}' holds no weights (model.safetensors, its index, pytorch_model.bin, model.pt, or one GGUF file)",
        files.path);
  read_weights(files, weights);
  return files;
}

/// The configuration beside a single file: of the same name, or the directory's.
void find_sidecar(ModelFiles& files, const fs::path& path) {
  for (const fs::path& sidecar : {fs::path(path).replace_extension(".json"), path.parent_path() / "tl_config.json",
                                  path.parent_path() / "config.json"}) {
    if (sidecar == path || !fs::exists(sidecar)) continue;
    set_config(files, sidecar);
    if (is_transformer_lens(files.config) || sidecar.filename() == "tl_config.json")
      files.kind = ModelKind::transformer_lens;
    else if (is_hugging_face(files.config))
      files.kind = ModelKind::hugging_face;
    return;
  }
}

ModelFiles open_file(const std::string& argument, const fs::path& path, const OpenOptions& options) {
  ModelFiles files;
  files.argument = argument;
  files.path = path.string();
  files.kind = ModelKind::plain;
  const FileKind kind = file_kind(map_file(files.path));
  if (kind == FileKind::json_tokenizer && !options.weights) {
    add_companions(files, path.parent_path());
    files.tokenizer_path = files.path;
    return files;
  }
  const bool carries_its_config = kind == FileKind::gguf || kind == FileKind::json_tensors || kind == FileKind::llama2c;
  if (!carries_its_config) {
    add_companions(files, path.parent_path());
    find_sidecar(files, path);
  }
  read_weights(files, files.path);
  if (kind == FileKind::llama2c) add_llama2c_tokenizer(files, path.parent_path());
  return files;
}

}  // namespace

ModelFiles open_model_files(const std::string& argument, const OpenOptions& options) {
  std::error_code unreadable;
  const fs::file_status status = fs::status(argument, unreadable);
  if (fs::is_directory(status)) return open_directory(argument, argument, options);
  if (fs::exists(status)) return open_file(argument, argument, options);
  check(is_hub_name(argument), ErrorCode::not_found, "'{}': there is no such file or directory", argument);
  return open_directory(argument, find_in_hub_cache(argument), options);
}

std::string content_hash(const ModelFiles& files) {
  std::set<std::string> paths;
  for (const StoredTensor& tensor : files.checkpoint.tensors) paths.insert(tensor.file);
  Sha256 hash;
  for (const std::string& path : paths) {
    const FileBytes file = map_file(path);
    constexpr std::size_t kStep = std::size_t{16} << 20;  // between two looks at whether the user wants to stop
    for (Bytes rest = file.bytes; !rest.empty(); rest = rest.subspan(std::min(kStep, rest.size()))) {
      throw_if_interrupted();
      hash.add(rest.first(std::min(kStep, rest.size())));
    }
  }
  return hash.finish();
}

}  // namespace kirchhoff::io
