#include "kirchhoff/observe/key_writers.h"

#include <gtest/gtest.h>

#include <map>  // for map

#include "engine/support.h"
#include "kirchhoff/observe/qk_terms.h"
#include "observe/support.h"

namespace kirchhoff {
namespace {

class EveryFamilysKeys : public test::EveryFamily {};

/// Backwards from the query, what forwards from the writers gives.
TEST_P(EveryFamilysKeys, AreThoseOfTheExpansion) {
  const Model m = model();
  const Index layer = m.config.n_layers - 1, query = 6;
  std::vector<std::string> sites = qk_sites(m.config, layer);
  for (const std::string& site : key_writer_sites(m.config, layer)) sites.push_back(site);
  const TraceF64 trace = run_f64(m, tokens(7), {.capture = sites});
  for (Index head = 0; head < m.config.n_heads; ++head) {
    const std::vector<Index> keys = {5, 6, 3};
    const KeyWriters written = key_writers(m, trace, layer, head, query, keys);
    for (std::size_t k = 0; k < keys.size(); ++k) {
      const QkExpansion score = expand_score(m, trace, {layer, head, query, keys[k]}, 0);
      double size = 0.0;
      std::map<std::string, double> values;
      for (const QkWriter& writer : score.keys) {
        values[writer.node] = writer.value;
        size += std::abs(writer.value);
      }
      EXPECT_NEAR(written.scores[k], score.sum - score.position_bias, 1e-12 * size);
      for (Index i = 0; i < layer * m.config.n_heads; ++i)
        EXPECT_NEAR(written.heads[k][std::size_t(i)],
                    values.at(fmt::format("a{}.h{}", i / m.config.n_heads, i % m.config.n_heads)), 1e-12 * size);
    }
  }
  EXPECT_THROW(key_writers(m, trace, layer, m.config.n_heads, query, {}), Error);
  EXPECT_THROW(key_writers(m, trace, layer, 0, 7, {}), Error);
}

KIRCHHOFF_EVERY_FAMILY(EveryFamilysKeys);

}  // namespace
}  // namespace kirchhoff
