#pragma once
#include <string>  // for string

#include "kirchhoff/study/induction_story.h"
#include "session.h"
#include "subject.h"

namespace kirchhoff::cli {

/// The story as sentences, a clause a line with what it rests on; empty where there is none.
std::string induction_section(const Session& session, const Subject& subject, const InductionFinding& finding);

}  // namespace kirchhoff::cli
