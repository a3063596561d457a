#pragma once
#include "kirchhoff/study/result_json.h"
#include "kirchhoff/weights/composition.h"
#include "kirchhoff/weights/spectrum.h"
#include "kirchhoff/weights/token_circuit.h"

namespace kirchhoff {

/// "a0.h1": a head as a node.
std::string head_node(Index layer, Index head);
/// "ov", "qk".
std::string name(CircuitKind kind);
/// ["source", "out"], ["query", "key"]: rows and columns.
std::vector<std::string> circuit_axes(CircuitKind kind);

/// [[re, im], ...].
Json to_json(std::span<const std::complex<double>> eigenvalues);
/// {"mean", "sd", "samples"}.
Json to_json(const NullBand& band);
/// {"trace", "mean", "sd", "mean_of_all", "positive_share", "top_1", "top_k", "k"}.
Json to_json(const DiagonalStatistics& statistics);
/// {"pairs": [{"from", "to", "q", "k", "v"}, ...], "baseline", "ceiling", "null"}; with "induction_match" in each pair
/// if it was computed.
Json to_json(const Composition& composition);

}  // namespace kirchhoff
