#pragma once
#include <cstdint>      // for uint8_t
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff {

/// A state of the residual stream at one position: level 0 is the embedding, then after each layer's attention (where
/// the blocks have such a state) and after each layer.
struct FlowNode {
  Index level = 0, pos = 0;
  std::string state;  ///< "embed", "mid3" (behind the attention of layer 3), "post3" (behind the layer)
};

enum class FlowKind : std::uint8_t {
  residual,   ///< the stream passes on
  attention,  ///< heads read another position, or the same
  mlp,
  bias,  ///< what the attention writes whatever it reads; comes from no state
};
std::string_view name(FlowKind kind);

struct FlowHead {
  Index head = 0;
  double value = 0.0;
};

/// What one state is made of.
struct FlowEdge {
  std::size_t to = 0;    ///< index of a node
  std::size_t from = 0;  ///< of another, one level below; `to` itself if the kind is bias
  Index layer = 0;       ///< of the attention or MLP
  FlowKind kind{};
  double value = 0.0;           ///< its share of `to`, in [0, 1]; of an attention edge the sum over the heads
  std::vector<FlowHead> heads;  ///< attention: each head's share, largest first, down to a tenth of `value`
};

struct FlowOptions {
  Index pos = -1;           ///< where it is predicted from; counted from the end if negative
  double threshold = 0.04;  ///< edges with a smaller share are left out (the paper's figures)
  Progress progress{};      ///< stage "flow", counted in layers
};

/// Where the last state of the stream at one position comes from.
struct InformationFlow {
  FlowOptions options;
  std::vector<FlowNode> nodes;  ///< reached from nodes[0], the last state; by level, highest first
  std::vector<FlowEdge> edges;  ///< by `to`, largest first
  double closure = 0.0;         ///< the largest |state - sum of its parts|_1 / |state|_1 of the nodes
};

/// The sites that information_flow reads.
std::vector<std::string> flow_sites(const ModelConfig& config);

/// Information flow routes (Ferrando & Voita 2024): a state x is a sum of parts (what each head read from each
/// position, the attention's bias, the MLP's output, the state before), and a part's share is
///
///     proximity(y) = max(|x|_1 - |x - y|_1, 0),   share = proximity / sum of the proximities of x's parts,
///
/// a measure of how much nearer the part brings the sum to what it is; no effect on any prediction, and no gradient.
/// From the last state downwards, edges with at least the threshold's share are followed; a position's heads count
/// together, so an edge is a pair of positions. One run, and of each layer only what is reached. Norms behind attention
/// keep the divisor of this run. Of a run of one sequence; every family has it. Errors: usage (out of range, a site
/// that was not captured, a threshold below 0 or above 1).
template <class Real>
InformationFlow information_flow(const Model& model, const BasicTrace<Real>& trace, const FlowOptions& options = {});

}  // namespace kirchhoff
