#pragma once
#include <memory>  // for shared_ptr

#include "kirchhoff/io/model_files.h"
#include "kirchhoff/text/tokenizer.h"
#include "model/recipe.h"

namespace kirchhoff {

/// The recipe for a file of bare tensors, from the one description in model/layouts/ that fits it.
/// Error{unsupported} if none does, listing what there is.
Recipe layout_recipe(const io::ModelFiles& files);

/// The list of tokens that the description of this file names; null if it names none.
std::shared_ptr<const text::Tokenizer> layout_tokenizer(const io::ModelFiles& files);

}  // namespace kirchhoff
