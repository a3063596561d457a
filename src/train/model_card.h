#pragma once
#include <string>  // for string

#include "kirchhoff/train/history.h"
#include "kirchhoff/train/parameters.h"

namespace kirchhoff::train {

/// README.md of a trained model, in Hugging Face's form: what it is, its data and their licence, how it was trained and
/// measured, how it is loaded. `facts`: training.json.
std::string model_card(const Json& facts, const Parameters& parameters, const History& history);

}  // namespace kirchhoff::train
