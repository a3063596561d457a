#include <algorithm>  // for max, stable_sort
#include <cmath>      // for abs

#include "draw/body.h"
#include "draw/scales.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::draw {
namespace {

constexpr double kNode = 20.0, kSpan = 150.0, kTitleHeight = 38.0, kPanelGap = 30.0, kWidest = 7.0, kFoot = 34.0;

double side_width(const std::vector<std::string>& names, const std::string& axis) {
  return std::max(widest(names), text_width(axis, {.size = 10.0})) + 10.0;
}

class BipartiteBody : public Body {
 public:
  explicit BipartiteBody(const Bipartite& diagram)
      : diagram_(diagram),
        left_(side_width(diagram.left, diagram.left_axis)),
        right_(side_width(diagram.right, diagram.right_axis)) {
    check(!diagram.left.empty() && !diagram.right.empty() && !diagram.panels.empty(), ErrorCode::usage,
          "a diagram without nodes cannot be drawn");
    for (const Bipartite::Panel& panel : diagram.panels)
      for (const Bipartite::Edge& edge : panel.edges) {
        check(edge.from >= 0 && edge.from < static_cast<Index>(diagram.left.size()) && edge.to >= 0 &&
                  edge.to < static_cast<Index>(diagram.right.size()),
              ErrorCode::usage, "diagram '{}': an edge from {} to {} has no such nodes", panel.title, edge.from,
              edge.to);
        full_ = std::max(full_, std::abs(edge.weight));
      }
    if (full_ == 0.0) full_ = 1.0;
  }

  double width() const override { return panel_width() * static_cast<double>(diagram_.panels.size()); }
  double height() const override { return kTitleHeight + nodes_height() + kFoot; }

  void draw(Canvas& canvas, XY origin) const override {
    for (std::size_t i = 0; i < diagram_.panels.size(); ++i)
      draw_panel(canvas, diagram_.panels[i], {origin.x + static_cast<double>(i) * panel_width(), origin.y});
    const double y = origin.y + height() - kFoot / 2.0 + 6.0;
    canvas.line({origin.x, y - 4.0}, {origin.x + 34.0, y - 4.0}, series_colour(0), kWidest);
    canvas.text({origin.x + 42.0, y}, number(full_) + " " + diagram_.weight_name + "; dashed: negative");
  }

 private:
  double panel_width() const { return left_ + kSpan + right_ + kPanelGap; }
  double nodes_height() const {
    return kNode * static_cast<double>(std::max(diagram_.left.size(), diagram_.right.size()));
  }
  /// Both columns are centred.
  double node_y(double top, Index i, std::size_t count) const {
    return top + (nodes_height() - kNode * static_cast<double>(count)) / 2.0 + kNode * (static_cast<double>(i) + 0.5);
  }

  void draw_panel(Canvas& canvas, const Bipartite::Panel& panel, XY origin) const {
    const double from_x = origin.x + left_, to_x = from_x + kSpan, top = origin.y + kTitleHeight;
    canvas.text({from_x + kSpan / 2.0, origin.y + 11.0}, panel.title, {.align = Align::centre, .bold = true});
    canvas.text({from_x, origin.y + 29.0}, diagram_.left_axis, {.size = 10.0, .align = Align::right, .colour = kFaint});
    canvas.text({to_x, origin.y + 29.0}, diagram_.right_axis, {.size = 10.0, .colour = kFaint});
    std::vector<Bipartite::Edge> edges = panel.edges;  // wide ones last, on top
    std::stable_sort(edges.begin(), edges.end(), [](const Bipartite::Edge& a, const Bipartite::Edge& b) {
      return std::abs(a.weight) < std::abs(b.weight);
    });
    for (const Bipartite::Edge& edge : edges) {
      constexpr double kNarrowest = 0.15;
      const double share = std::abs(edge.weight) / full_;
      if (share * kWidest < kNarrowest) continue;  // would be a hair
      canvas.line({from_x, node_y(top, edge.from, diagram_.left.size())},
                  {to_x, node_y(top, edge.to, diagram_.right.size())},
                  edge.weight < 0.0 ? series_colour(1) : series_colour(0), share * kWidest, edge.weight < 0.0);
    }
    for (std::size_t i = 0; i < diagram_.left.size(); ++i) {
      const double y = node_y(top, static_cast<Index>(i), diagram_.left.size());
      canvas.dot({from_x, y}, 3.0, kInk);
      canvas.text({from_x - 7.0, y + 4.0}, diagram_.left[i], {.align = Align::right});
    }
    for (std::size_t i = 0; i < diagram_.right.size(); ++i) {
      const double y = node_y(top, static_cast<Index>(i), diagram_.right.size());
      canvas.dot({to_x, y}, 3.0, kInk);
      canvas.text({to_x + 7.0, y + 4.0}, diagram_.right[i]);
    }
  }

  const Bipartite& diagram_;
  double left_ = 0.0, right_ = 0.0, full_ = 0.0;
};

}  // namespace

std::unique_ptr<Body> body_of(const Bipartite& diagram) { return std::make_unique<BipartiteBody>(diagram); }

}  // namespace kirchhoff::draw
