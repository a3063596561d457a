#pragma once
#include <optional>  // for optional
#include <span>      // for span
#include <string>    // for string
#include <vector>    // for vector

#include "kirchhoff/draw/figure.h"
#include "kirchhoff/study/learning_curves.h"
#include "session.h"

namespace kirchhoff::cli {

/// How histories are shown.
struct CurvesView {
  bool tokens = false;  ///< x is tokens, not steps
  bool log_x = false;
  double bound = kRoleScore;  ///< a head of a single run has a curve of its own from this score on
  Index rows = 16;            ///< of the table; 0: all
};

/// A curve with its spread, and the panel that it belongs to.
struct ShownCurve {
  std::string name;
  std::vector<double> x, mean, low, high;
};
struct ShownPanel {
  std::string title;  ///< "ICL score, nats"
  std::vector<ShownCurve> curves;
};
/// Losses, ICL score, accuracy, prefix matching, attention to the previous token: those that the histories have.
std::vector<ShownPanel> curve_panels(std::span<const RunGroup> groups, const CurvesView& view);

/// Panels as plots in braille, as many beside each other as fit.
std::string panels_text(const Session& session, std::span<const ShownPanel> panels, std::span<const RunGroup> groups,
                        const CurvesView& view);
/// A row for each of some evaluations of a group, spread evenly over them.
std::string points_table(const Session& session, const RunGroup& group, const CurvesView& view);
/// A sentence for each run: its phase change, or why there is none.
std::vector<std::string> phase_lines(std::span<const RunGroup> groups);

draw::Figure curves_figure(draw::Caption caption, std::span<const ShownPanel> panels, std::span<const RunGroup> groups,
                           const CurvesView& view);

}  // namespace kirchhoff::cli
