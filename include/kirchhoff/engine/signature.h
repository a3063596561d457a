#pragma once
#include <string>  // for string

#include "kirchhoff/base/progress.h"
#include "kirchhoff/base/types.h"

namespace kirchhoff {

/// One number for what the engine computes: it stays the same under any change that only moves roundings (threads,
/// instruction set, tile sizes) and changes with anything else.
struct Signature {
  std::string hash;  ///< 16 hexadecimal digits
  Index models = 0;  ///< random models that were run: one for each set of capabilities that a family has
  Index values = 0;  ///< logits that were hashed
};

/// Runs a fixed set of tiny random models on fixed tokens in float32 and hashes the logits, each rounded to a 1/1000 of
/// the range of its row. Logits that lie near the border of two cells are left out; the double path, whose roundings
/// are far below that, decides which.
Signature engine_signature(const Progress& progress = {});

}  // namespace kirchhoff
