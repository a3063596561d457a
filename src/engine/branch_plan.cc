#include "engine/branch_plan.h"

#include <algorithm>  // for find, max, min, set_intersection, set_union
#include <iterator>   // for back_inserter
#include <utility>    // for move

namespace kirchhoff::engine {
namespace {

constexpr Index kEntries = static_cast<Index>(Entry::post) + 1;

std::vector<Index> united(const std::vector<Index>& a, const std::vector<Index>& b) {
  std::vector<Index> both;
  both.reserve(a.size() + b.size());
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

}  // namespace

BranchPlan::BranchPlan(const ModelConfig& config, const BatchLayout& base, Index variants, std::vector<Join> joins,
                       std::vector<std::vector<Index>> wanted, bool everything)
    : config_(config),
      whole_(base.repeated(variants)),
      joins_(static_cast<std::size_t>(std::max<Index>(1, config.n_layers) * kEntries)),
      wanted_(std::move(wanted)),
      variants_(variants),
      first_layer_(config.n_layers) {
  if (!everything) find_what_reaches(base);
  for (Join& join : joins) {
    // Parallel blocks read everything from resid_pre: what joins within one joins before it.
    if (config_.parallel && (join.entry == Entry::z || join.entry == Entry::result || join.entry == Entry::mid))
      join.entry = Entry::queries;
    const bool as_key = join.entry == Entry::embed || join.entry == Entry::stream;
    keep_what_reaches(join.positions, join.sequence, as_key ? join.layer : join.layer + 1);
    if (join.positions.empty()) continue;
    first_layer_ = std::min(first_layer_, join.layer);
    joins_[static_cast<std::size_t>(join.layer * kEntries + static_cast<Index>(join.entry))].push_back(std::move(join));
  }
}

/// From the end: position t of what enters a layer reaches the logits if a query of that layer sees it which does.
void BranchPlan::find_what_reaches(const BatchLayout& base) {
  reach_.resize(static_cast<std::size_t>((config_.n_layers + 1) * base.batch()));
  for (Index layer = config_.n_layers; layer >= 0; --layer)
    for (Index b = 0; b < base.batch(); ++b) {
      std::vector<std::uint8_t>& here = reach_[static_cast<std::size_t>(layer * base.batch() + b)];
      here.resize(static_cast<std::size_t>(base.length(b)));
      if (layer == config_.n_layers) {
        for (const Index t : wanted_[static_cast<std::size_t>(b)]) here[static_cast<std::size_t>(t)] = 1;
        continue;
      }
      const std::vector<std::uint8_t>& above = reach(layer + 1, b);
      for (Index t = 0; t < base.length(b); ++t) {
        Range queries = seen_from(t, base.length(b), layer);
        if (config_.smeared_keys && t + 1 < base.length(b))
          queries.end = seen_from(t + 1, base.length(b), layer).end;  // which see t's key in the next
        here[static_cast<std::size_t>(t)] =
            std::find(above.begin() + queries.begin, above.begin() + queries.end, 1) != above.begin() + queries.end;
      }
    }
}

void BranchPlan::keep_what_reaches(Positions& positions, Index sequence, Index layer) const {
  if (reach_.empty()) return;
  const std::vector<std::uint8_t>& reaches = reach(layer, base_of(sequence));
  std::erase_if(positions, [&reaches](Index p) { return reaches[static_cast<std::size_t>(p)] == 0; });
}

BatchLayout BranchPlan::nothing() const {
  return whole_.at(std::vector<Positions>(static_cast<std::size_t>(whole_.batch())));
}

const std::vector<Join>& BranchPlan::joins_at(Index layer, Entry entry) const {
  return joins_[static_cast<std::size_t>(layer * kEntries + static_cast<Index>(entry))];
}

bool BranchPlan::joins(Index layer, Entry entry) const { return !joins_at(layer, entry).empty(); }

BatchLayout BranchPlan::joined(const BatchLayout& rows, Index layer, Entry entry) const {
  const bool all_at_once = config_.parallel && entry == Entry::stream;
  const bool smears = config_.smeared_keys && entry == Entry::stream;
  if (!joins(layer, entry) && !all_at_once && !smears) return rows;
  std::vector<Positions> positions = positions_of(rows);
  for (const Join& join : joins_at(layer, entry)) {
    Positions& own = positions[static_cast<std::size_t>(join.sequence)];
    own = united(own, join.positions);
  }
  for (Index s = 0; smears && s < whole_.batch(); ++s) add_smeared(positions[static_cast<std::size_t>(s)], s, layer);
  if (all_at_once) {
    for (Index s = 0; s < whole_.batch(); ++s) {
      Positions& own = positions[static_cast<std::size_t>(s)];
      Positions queries = spread(own, s, layer);
      keep_what_reaches(queries, s, layer + 1);
      own = united(own, queries);
    }
    for (const Join& join : joins_at(layer, Entry::queries)) {
      Positions& own = positions[static_cast<std::size_t>(join.sequence)];
      own = united(own, join.positions);
    }
  }
  return whole_.at(positions);
}

BatchLayout BranchPlan::attending(const BatchLayout& changed, Index layer) const {
  std::vector<Positions> positions = positions_of(changed);
  if (!config_.parallel) {
    for (Index s = 0; s < whole_.batch(); ++s) {
      Positions& own = positions[static_cast<std::size_t>(s)];
      own = united(own, spread(own, s, layer));
    }
    for (const Join& join : joins_at(layer, Entry::queries)) {
      Positions& own = positions[static_cast<std::size_t>(join.sequence)];
      own = united(own, join.positions);
    }
  }
  for (Index s = 0; s < whole_.batch(); ++s) keep_what_reaches(positions[static_cast<std::size_t>(s)], s, layer + 1);
  return whole_.at(positions);
}

BatchLayout BranchPlan::intersection(const BatchLayout& a, const BatchLayout& b) const {
  std::vector<Positions> positions(static_cast<std::size_t>(whole_.batch()));
  for (Index s = 0; s < whole_.batch(); ++s) {
    const auto in_a = a.tokens(s), in_b = b.tokens(s);
    std::set_intersection(in_a.begin(), in_a.end(), in_b.begin(), in_b.end(),
                          std::back_inserter(positions[static_cast<std::size_t>(s)]));
  }
  return whole_.at(positions);
}

BatchLayout BranchPlan::wanted(const BatchLayout& rows) const {
  std::vector<Positions> positions;
  for (Index s = 0; s < whole_.batch(); ++s) positions.push_back(wanted_[static_cast<std::size_t>(base_of(s))]);
  return intersection(rows, whole_.at(positions));
}

Index BranchPlan::most_wanted() const {
  std::size_t most = 0;
  for (const Positions& positions : wanted_) most = std::max(most, positions.size());
  return static_cast<Index>(most);
}

Index BranchPlan::keys_seen(Index sequence, Index layer, Index position) const {
  const Index window = config_.window_of_layer[static_cast<std::size_t>(layer)], length = whole_.length(sequence);
  const Index begin = window > 0 ? std::max<Index>(0, position - window + 1) : 0;
  Index end = window > 0 ? std::min(length, position + window) : length;
  if (config_.causal) end = std::min(end, position + 1);
  return end - begin;
}

/// A product [m, k] [k, n] is 2 m k n; by layer, with C rows whose stream changed, A that attend, M that the MLP reads:
/// queries (C and A) d H dh, keys and values C d 2 G dh, scores and z (keys seen by A) 2 H dh, out A H dh d, MLP M d
/// d_mlp for each of its matrices; at the end d for each column of the wanted rows.
BranchPlan::Cost BranchPlan::cost(Index columns) const {
  const ModelConfig& c = config_;
  const Index q_width = c.n_heads * c.d_head, kv_width = 2 * c.n_kv_heads * c.d_head;
  Cost cost;
  BatchLayout rows = nothing();
  const auto grow_to = [&](BatchLayout more) {
    rows = std::move(more);
    cost.most_rows = std::max(cost.most_rows, rows.rows());
  };
  const auto multiply = [&cost](Index m, Index k, Index n) {
    cost.flops += 2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  };
  grow_to(joined(rows, 0, Entry::embed));
  for (Index layer = first_layer_; layer < c.n_layers; ++layer) {
    grow_to(joined(rows, layer, Entry::stream));
    const BatchLayout queries = attending(rows, layer);
    multiply(intersection(rows, queries).rows(), c.d_model, q_width);
    multiply(rows.rows(), c.d_model, kv_width);
    grow_to(queries);
    for (Index s = 0; s < rows.batch(); ++s)
      for (const Index position : rows.tokens(s)) multiply(2 * keys_seen(s, layer, position), c.n_heads, c.d_head);
    grow_to(joined(joined(rows, layer, Entry::z), layer, Entry::result));
    multiply(rows.rows(), q_width, c.d_model);
    if (!c.attn_only) {
      grow_to(joined(rows, layer, Entry::mid));
      multiply(rows.rows(), c.d_model, c.d_mlp * (c.gated_mlp ? 3 : 2));
    }
    grow_to(joined(rows, layer, Entry::post));
  }
  multiply(wanted(rows).rows(), c.d_model, columns);
  return cost;
}

BranchPlan::Range BranchPlan::seen_from(Index position, Index length, Index layer) const {
  const Index window = config_.window_of_layer[static_cast<std::size_t>(layer)];
  const Index begin = config_.causal ? position : window > 0 ? std::max<Index>(0, position - window + 1) : 0;
  return {begin, window > 0 ? std::min(length, position + window) : length};
}

void BranchPlan::add_smeared(Positions& positions, Index sequence, Index layer) const {
  Positions next;
  for (const Index position : positions)
    if (position + 1 < whole_.length(sequence)) next.push_back(position + 1);
  keep_what_reaches(next, sequence, layer);
  positions = united(positions, next);
}

BranchPlan::Positions BranchPlan::spread(const Positions& keys, Index sequence, Index layer) const {
  Positions queries;
  Index next = 0;  // queries before it are in, or see none of the keys so far
  for (const Index key : keys) {
    const Range range = seen_from(key, whole_.length(sequence), layer);
    for (next = std::max(next, range.begin); next < range.end; ++next) queries.push_back(next);
  }
  return queries;
}

std::vector<BranchPlan::Positions> BranchPlan::positions_of(const BatchLayout& rows) const {
  std::vector<Positions> positions;
  for (Index s = 0; s < rows.batch(); ++s) positions.emplace_back(rows.tokens(s).begin(), rows.tokens(s).end());
  return positions;
}

}  // namespace kirchhoff::engine
