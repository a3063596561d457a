#include "token_source.h"

#include <filesystem>  // for is_regular_file

#include "kirchhoff/base/error.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/io/mapped_file.h"
#include "kirchhoff/model/tokenizer.h"

namespace kirchhoff::cli {
namespace {

/// Whether the argument is a JSON file that is no model description: then it can only be a tokenizer.json.
bool is_tokenizer_file(const std::string& argument) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_regular_file(argument, ignored)) return false;
  const std::string name = fs::path(argument).filename().string();
  if (!name.ends_with(".json")) return false;
  if (name.ends_with("tokenizer.json")) return true;
  const auto json = io::read_json_file(argument);
  return json.is_object() && (json.contains("added_tokens") || json.contains("pre_tokenizer"));
}

}  // namespace

TokenSource open_token_source(const std::string& argument) {
  TokenSource source;
  if (is_tokenizer_file(argument)) {
    source.files.kind = io::ModelKind::hugging_face;
    source.files.argument = source.files.path = source.files.tokenizer_path = argument;
    const std::string beside = (std::filesystem::path(argument).parent_path() / "tokenizer_config.json").string();
    if (std::filesystem::exists(beside)) source.files.tokenizer_config = io::read_json_file(beside);
  } else {
    source.files = io::open_model_files(argument, {.weights = false});
  }
  source.tokenizer = make_tokenizer(source.files);
  check(source.tokenizer != nullptr, ErrorCode::not_found, "'{}' has no tokenizer", argument);
  return source;
}

}  // namespace kirchhoff::cli
