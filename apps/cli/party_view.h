#pragma once
#include <string>  // for string

#include "kirchhoff/observe/virtual_head.h"
#include "kirchhoff/weights/bandwidth.h"
#include "kirchhoff/weights/virtual_weights.h"
#include "subject.h"
#include "weights_subject.h"

namespace kirchhoff::cli {

// Sections of the screen.
/// Scores of composition by kind of pair, the strongest of each.
std::string party_lists(const Session& session, const PartyComposition& parties, Index count);
/// One pair: norms, score and chance, singular values, directions.
std::string virtual_sections(const Session& session, const WeightsSubject& subject, const VirtualWeights& weights);
std::string bandwidth_sections(const Session& session, const Bandwidth& bandwidth, const ModelConfig& config,
                               Index count);
std::string virtual_head_sections(const Session& session, const Subject& subject, const VirtualHeadRun& run,
                                  const std::string& head, Index count);

}  // namespace kirchhoff::cli
