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

}  // namespace kirchhoff::reproduce
