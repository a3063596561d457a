#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/intervene/patch_summary.h"
#include "session.h"

namespace kirchhoff::cli {

/// A sweep with the words for its positions.
struct PatchView {
  PatchOptions options;
  PatchSummary summary;
  std::vector<std::string> positions;  ///< labels of the grid's positions: "␣John→␣Mary·9"

  const PatchGrid& grid() const { return summary.mean; }
  /// (value - unpatched) / |clean - corrupt|, in the sign of the metric; where the ends do not differ, or there is one
  /// only, nothing.
  std::optional<double> share(double value) const;
  /// "23.3 ␣to·13", "layer 5 ␣John·9".
  std::string place(std::size_t cell) const;
  std::vector<std::size_t> strongest(Index count) const;  ///< cells by |effect|
  double effect(std::size_t cell) const { return grid().values[cell] - grid().unpatched(options.direction); }
};

/// The grid as a matrix whose columns are layers; of a head's positions the one that changes most.
struct LayerMatrix {
  std::vector<std::string> rows{};
  std::vector<double> values{};  // [row, layer]: effects
  Index n_layers = 0, left_out = 0;
  double largest() const;
};
LayerMatrix layer_matrix(const PatchView& view);

/// What stands above the grid: what its numbers are.
std::string patch_grid_title(const PatchView& view);
/// The grid as rows of coloured cells, layers across, in as many blocks as the screen's width asks for.
std::string patch_grid(const Session& session, const PatchView& view);
/// The cells that change most.
std::string patch_table(const Session& session, const PatchView& view, Index count);

/// "layer,head,value,normalised", with intervals where there are any.
std::string patch_csv(const PatchView& view);

}  // namespace kirchhoff::cli
