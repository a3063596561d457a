#pragma once
#include <string>   // for string
#include <utility>  // for pair
#include <vector>   // for vector

#include "kirchhoff/observe/attribution.h"
#include "session.h"
#include "subject.h"

namespace kirchhoff::cli {

// The sections of the `dla` screen.

/// Parts, largest first; beside them what the loss would rise by without each, where that was computed.
std::string parts_table(const Session& session, const Attribution& attribution, const std::vector<double>& removal,
                        Index top);
/// A row for every position: what is explained there, by which kinds of parts, and the strongest of them.
std::string positions_table(const Session& session, const Subject& subject, const std::vector<Attribution>& all);
/// Parts over all positions: means, and where each is strongest.
std::string means_table(const Session& session, const Subject& subject, const std::vector<Attribution>& all, Index top);
/// A head's share by the position that it reads from; the first of several targets' rows alone where there is one.
std::string sources_table(const Session& session, const Subject& subject, const TensorF64& shares,
                          const std::vector<LogitTarget>& targets);
/// Neurons of one or several MLPs, largest first, and what is left of each MLP.
std::string neurons_table(const Session& session, const std::vector<NeuronAttribution>& layers, Index top);

}  // namespace kirchhoff::cli
