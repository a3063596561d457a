#include "patch_file.h"

#include "json_option.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/io/tensor_writer.h"
#include "kirchhoff/io/whole_file.h"
#include "result_output.h"

namespace kirchhoff::cli {
namespace {

TensorF64 scalar(double value) {
  TensorF64 tensor{Shape{}};
  tensor[0] = value;
  return tensor;
}

/// Something of every cell as a tensor of the grid's shape.
template <class OfCell>
TensorF64 tensor_of(const PatchGrid& grid, const OfCell& of_cell) {
  TensorF64 tensor(grid.shape);
  for (Index i = 0; i < tensor.size(); ++i) tensor[i] = of_cell(static_cast<std::size_t>(i));
  return tensor;
}

void write_archive(const std::string& path, const PatchView& view, const Json& result) {
  const PatchGrid& grid = view.grid();
  std::vector<std::pair<std::string, TensorF64>> tensors;
  tensors.emplace_back("values", tensor_of(grid, [&](std::size_t i) { return grid.values[i]; }));
  tensors.emplace_back("clean", scalar(grid.clean));
  if (grid.corrupt) tensors.emplace_back("corrupt", scalar(*grid.corrupt));
  if (view.share(0.0))
    tensors.emplace_back("normalised",
                         tensor_of(grid, [&](std::size_t i) { return *grid.normalised(grid.values[i]); }));
  if (!view.summary.intervals.empty()) {
    tensors.emplace_back("low", tensor_of(grid, [&](std::size_t i) { return view.summary.intervals[i].low; }));
    tensors.emplace_back("high", tensor_of(grid, [&](std::size_t i) { return view.summary.intervals[i].high; }));
  }
  std::vector<io::StoredTensor> stored;
  for (const auto& [name, tensor] : tensors) stored.push_back(io::borrowed(name, tensor));
  Json rest = result;
  for (const char* key : {"values", "normalised", "interval", "normalised_interval"}) rest.erase(key);
  const std::string text = json_line(rest);
  stored.push_back(json_member(text));
  io::write_npz(path, stored);
}

}  // namespace

void check_patch_file(const std::string& path) {
  const std::string extension = ending(path);
  check(extension == ".npz" || extension == ".csv" || extension == ".json" || picture_format(path), ErrorCode::usage,
        "option '--output': '{}' ends in none of .svg, .png, .npz, .csv, .json", path);
}

void write_patch_file(const std::string& path, const PatchView& view, const Json& result, const draw::Figure& picture) {
  const std::string extension = ending(path);
  if (picture_format(path))
    write_picture(path, picture);
  else if (extension == ".npz")
    write_archive(path, view, result);
  else
    io::write_whole_file(path, extension == ".csv" ? patch_csv(view) : json_line(result));
}

}  // namespace kirchhoff::cli
