#pragma once
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "kirchhoff/reproduce/chain.h"

// The papers' experiments as chains: from a text to tables and figures.

namespace kirchhoff::reproduce {

struct ExperimentOptions {
  std::vector<std::string> data;  ///< plain text, documents apart by <|endoftext|>; read for their hashes at once
  bool quick = false;             ///< smaller models and fewer tokens: minutes in place of hours
};

/// "framework": Elhage et al. 2021 on models of 0, 1 and 2 layers. "induction": Olsson et al. 2022 on models of 1, 2
/// and 3 layers and one of 1 layer with smeared keys, with several seeds.
std::vector<std::string> experiment_names();
/// Errors: usage (an unknown name, listing the known ones; no data); not_found, io (the data).
Chain experiment(std::string_view name, const ExperimentOptions& options);

/// Writes DIRECTORY/README.md, figures and the published results (results/STAGE.json), from the records of a finished
/// chain alone. Errors: usage (a stage is not done), io.
void write_report(const Chain& chain, const std::string& chain_directory, const std::string& directory);

}  // namespace kirchhoff::reproduce
