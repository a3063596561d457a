#pragma once
#include <functional>  // for function
#include <optional>    // for optional
#include <string>      // for string

#include "json_option.h"
#include "kirchhoff/draw/figure.h"
#include "kirchhoff/io/checkpoint.h"

namespace kirchhoff::cli {

/// The format that a file's name asks for, if it is one of a picture.
std::optional<draw::Format> picture_format(const std::string& path);
/// ".csv" of "a/b.csv".
std::string ending(const std::string& path);
/// A numpy archive's member `json`: the bytes of `text`, borrowed.
io::StoredTensor json_member(const std::string& text);
/// Draws into a file, whole or not at all.
void write_picture(const std::string& path, const draw::Figure& figure);

/// Where an analysis' result goes beside the screen: "--json", "--csv", "-o FILE".
struct ResultOutput {
  JsonOption json;
  bool csv = false;
  std::optional<std::string> path;  ///< .json, .csv, .npz; .svg and .png where there is a picture
  bool pictured = false;

  enum class Picture : std::uint8_t { none, drawn };
  void declare(Command& command, Picture picture);
  /// Error{usage} for --json with --csv and for a FILE whose ending says no such format: to be called before the work.
  void validate() const;
  /// Whether the result is wanted as data or picture.
  bool wanted() const { return path || csv || json.wanted(); }
  /// Whether a picture is.
  bool drawn() const { return path && picture_format(*path); }
  /// Whether stdout is for people: neither --json nor --csv.
  bool screen() const { return !json.wanted() && !csv; }

  /// Gives the result in every form asked for: FILE, whole or not at all; stdout. `figure` is called for pictures only.
  void write(Session& session, const Json& result, const std::function<draw::Figure()>& figure = nullptr) const;
};

}  // namespace kirchhoff::cli
