#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/weights/parties.h"
#include "kirchhoff/weights/token_circuit.h"

namespace kirchhoff {

/// What the rows or columns of virtual weights, or of their singular directions, stand for.
enum class WeightAxis {
  token,      ///< of the input vocabulary
  out_token,  ///< of the output vocabulary
  position,
  neuron,
};
std::string name(WeightAxis axis);

/// One side of a singular direction: the largest and smallest of its entries. `row` of the entries is 0.
using DirectionSide = CircuitExtremes;

struct VirtualDirection {
  double value = 0.0;  ///< the singular value
  DirectionSide from, to;
};

/// W R: how strongly what one party writes acts on what another reads, without anything between (framework-math,
/// sections 1 and 6; "virtual weights").
struct VirtualWeights {
  PartyScore score;
  double baseline = 0.0;
  double norm = 0.0, from_norm = 0.0, to_norm = 0.0;  ///< |W R|, |W|, |R|
  Index rows = 0, columns = 0;
  std::vector<double> singular_values;  ///< falling, those above 1e-6 of the largest
  WeightAxis from_axis = WeightAxis::token, to_axis = WeightAxis::token;
  /// Where a side is the residual stream (heads) directions are read through the vocabulary: E times the direction
  /// where a head reads, the direction times U where it writes. Entries are then such products, not entries of unit
  /// vectors.
  bool from_stream = false, to_stream = false;
  std::vector<VirtualDirection> directions;
};

struct VirtualOptions {
  HeadForm form = {};
  Index directions = 3;    ///< singular directions to read
  Index top = 10;          ///< entries of each side
  Progress progress = {};  ///< stage "virtual", counted in steps
};

/// By the Grams of both parties, [d_model, d_model]: their roots' product, of at most d_model x d_model, has the
/// singular values of W R, and takes its directions back through W and R row by row. In double from Grams whose
/// products are float: singular values below some 1e-3 of the largest are rounding where parties are not heads. Cost:
/// an eigendecomposition of each Gram and one singular value decomposition, O(d_model^3). Errors: usage (as
/// party_composition; a pair that does not see each other).
VirtualWeights virtual_weights(const Model& model, const Party& from, const Party& to, StreamInput input,
                               const VirtualOptions& options = {});

}  // namespace kirchhoff
