#pragma once
#include <string>  // for string

#include "kirchhoff/observe/information_flow.h"
#include "session.h"
#include "subject.h"

namespace kirchhoff::cli {

/// What reaches the last state from other positions, from the last layer down, and how the reached positions share the
/// embedding's level.
std::string flow_section(const Session& session, const Subject& subject, const InformationFlow& flow);

}  // namespace kirchhoff::cli
