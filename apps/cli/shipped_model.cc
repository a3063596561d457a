#include "shipped_model.h"

#include <fmt/format.h>

#include <filesystem>  // for exists, path, read_symlink

#include "kirchhoff/base/error.h"

namespace kirchhoff::cli {

std::string shipped_model_directory() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  check(!error, ErrorCode::not_found, "the model that ships with Kirchhoff: cannot find out where the program lies: {}",
        error.message());
  const fs::path place = fs::path("share") / "kirchhoff" / kShippedModel;
  const fs::path built = program.parent_path() / place, installed = program.parent_path().parent_path() / place;
  for (const fs::path& directory : {built, installed})
    if (fs::exists(directory / "config.json", error)) return directory.string();
  throw Error(ErrorCode::not_found,
              fmt::format("the model that ships with Kirchhoff is neither in '{}' nor in '{}'", built.string(),
                          installed.string()),
              "build or install again, or name a model");
}

}  // namespace kirchhoff::cli
