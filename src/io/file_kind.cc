#include "io/file_kind.h"

#include <nlohmann/json.hpp>

#include <algorithm>  // for any_of

#include "io/bytes.h"
#include "io/llama2c.h"
#include "io/zip_archive.h"

namespace kirchhoff::io {
namespace {

/// Notes which keys stand where, and stops at the first mistake: the parser will say it.
class KeyScanner {
 public:
  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(std::int64_t) { return true; }
  bool number_unsigned(std::uint64_t) { return true; }
  bool number_float(double, const std::string&) { return true; }
  bool string(std::string&) { return true; }
  bool binary(nlohmann::json::binary_t&) { return true; }
  bool start_object(std::size_t) { return enter(); }
  bool start_array(std::size_t) { return enter(); }
  bool end_object() { return leave(); }
  bool end_array() { return leave(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) { return false; }

  bool key(std::string& name) {
    if (depth_ == 1) {
      index_ = index_ || name == "weight_map";
      tokenizer_ = tokenizer_ || name == "added_tokens" || name == "pre_tokenizer";
      member_ = 0;
    } else if (depth_ == 2) {
      member_ |= name == "shape" ? 1 : name == "data" ? 2 : name == "dtype" ? 4 : 0;
      tensors_ = tensors_ || member_ == 7;
    }
    return !tensors_ && !index_;
  }

  FileKind kind() const {
    return index_       ? FileKind::json_index
           : tensors_   ? FileKind::json_tensors
           : tokenizer_ ? FileKind::json_tokenizer
                        : FileKind::json;
  }

 private:
  bool enter() { return ++depth_ > 0; }
  bool leave() { return depth_-- > 0; }
  int depth_ = 0, member_ = 0;
  bool index_ = false, tokenizer_ = false, tensors_ = false;
};

FileKind json_kind(const FileBytes& file) {
  KeyScanner scanner;
  nlohmann::json::sax_parse(file.text(), &scanner);
  if (scanner.kind() == FileKind::json && file.path.ends_with("tokenizer.json")) return FileKind::json_tokenizer;
  return scanner.kind();
}

/// Arrays alone are an .npz; anything else can only be torch's.
FileKind zip_kind(const FileBytes& file) {
  const ZipArchive archive(file);
  const auto& members = archive.members();
  const auto ends_with = [&](std::string_view ending) {
    return std::any_of(members.begin(), members.end(), [&](const ZipMember& m) { return m.name.ends_with(ending); });
  };
  return ends_with(".npy") && !ends_with("data.pkl") ? FileKind::npz : FileKind::torch_zip;
}

bool is_safetensors(const FileBytes& file) {
  return file.size() > 8 && file.text()[8] == '{' && load<std::uint64_t>(file.bytes.data()) <= file.size() - 8;
}

FileKind kind_by_ending(std::string_view path) {
  if (path.ends_with(".safetensors")) return FileKind::safetensors;
  if (path.ends_with(".gguf")) return FileKind::gguf;
  if (path.ends_with(".npy")) return FileKind::npy;
  if (path.ends_with(".npz")) return FileKind::npz;
  if (path.ends_with(".pt") || path.ends_with(".pth")) return FileKind::torch_legacy;
  if (path.ends_with("tokenizer.json")) return FileKind::json_tokenizer;
  return path.ends_with(".json") ? FileKind::json : FileKind::unknown;
}

}  // namespace

FileKind file_kind(const FileBytes& file) {
  const std::string_view text = file.text();
  if (is_safetensors(file)) return FileKind::safetensors;
  if (text.starts_with("GGUF")) return FileKind::gguf;
  if (text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06")) return zip_kind(file);
  if (text.starts_with("\x93NUMPY")) return FileKind::npy;
  if (text.size() > 2 && text[0] == '\x80' && text[1] <= 5 && text[1] >= 0) return FileKind::torch_legacy;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && (text[first] == '{' || text[first] == '[')) return json_kind(file);
  if (is_llama2c(file)) return FileKind::llama2c;
  return kind_by_ending(file.path);
}

}  // namespace kirchhoff::io
