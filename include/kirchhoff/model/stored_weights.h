#pragma once
#include <functional>   // for function
#include <span>         // for span
#include <string>       // for string
#include <string_view>  // for string_view

#include "kirchhoff/io/model_files.h"
#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff {

/// Values of one canonical weight, flat as its storage lies, by name: "W_E", "blocks.3.W_Q", "blocks.3.ln1.w". Empty if
/// there are none.
using WeightValues = std::function<std::span<const double>(const std::string& weight)>;

/// Values of canonical weights laid out as a tensor of the model's files has them, fused, transposed and permuted: what
/// loading does, backwards. An entry is the sum over the weights that are loaded from it (so gradients come out as the
/// stored tensor's gradients, of tied matrices too), and 0 where none is. `tensor` may have a prefix that the files
/// leave out. Errors: as load_model (files that are no model's); not_found (no such tensor).
TensorF64 as_stored(const io::ModelFiles& files, std::string_view tensor, const WeightValues& values);

}  // namespace kirchhoff
