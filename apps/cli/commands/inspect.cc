#include "kirchhoff/io/inspect.h"

#include <cmath>   // for isnan
#include <memory>  // for make_shared

#include "commands.h"
#include "json_option.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/model/load.h"
#include "progress_printer.h"
#include "table.h"
#include "text_width.h"
#include "token_source.h"
#include "units.h"

namespace kirchhoff::cli {
namespace {

struct InspectCommand {
  std::string file;
  JsonOption json;
  bool stats = false;
};

/// What the io module only summarises is read by the module that will read it when a model is loaded.
std::vector<std::string> deeper_checks(const io::Inspection& found) {
  if (found.format == "tokenizer") return {open_token_source(found.path).tokenizer->description()};
  if (found.format == "config") {
    const ModelConfig config = read_config(io::read_json_file(found.path), found.path);
    return {fmt::format("{} ({}): {} layers, {} heads, d_model {}, vocabulary {}", config.architecture, config.family,
                        config.n_layers, config.n_heads, config.d_model, config.d_vocab)};
  }
  return {};
}

Json stats_json(const io::TensorStats& stats) {
  const auto number = [](double value) { return std::isnan(value) ? Json(nullptr) : Json(value); };
  return {{"min", number(stats.min)},
          {"max", number(stats.max)},
          {"mean", number(stats.mean)},
          {"nans", stats.nans},
          {"infinities", stats.infinities}};
}

Json inspection_json(const io::Inspection& found, const std::vector<std::string>& remarks) {
  Json result = new_result("inspect");
  result["path"] = found.path;
  result["format"] = found.format;
  result["file_size"] = found.file_size;
  result["remarks"] = remarks;
  result["keys"] = found.keys;
  result["tensors"] = Json::array();
  for (const io::InspectedTensor& tensor : found.tensors) {
    Json entry = {{"name", tensor.name},
                  {"dtype", info(tensor.dtype).name},
                  {"shape", tensor.shape},
                  {"bytes", tensor.bytes},
                  {"offset", tensor.file_offset}};
    if (!tensor.file.empty() && tensor.file != found.path) entry["file"] = tensor.file;
    if (tensor.stats) entry["stats"] = stats_json(*tensor.stats);
    result["tensors"].push_back(std::move(entry));
  }
  return result;
}

std::string key_table(const Session& session, const Json& keys) {
  Table table({{"key"}, {"value"}});
  for (const auto& item : keys.items()) {
    const std::string value = item.value().is_string()
                                  ? item.value().get<std::string>()
                                  : item.value().dump(-1, ' ', false, Json::error_handler_t::replace);
    table.add({text::visible(item.key()), clipped(text::visible(value), 200)});
  }
  return table.render(session.out);
}

std::string tensor_table(const Session& session, const io::Inspection& found, bool stats) {
  std::vector<Column> columns = {{"tensor"}, {"dtype"}, {"shape"}, {"size", true}, {"offset", true}};
  if (stats)
    for (const char* title : {"min", "max", "mean", "NaN", "Inf"}) columns.push_back({title, true});
  Table table(columns);
  for (const io::InspectedTensor& tensor : found.tensors) {
    std::vector<Cell> row = {text::visible(tensor.name), std::string(info(tensor.dtype).name), bracketed(tensor.shape),
                             readable_bytes(tensor.bytes), std::to_string(tensor.file_offset)};
    if (tensor.stats) {
      for (const double value : {tensor.stats->min, tensor.stats->max, tensor.stats->mean})
        row.emplace_back(fmt::format("{:.4g}", value));
      for (const Index count : {tensor.stats->nans, tensor.stats->infinities})
        row.emplace_back(std::to_string(count), count > 0 ? Style::error : Style::plain);
    }
    table.add(std::move(row));
  }
  return table.render(session.out);
}

int inspect_command(Session& session, const InspectCommand& options) {
  io::Inspection found;
  {
    ProgressPrinter printer(session.err, session.quiet);
    io::InspectOptions inspect_options;
    inspect_options.stats = options.stats;
    inspect_options.progress = printer.callback();
    found = io::inspect(options.file, inspect_options);
  }
  const std::vector<std::string> remarks = deeper_checks(found);
  if (options.json.wanted()) {
    options.json.print(session, inspection_json(found, remarks));
    return 0;
  }
  Terminal& out = session.out;
  out.write(
      fmt::format("{} · {} · {}\n", found.path, found.format, readable_bytes(static_cast<Index>(found.file_size))));
  for (const std::string& remark : remarks) out.write(wrapped(remark, out.columns() - 2, "  ").append("\n"));
  if (!found.keys.empty())
    out.write(fmt::format("\n{}\n{}", out.paint(Style::title, "Keys"), key_table(session, found.keys)));
  if (!found.tensors.empty())
    out.write(fmt::format("\n{}\n{}", out.paint(Style::title, fmt::format("{} tensors", found.tensors.size())),
                          tensor_table(session, found, options.stats)));
  return 0;
}

}  // namespace

void add_inspect(Command& root, Session& session) {
  Command& command = root.add_command("inspect", "what is in a file, checked as strictly as loading checks it");
  auto options = std::make_shared<InspectCommand>();
  command.argument("FILE", options->file, "safetensors, GGUF, .pt, .npy, .npz, a tokenizer.json or a config.json");
  command.flag("--stats", options->stats, "min, max, mean, NaNs and infinities of every tensor");
  options->json.declare(command);
  command.on_run([&session, options] { return inspect_command(session, *options); });
}

}  // namespace kirchhoff::cli
