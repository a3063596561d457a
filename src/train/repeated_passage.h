#pragma once
#include <span>  // for span

#include "kirchhoff/base/random.h"
#include "kirchhoff/text/tokenizer.h"

namespace kirchhoff::train {

/// A passage of the window, of 8 tokens up to a quarter of it, comes again further on, in the place of what stood
/// there: its length, then where it stands first, then where it comes again are drawn evenly. Windows below 32 tokens
/// stay.
void repeat_passage(std::span<text::TokenId> window, Random& random);

}  // namespace kirchhoff::train
