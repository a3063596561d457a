#include "kirchhoff/reproduce/chains.h"

#include "kirchhoff/base/error.h"
#include "reproduce/framework.h"
#include "reproduce/induction.h"
#include "reproduce/page.h"

namespace kirchhoff::reproduce {

std::vector<std::string> experiment_names() { return {"framework", "induction"}; }

Chain experiment(std::string_view name, const ExperimentOptions& options) {
  if (name == "framework") return framework_chain(options.data, options.quick, framework_plan(options.quick));
  if (name == "induction") return induction_chain(options.data, options.quick, induction_plan(options.quick));
  fail(ErrorCode::usage, "'{}' is no experiment, expected {}", name, fmt::join(experiment_names(), " or "));
}

void write_report(const Chain& chain, const std::string& chain_directory, const std::string& directory) {
  const std::map<std::string, Json> records = stage_records(chain, chain_directory);
  (chain.name == "framework" ? framework_page : induction_page)(chain, records).write(directory, chain, records);
}

}  // namespace kirchhoff::reproduce
