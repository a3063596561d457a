#include "io/hub_cache.h"

#include <algorithm>   // for all_of
#include <cstdlib>     // for getenv
#include <filesystem>  // for path
#include <fstream>     // for ifstream
#include <vector>      // for vector

#include "kirchhoff/base/error.h"

namespace kirchhoff::io {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// As huggingface_hub resolves it (constants.py).
fs::path cache_folder() {
  if (const std::string cache = variable("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const std::string home = variable("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  const std::string xdg = variable("XDG_CACHE_HOME");
  const fs::path base = xdg.empty() ? fs::path(variable("HOME")) / ".cache" : fs::path(xdg);
  return base / "huggingface" / "hub";
}

/// The commit that refs/<revision> names, or the revision itself: it may be a commit.
std::string commit_of(const fs::path& repository, const std::string& revision) {
  std::ifstream file(repository / "refs" / revision);
  std::string commit;
  if (file >> commit) return commit;
  return revision;
}

std::vector<fs::path> snapshots_of(const fs::path& repository) {
  std::vector<fs::path> snapshots;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(repository / "snapshots", ignored)) snapshots.push_back(entry.path());
  return snapshots;
}

bool is_name_part(std::string_view part) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  return !part.empty() && part != "." && part != ".." && std::all_of(part.begin(), part.end(), allowed);
}

}  // namespace

bool is_hub_name(std::string_view name) {
  const std::size_t at = name.find('@');
  if (at != std::string_view::npos) {
    // A revision may be a branch with slashes ("refs/pr/1"); each part of it is checked, for it becomes a path.
    std::string_view revision = name.substr(at + 1);
    for (std::size_t slash; (slash = revision.find('/')) != std::string_view::npos; revision.remove_prefix(slash + 1))
      if (!is_name_part(revision.substr(0, slash))) return false;
    if (!is_name_part(revision)) return false;
    name = name.substr(0, at);
  }
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos) return is_name_part(name);
  return is_name_part(name.substr(0, slash)) && is_name_part(name.substr(slash + 1));
}

std::string find_in_hub_cache(std::string_view name) {
  const std::size_t at = name.find('@');
  const std::string repository_name(name.substr(0, at));
  const std::string revision(at == std::string_view::npos ? "main" : name.substr(at + 1));
  std::string folder = "models--" + repository_name;
  if (const std::size_t slash = folder.find('/'); slash != std::string::npos) folder.replace(slash, 1, "--");
  const fs::path repository = cache_folder() / folder;
  const fs::path snapshot = repository / "snapshots" / commit_of(repository, revision);
  if (fs::is_directory(snapshot)) return snapshot.string();
  if (at == std::string_view::npos)
    if (const auto snapshots = snapshots_of(repository); snapshots.size() == 1) return snapshots.front().string();
  const std::string option = at == std::string_view::npos ? "" : " --revision " + revision;
  throw Error(ErrorCode::not_found,
              fmt::format("'{}' is neither a file or directory here nor a model in the Hub cache '{}'", name,
                          cache_folder().string()),
              fmt::format("a model of the Hub is downloaded by: hf download {}{}", repository_name, option));
}

}  // namespace kirchhoff::io
