#include "draw/canvas.h"

#include <cairo-svg.h>
#include <cairo.h>

#include <cmath>    // for ceil, floor
#include <numbers>  // for pi

#include "kirchhoff/base/error.h"

namespace kirchhoff::draw {
namespace {

constexpr double kPixelsAUnit = 2.0;  // of PNG: sharp on today's screens

cairo_status_t append(void* closure, const unsigned char* data, unsigned int length) {
  static_cast<std::string*>(closure)->append(reinterpret_cast<const char*>(data), length);
  return CAIRO_STATUS_SUCCESS;
}

void check_status(cairo_status_t status) {
  check(status == CAIRO_STATUS_SUCCESS,
        status == CAIRO_STATUS_NO_MEMORY ? ErrorCode::out_of_memory : ErrorCode::internal,
        "the picture cannot be drawn: {}", cairo_status_to_string(status));
}

void select_font(cairo_t* context, const TextStyle& style) {
  cairo_select_font_face(context, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                         style.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
  cairo_set_font_size(context, style.size);
}

double advance(cairo_t* context, const std::string& text) {
  cairo_text_extents_t extents;
  cairo_text_extents(context, text.c_str(), &extents);
  return extents.x_advance;
}

/// Cairo numbers the surfaces of a process in `<g id="surface7">`: the same picture is to be the same bytes.
void forget_surface_number(std::string& svg) {
  constexpr std::string_view kMark = "<g id=\"surface";
  const std::size_t at = svg.find(kMark);
  if (at == std::string::npos) return;
  const std::size_t first = at + kMark.size();
  svg.erase(first, svg.find('"', first) - first);
}

}  // namespace

struct Canvas::Cairo {
  Format format{};
  std::string bytes{};
  cairo_surface_t* surface = nullptr;
  cairo_t* context = nullptr;

  Cairo(double width, double height, Format format_) : format(format_) {
    if (format == Format::svg)
      surface = cairo_svg_surface_create_for_stream(append, &bytes, width, height);
    else
      surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(std::ceil(width * kPixelsAUnit)),
                                           static_cast<int>(std::ceil(height * kPixelsAUnit)));
    context = cairo_create(surface);
    if (format == Format::png) cairo_scale(context, kPixelsAUnit, kPixelsAUnit);
  }
  ~Cairo() {
    cairo_destroy(context);
    cairo_surface_destroy(surface);
  }
  Cairo(const Cairo&) = delete;
  Cairo& operator=(const Cairo&) = delete;

  void source(Colour colour, double opacity = 1.0) const {
    cairo_set_source_rgba(context, colour.r, colour.g, colour.b, opacity);
  }
  void path(const Box& box) const { cairo_rectangle(context, box.x, box.y, box.width, box.height); }
  void stroke(Colour colour, double width) const {
    source(colour);
    cairo_set_line_width(context, width);
    cairo_stroke(context);
  }
};

double text_width(const std::string& text, const TextStyle& style) {
  cairo_surface_t* surface = cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1);
  cairo_t* context = cairo_create(surface);
  select_font(context, style);
  const double width = advance(context, text);
  cairo_destroy(context);
  cairo_surface_destroy(surface);
  return width;
}

Canvas::Canvas(double width, double height, Format format) : cairo_(std::make_unique<Cairo>(width, height, format)) {
  check_status(cairo_status(cairo_->context));
  cairo_->source(kWhite);
  cairo_paint(cairo_->context);
}

Canvas::~Canvas() = default;

void Canvas::fill(const Box& box, Colour colour) {
  // Neighbouring boxes meet without a hairline between them.
  cairo_set_antialias(cairo_->context, CAIRO_ANTIALIAS_NONE);
  cairo_->source(colour);
  cairo_->path(box);
  cairo_fill(cairo_->context);
  cairo_set_antialias(cairo_->context, CAIRO_ANTIALIAS_DEFAULT);
}

void Canvas::frame(const Box& box, Colour colour, double width) {
  cairo_->path(box);
  cairo_->stroke(colour, width);
}

void Canvas::hatch(const Box& box) {
  constexpr double kStep = 5.0;
  cairo_t* context = cairo_->context;
  cairo_save(context);
  cairo_->path(box);
  cairo_clip(context);
  // On lines where x + y is a multiple of the step, so that neighbouring boxes' strokes meet.
  const double bottom = box.y + box.height;
  for (double x = std::floor((box.x + box.y) / kStep) * kStep - bottom; x < box.x + box.width; x += kStep) {
    cairo_move_to(context, x, bottom);
    cairo_line_to(context, x + box.height, box.y);
  }
  cairo_->stroke(kGrid, 0.7);
  cairo_restore(context);
}

void Canvas::line(XY from, XY to, Colour colour, double width, bool dashed) {
  cairo_t* context = cairo_->context;
  const double dash[] = {3.0 + width, 2.0 + width};
  if (dashed) cairo_set_dash(context, dash, 2, 0.0);
  cairo_move_to(context, from.x, from.y);
  cairo_line_to(context, to.x, to.y);
  cairo_->stroke(colour, width);
  cairo_set_dash(context, nullptr, 0, 0.0);
}

void Canvas::curve(const std::vector<XY>& points, Colour colour, double width) {
  cairo_new_path(cairo_->context);
  for (const XY& point : points) cairo_line_to(cairo_->context, point.x, point.y);
  cairo_->stroke(colour, width);
}

void Canvas::area(const std::vector<XY>& border, Colour colour, double opacity) {
  cairo_new_path(cairo_->context);
  for (const XY& point : border) cairo_line_to(cairo_->context, point.x, point.y);
  cairo_close_path(cairo_->context);
  cairo_->source(colour, opacity);
  cairo_fill(cairo_->context);
}

void Canvas::dot(XY centre, double radius, Colour colour, double opacity) {
  cairo_->source(colour, opacity);
  cairo_new_path(cairo_->context);
  cairo_arc(cairo_->context, centre.x, centre.y, radius, 0.0, 2.0 * std::numbers::pi);
  cairo_fill(cairo_->context);
}

void Canvas::text(XY at, const std::string& text, const TextStyle& style) {
  cairo_t* context = cairo_->context;
  cairo_save(context);
  select_font(context, style);
  cairo_->source(style.colour);
  cairo_translate(context, at.x, at.y);
  cairo_rotate(context, style.turned * std::numbers::pi / 180.0);
  const double width = style.align == Align::left ? 0.0 : advance(context, text);
  cairo_move_to(context, style.align == Align::right ? -width : -width / 2.0, 0.0);
  cairo_show_text(context, text.c_str());
  cairo_restore(context);
}

std::string Canvas::finish() {
  check_status(cairo_status(cairo_->context));
  if (cairo_->format == Format::png)
    check_status(cairo_surface_write_to_png_stream(cairo_->surface, append, &cairo_->bytes));
  else
    cairo_surface_finish(cairo_->surface);
  check_status(cairo_surface_status(cairo_->surface));
  if (cairo_->format == Format::svg) forget_surface_number(cairo_->bytes);
  return std::move(cairo_->bytes);
}

}  // namespace kirchhoff::draw
