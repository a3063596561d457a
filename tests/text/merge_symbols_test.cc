#include "text/merge_symbols.h"

#include <gtest/gtest.h>

#include <ctime>  // for clock
#include <map>    // for map

#include "kirchhoff/base/random.h"

namespace kirchhoff::text {
namespace {

using Ids = std::vector<TokenId>;

/// By the definition: as long as some neighbours have a merge, join the leftmost of those with the lowest rank.
Ids merged_by_definition(Ids ids, const std::map<std::pair<TokenId, TokenId>, Merge>& merges) {
  for (;;) {
    std::size_t best = ids.size();
    Merge best_merge = kNoMerge;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = merges.find({ids[i], ids[i + 1]});
      if (found != merges.end() && found->second.rank < best_merge.rank) best = i, best_merge = found->second;
    }
    if (best == ids.size()) return ids;
    ids[best] = best_merge.id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

std::vector<Symbol> symbols_of(const Ids& ids) {
  std::vector<Symbol> symbols;
  for (std::size_t i = 0; i < ids.size(); ++i) symbols.push_back({ids[i], static_cast<std::uint32_t>(i), 1});
  return symbols;
}

TEST(SymbolMerger, AgreesWithTheDefinition) {
  Random random(7);
  for (int round = 0; round < 400; ++round) {
    const Index alphabet = 1 + random.below(4), merge_count = 1 + random.below(30);
    std::map<std::pair<TokenId, TokenId>, Merge> merges;
    MergeTable table(static_cast<std::size_t>(merge_count));
    for (Index rank = 0; rank < merge_count; ++rank) {
      const auto token = [&] { return static_cast<TokenId>(random.below(alphabet + rank)); };
      const std::pair<TokenId, TokenId> pair{token(), token()};
      // Some share a rank, as SentencePiece's scores may.
      const Merge merge{static_cast<std::uint32_t>(rank - rank % 2), static_cast<TokenId>(alphabet + rank)};
      if (merges.emplace(pair, merge).second) table.set(pair.first, pair.second, merge);
    }
    Ids ids(static_cast<std::size_t>(random.below(120)));  // both the short and the long way
    for (TokenId& id : ids) id = static_cast<TokenId>(random.below(alphabet));

    std::vector<Symbol> symbols = symbols_of(ids);
    SymbolMerger merger;
    symbols.resize(merger.run(symbols, [&](const Symbol& a, const Symbol& b) { return table.find(a.id, b.id); }));
    Ids result;
    std::uint32_t begin = 0;
    for (const Symbol& symbol : symbols) {
      ASSERT_EQ(symbol.begin, begin);
      begin += symbol.length;
      result.push_back(symbol.id);
    }
    ASSERT_EQ(begin, ids.size());
    ASSERT_EQ(result, merged_by_definition(ids, merges));
  }
}

TEST(SymbolMerger, TimeIsNotQuadratic) {
  // Doubling merges: 0 0 -> 1, 1 1 -> 2, ...
  MergeTable table(16);
  for (TokenId id = 0; id < 12; ++id) table.set(id, id, {static_cast<std::uint32_t>(id), id + 1});
  const auto seconds = [&](std::size_t size) {
    std::vector<Symbol> symbols = symbols_of(Ids(size, 0));
    SymbolMerger merger;
    const std::clock_t begin = std::clock();  // processor time: other work does not count
    const std::size_t left =
        merger.run(symbols, [&](const Symbol& a, const Symbol& b) { return table.find(a.id, b.id); });
    EXPECT_LT(left, size / 4096 + 13);
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  seconds(1000);
  const double small = seconds(100'000), large = seconds(1'000'000);
  EXPECT_LT(large, 40 * small) << "100 would be quadratic, 10 linear";
}

}  // namespace
}  // namespace kirchhoff::text
