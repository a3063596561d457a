#pragma once
#include <array>   // for array
#include <span>    // for span
#include <vector>  // for vector

#include "kirchhoff/base/types.h"

// How a model's losses move while it learns (Olsson et al. 2022, "per-token loss analysis").

namespace kirchhoff::reproduce {

/// Two principal components of a cloud of points.
struct PlaneOfChange {
  std::vector<std::array<double, 2>> points;  ///< each vector's coordinates, in the order given
  std::array<double, 2> share{};              ///< of the squared distances from the mean that each component holds
};

/// The first two principal components of vectors of per-token losses, one vector for each checkpoint (of one model or
/// of several: what all of them are stacked as decides about the axes). The mean vector is taken off. A component
/// points to where the last vector has a positive coordinate. By the Gram matrix of the vectors [n, n] in double: few
/// vectors, however long. Error{usage}: fewer than three vectors, or of different lengths.
PlaneOfChange plane_of_change(std::span<const std::vector<double>> losses);

/// When something that grows from near nothing to its final value does so.
struct PhaseChange {
  Index from = 0, to = 0;  ///< steps: the first moment above 10 % of the final value and the first above 90 %
  double final_value = 0.0;
};

/// Of the largest prefix-matching score of a model's heads by step, say: `values` at the rising `steps`. The final
/// value is the mean over the last tenth of the moments. `from` is the last moment at or below a tenth of it before
/// `to`; `to` the first moment at or above nine tenths. Error{usage}: no moments, or not as many values.
PhaseChange phase_change(std::span<const Index> steps, std::span<const double> values);

}  // namespace kirchhoff::reproduce
