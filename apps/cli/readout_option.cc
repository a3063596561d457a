#include "readout_option.h"

#include <algorithm>  // for all_of

namespace kirchhoff::cli {

void ReadoutOption::declare(Command& command) {
  command.option("--readout", "WHAT", name,
                 "logit; centred: less the mean logit; loss: ln(vocabulary) − loss (default logit)",
                 {"logit", "centred", "loss"});
}

Readout ReadoutOption::value() const {
  return name == "centred" ? Readout::centred : name == "loss" ? Readout::loss : Readout::logit;
}

std::vector<LogitTarget> resolve_targets(const Subject& subject, const Trace& trace, const TargetOptions& options,
                                         Readout readout, const std::vector<Index>& positions) {
  const auto logits = trace.logits_of(0);
  std::vector<LogitTarget> targets;
  for (const Index pos : positions) {
    const bool next = (positions.size() > 1 || readout != Readout::logit) && pos + 1 < subject.length();
    const TokenId otherwise = next ? subject.prompt.ids[static_cast<std::size_t>(pos) + 1]
                                   : top_tokens(logits.row(logits.dim[0] == 1 ? 0 : pos), 1).front().id;
    targets.push_back(options.resolve(subject.opened, otherwise, pos));
    targets.back().readout = readout;
  }
  return targets;
}

LogitPositions logits_for(const Subject& subject, const std::vector<Index>& positions) {
  const bool last =
      std::all_of(positions.begin(), positions.end(), [&subject](Index pos) { return pos + 1 == subject.length(); });
  return last ? LogitPositions::last : LogitPositions::all;
}

}  // namespace kirchhoff::cli
