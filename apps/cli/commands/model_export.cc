// kirchhoff model export: a model's weights in another precision.
#include <filesystem>  // for copy_file, exists, file_size, is_directory
#include <memory>      // for make_shared
#include <optional>    // for optional

#include "commands.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/io/directory.h"
#include "kirchhoff/model/model_format.h"
#include "opened_model.h"
#include "units.h"

namespace kirchhoff::cli {
namespace {

namespace fs = std::filesystem;

struct ExportCommand {
  ModelOptions model;
  std::optional<std::string> directory;
  std::string dtype = "F16";
};

int export_command(Session& session, const ExportCommand& options) {
  check(options.directory.has_value(), ErrorCode::usage, "option '-o': the directory to write is missing");
  const OpenedModel opened = open_model(options.model.model);
  check(opened.files.kind != io::ModelKind::gguf && opened.files.kind != io::ModelKind::plain, ErrorCode::unsupported,
        "'{}': only models with a Hugging Face or TransformerLens config are exported", opened.files.argument);
  std::error_code error;
  check(!fs::exists(*options.directory + "/config.json", error), ErrorCode::usage,
        "option '-o': '{}' holds a model already", *options.directory);
  const Model model = load_weights(session, opened, options.model);
  io::make_directories(*options.directory);
  const ModelFormat format(opened.files.config, opened.files.config_path);
  format.write(*options.directory, model,
               options.dtype == "F32"    ? DType::f32
               : options.dtype == "BF16" ? DType::bf16
                                         : DType::f16);
  // What belongs to the model besides: its tokenizer, its card and the record of its training.
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "README.md", "history.jsonl"}) {
    const fs::path from = fs::path(opened.files.path) / name;
    if (!fs::is_directory(opened.files.path) || !fs::exists(from)) continue;
    fs::copy_file(from, fs::path(*options.directory) / name, fs::copy_options::overwrite_existing, error);
    check(!error, ErrorCode::io, "'{}': cannot be copied: {}", from.string(), error.message());
  }
  const auto size = static_cast<Index>(fs::file_size(*options.directory + "/model.safetensors"));
  session.out.write(fmt::format("{}: {} of weights as {}\n", *options.directory, readable_bytes(size), options.dtype));
  return 0;
}

}  // namespace

void add_model_export(Command& model, Session& session) {
  Command& command =
      model.add_command("export", "write a model's weights as F16, BF16 or F32, with all that goes with it");
  auto options = std::make_shared<ExportCommand>();
  options->model.declare(command);
  command.option("-o,--output", "DIR", options->directory, "the directory to write");
  command.option("--dtype", "TYPE", options->dtype, "default F16", {"F32", "F16", "BF16"});
  command.on_run([&session, options] { return export_command(session, *options); });
}

}  // namespace kirchhoff::cli
