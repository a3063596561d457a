#include "result_output.h"

#include <filesystem>  // for path

#include "kirchhoff/base/error.h"
#include "kirchhoff/io/tensor_writer.h"
#include "kirchhoff/io/whole_file.h"
#include "kirchhoff/study/result_table.h"

namespace kirchhoff::cli {
namespace {

/// The result's numbers as arrays and `json`, all of it, as bytes.
void write_result_arrays(const std::string& path, const Json& result) {
  const auto arrays = arrays_of(result);
  std::vector<io::StoredTensor> stored;
  for (const auto& [name, tensor] : arrays) stored.push_back(io::borrowed(name, tensor));
  const std::string text = json_line(result);
  stored.push_back(json_member(text));
  io::write_npz(path, stored);
}

}  // namespace

std::string ending(const std::string& path) { return std::filesystem::path(path).extension().string(); }

std::optional<draw::Format> picture_format(const std::string& path) {
  const std::string extension = ending(path);
  if (extension == ".svg") return draw::Format::svg;
  if (extension == ".png") return draw::Format::png;
  return std::nullopt;
}

io::StoredTensor json_member(const std::string& text) {
  return {"json",   DType::u8, {static_cast<Index>(text.size())}, std::as_bytes(std::span(text.data(), text.size())), 0,
          "memory", nullptr};
}

void write_picture(const std::string& path, const draw::Figure& figure) {
  io::write_whole_file(path, draw::render(figure, picture_format(path).value()));
}

void ResultOutput::declare(Command& command, Picture picture) {
  pictured = picture == Picture::drawn;
  command.option("-o,--output", "FILE", path,
                 pictured ? "also write the result: .svg, .png, .json, .csv or .npz"
                          : "also write the result: .json, .csv or .npz");
  command.flag("--csv", csv, "print the result's table as CSV");
  json.declare(command);
}

void ResultOutput::validate() const {
  check(!(csv && json.wanted()), ErrorCode::usage, "options '--csv' and '--json' were both given");
  if (!path) return;
  const std::string extension = ending(*path);
  const bool data = extension == ".json" || extension == ".csv" || extension == ".npz";
  check(data || (pictured && picture_format(*path)), ErrorCode::usage, "option '--output': '{}' ends in none of {}",
        *path, pictured ? ".svg, .png, .json, .csv, .npz" : ".json, .csv, .npz");
}

void ResultOutput::write(Session& session, const Json& result, const std::function<draw::Figure()>& figure) const {
  if (path) {
    const std::string extension = ending(*path);
    if (picture_format(*path)) {
      check(figure != nullptr, ErrorCode::usage,
            "option '--output': this result has no picture, so '{}' cannot be written", *path);
      write_picture(*path, figure());
    } else if (extension == ".npz") {
      write_result_arrays(*path, result);
    } else {
      io::write_whole_file(*path, extension == ".csv" ? csv_of(result) : json_line(result));
    }
    if (!session.quiet) session.err.write(fmt::format("wrote {}\n", *path));
  }
  if (csv) session.out.write(csv_of(result));
  if (json.wanted()) json.print(session, result);
}

}  // namespace kirchhoff::cli
