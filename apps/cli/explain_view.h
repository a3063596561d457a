#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/observe/attention.h"
#include "kirchhoff/observe/attribution.h"
#include "kirchhoff/observe/lens.h"
#include "session.h"
#include "subject.h"

namespace kirchhoff::cli {

// The sections of the `explain` screen, each a list of lines without indentation.

/// Whether sections may stand side by side.
bool wide(const Terminal& terminal);

/// The prompt's tokens with their positions; the middle of a long prompt is left out.
std::vector<std::string> token_lines(const Session& session, const Subject& subject);
std::vector<std::string> top_lines(const Session& session, const Subject& subject, const std::vector<TokenScore>& top);
/// The totals by kind of part, their sum, the model's own number, the closure.
std::vector<std::string> sum_lines(const Session& session, const Attribution& attribution);
/// The top prediction of every layer (or every n-th, and always the last) and the target's rank, in columns.
std::vector<std::string> lens_lines(const Session& session, const Subject& subject, const std::vector<LensRow>& rows);
/// Heads with the tokens that they read most from.
std::vector<std::string> head_lines(const Session& session, const Subject& subject,
                                    const std::vector<AttributionPart>& heads, const std::vector<HeadRead>& reads);
std::vector<std::string> mlp_lines(const Session& session, const std::vector<AttributionPart>& mlps);
/// Every head and MLP by layer; empty where that does not fit.
std::vector<std::string> grid_lines(const Session& session, const ModelConfig& config, const Attribution& attribution);

}  // namespace kirchhoff::cli
