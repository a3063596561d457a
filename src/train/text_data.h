#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/train/training_data.h"

namespace kirchhoff::train {

/// What prepare_data and open_data do for text.
DataFiles prepare_text(const TrainingConfig& config, const std::vector<std::string>& paths,
                       const std::string& directory, const Progress& progress);
TrainingData open_text(const TrainingConfig& config, const std::string& directory);

}  // namespace kirchhoff::train
