#include <algorithm>  // for max
#include <sstream>    // for istringstream

#include "draw/body.h"

namespace kirchhoff::draw {
namespace {

constexpr double kMargin = 18.0, kLine = 16.0, kNarrowest = 420.0;
constexpr TextStyle kTitle{.size = 14.0, .bold = true}, kHeader{.size = 10.5, .colour = kFaint},
    kNote{.size = 10.0, .colour = kFaint};

/// Words in lines that are at most `width` wide; a word that is wider has a line of its own.
std::vector<std::string> wrapped(const std::vector<std::string>& texts, const TextStyle& style, double width) {
  std::vector<std::string> lines;
  for (const std::string& text : texts) {
    std::istringstream words(text);
    std::string line;
    for (std::string word; words >> word;) {
      const std::string longer = line.empty() ? word : line + " " + word;
      if (!line.empty() && text_width(longer, style) > width) {
        lines.push_back(line);
        line = word;
      } else {
        line = longer;
      }
    }
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

double draw_lines(Canvas& canvas, const std::vector<std::string>& lines, const TextStyle& style, double y) {
  for (const std::string& line : lines) {
    y += kLine;
    canvas.text({kMargin, y - 4.0}, line, style);
  }
  return y;
}

}  // namespace

std::string render(const Figure& figure, Format format) {
  const std::unique_ptr<Body> body = std::visit([](const auto& data) { return body_of(data); }, figure.body);
  const double width = std::max(body->width(), kNarrowest);
  const std::vector<std::string> title = wrapped({figure.caption.title}, kTitle, width),
                                 header = wrapped(figure.caption.header, kHeader, width),
                                 notes = wrapped(figure.caption.notes, kNote, width);
  const double lines = kLine * static_cast<double>(title.size() + header.size() + notes.size());
  constexpr double kGap = 12.0;
  Canvas canvas(width + 2.0 * kMargin, lines + body->height() + 2.0 * kMargin + 2.0 * kGap, format);
  double y = draw_lines(canvas, title, kTitle, kMargin);
  y = draw_lines(canvas, header, kHeader, y) + kGap;
  body->draw(canvas, {kMargin, y});
  draw_lines(canvas, notes, kNote, y + body->height() + kGap);
  return canvas.finish();
}

}  // namespace kirchhoff::draw
