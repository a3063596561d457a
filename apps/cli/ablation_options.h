#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "command_line.h"
#include "kirchhoff/intervene/node_ablation.h"
#include "session.h"

namespace kirchhoff::cli {

/// How heads and MLPs are ablated: the same options for every command that does.
struct AblationCommandOptions {
  std::string kind = "zero";
  bool keep_patterns = false, freeze_norms = false;

  void declare(Command& command);
  NodeAblationOptions resolve(const Session& session) const;
};

/// "zero ablation, everything behind recomputed; values: zero".
std::string ablation_text(const NodeAblationOptions& options, const std::string& baseline);

/// "2,5" or "all". Error{usage} naming the option.
std::vector<Index> parse_layers(const std::string& text, Index n_layers, const std::string& option);

}  // namespace kirchhoff::cli
