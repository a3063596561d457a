#include "path_view.h"

#include <cmath>  // for abs

#include "attribution_view.h"
#include "table.h"

namespace kirchhoff::cli {

std::string path_count(double count) {
  return count < 1e9 ? fmt::format("{:.0f}", count) : fmt::format("{:.1e}", count);
}

std::string paths_table(const Session& session, const PathExpansion& expansion) {
  const double largest = expansion.paths.empty() ? 1.0 : std::abs(expansion.paths.front().value);
  Table table({{"path"}, {"value", true}, {""}});
  for (const StreamPath& path : expansion.paths)
    table.add(
        {fmt::format("{}", fmt::join(path.nodes, " → ")), signed_value(path.value), signed_bar(path.value, largest)});
  table.add(
      {fmt::format("{} paths not listed", path_count(expansion.rest_count)), signed_value(expansion.rest_sum), ""});
  table.add({{"total", Style::strong}, signed_value(expansion.total), ""});
  return table.render(session.out);
}

}  // namespace kirchhoff::cli
