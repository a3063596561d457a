#pragma once
#include <cstdio>       // for FILE
#include <string>       // for string
#include <string_view>  // for string_view

#include "kirchhoff/base/types.h"

namespace kirchhoff::cli {

enum class ColorMode { automatic, always, never };

/// What a piece of text means; the terminal decides what that looks like.
enum class Style { plain, strong, faint, title, token, positive, negative, error, warning, good };

/// One output stream: whether it is a terminal, whether colour is wanted, how wide it is.
///
/// Colour, first rule that applies: --color always/never; NO_COLOR; CLICOLOR_FORCE; TERM=dumb or CLICOLOR=0; a
/// terminal.
class Terminal {
 public:
  Terminal(std::FILE* stream, ColorMode mode);
  bool is_tty() const { return tty_; }
  bool color() const { return color_; }
  /// COLUMNS, else the window's width, else 100.
  Index columns() const { return columns_; }

  std::string paint(Style style, std::string_view text) const;
  /// `text` on a background that shows value in [-1, 1]: blue for positive, orange for negative, none near 0.
  std::string heat(double value, std::string_view text) const;

  /// Writes to the stream. Throws Error{io} if the system refuses; a reader that went away is no error (`closed`).
  void write(std::string_view text);
  void flush();
  bool closed() const { return closed_; }

 private:
  std::FILE* stream_;
  bool tty_ = false, color_ = false, closed_ = false;
  Index columns_ = 100;
};

}  // namespace kirchhoff::cli
