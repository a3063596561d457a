#pragma once
#include <span>    // for span
#include <vector>  // for vector

#include "kirchhoff/base/random.h"
#include "kirchhoff/engine/run.h"

namespace kirchhoff::train {

/// A passage of the window, of 8 tokens up to a quarter of it, comes again further on, in the place of what stood
/// there: its length, then where it stands first, then where it comes again are drawn evenly. Windows below 32 tokens
/// stay.
void repeat_passage(std::span<TokenId> window, Random& random);

/// Of windows to measure on, BOS first, a share in which a passage comes again. Which windows and which passages
/// follows from the windows' places alone: the same for all runs and seeds.
void repeat_passages(std::span<Tokens> windows, double share);

}  // namespace kirchhoff::train
