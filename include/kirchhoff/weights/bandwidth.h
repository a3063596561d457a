#pragma once
#include <optional>  // for optional
#include <vector>    // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/weights/head_matrices.h"

namespace kirchhoff {

/// The principal components of a matrix's rows [V, d_model]: singular values of the rows minus their mean.
struct StreamSpectrum {
  std::vector<double> singular_values;  ///< d_model of them, falling
  Index half = 0, most = 0;             ///< components that hold 50 % and 90 % of the squares
  double participation = 0.0;           ///< (sum s^2)^2 / sum s^4: how many equal ones would be as spread
};

/// One principal component of both vocabularies together.
struct JointComponent {
  double share = 0.0;        ///< of the squares of both
  double embed_share = 0.0;  ///< of this component's squares, how much is W_E's
};

/// A neuron that reads a direction and writes against it.
struct MemoryNeuron {
  Index layer = 0, neuron = 0;
  double cosine = 0.0;  ///< of its row of W_in^T and of W_out
};
struct MemoryLayer {
  Index layer = 0;
  double mean = 0.0, sd = 0.0;  ///< of the cosines of its neurons
  Index below = 0, above = 0;   ///< neurons below -0.5, above 0.5
};

/// A head by the eigenvalues of W_OV: how it scales what it reads, where it reads and writes the same directions.
struct MemoryHead {
  Index layer = 0, head = 0;
  double positivity = 0.0;    ///< of W_OV in the stream: -1 where all eigenvalues are negative reals
  double negative_sum = 0.0;  ///< sum of the negative real parts, over |W_OV| (Frobenius)
  /// Attention to the present token by positions alone: with position vectors the pattern's mean diagonal, else whether
  /// the mean score is largest at distance 0 (1 or 0); empty where neither is defined.
  std::optional<double> present_token;
};

/// How the residual stream's d_model dimensions are used (framework-math, section 20: residual stream bandwidth).
struct Bandwidth {
  StreamSpectrum embed, unembed;
  /// Of W_E and W_U, centred, each of unit Frobenius norm, one below the other. Components where 90 % of the squares or
  /// more are one's own are exclusive to it, the others shared; only those that hold a thousandth of an equal share
  /// (1 / d_model) are counted.
  std::vector<JointComponent> joint;
  Index shared = 0, only_embed = 0, only_unembed = 0;
  std::vector<MemoryLayer> layers;    ///< none without MLPs
  std::vector<MemoryNeuron> neurons;  ///< the most negative cosines, rising
  std::vector<MemoryHead> heads;      ///< the most negative positivity, rising
};

struct BandwidthOptions {
  bool raw = false;  ///< W_E, W_U and the others as in the file; otherwise as parties' virtual weights fold them
  Index neurons = 20, heads = 20;
  Progress progress = {};  ///< stage "bandwidth", counted in layers
};

/// By Grams and eigendecompositions [d_model, d_model], neurons one layer at a time. Evidence from weights alone: that
/// a neuron or head deletes what it reads is not observed.
Bandwidth stream_bandwidth(const Model& model, const BandwidthOptions& options = {});

}  // namespace kirchhoff
