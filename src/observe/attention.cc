#include "kirchhoff/observe/attention.h"

#include <algorithm>  // for min, partial_sort
#include <cmath>      // for log, sqrt
#include <numeric>    // for iota

#include "observe/one_sequence.h"

namespace kirchhoff {
namespace {

/// W_O of one head as [d_head, d_model], in double.
std::vector<double> head_output_weights(const WeightMatrix& W_O, Index head, Index d_head) {
  constexpr Index kRows = 64;
  const Index d_model = W_O.d_out(), width = W_O.d_in();
  std::vector<double> result(static_cast<std::size_t>(d_head * d_model));
  std::vector<float> block(static_cast<std::size_t>(kRows * width));
  for (Index begin = 0; begin < d_model; begin += kRows) {
    const Index end = std::min(d_model, begin + kRows);
    W_O.rows(begin, end, block.data());
    for (Index r = begin; r < end; ++r)
      for (Index i = 0; i < d_head; ++i)
        result[static_cast<std::size_t>(i * d_model + r)] =
            static_cast<double>(block[static_cast<std::size_t>((r - begin) * width + head * d_head + i)]);
  }
  return result;
}

/// |v W_O|, v: [d_head], W_O: [d_head, d_model].
template <class Real>
double output_length(const Real* v, const std::vector<double>& W_O, Index d_head, std::vector<double>& scratch) {
  std::fill(scratch.begin(), scratch.end(), 0.0);
  const auto d_model = scratch.size();
  for (Index i = 0; i < d_head; ++i)
    for (std::size_t j = 0; j < d_model; ++j)
      scratch[j] += static_cast<double>(v[i]) * W_O[static_cast<std::size_t>(i) * d_model + j];
  double sum = 0.0;
  for (double x : scratch) sum += x * x;
  return std::sqrt(sum);
}

template <class Real>
double length_of(const Real* v, Index n) {
  double sum = 0.0;
  for (Index i = 0; i < n; ++i) sum += static_cast<double>(v[i]) * static_cast<double>(v[i]);
  return std::sqrt(sum);
}

double entropy_term(double p) { return p > 0.0 ? -p * std::log(p) : 0.0; }

}  // namespace

std::vector<Index> HeadRead::strongest(Index k) const {
  std::vector<Index> order(sources.size());
  std::iota(order.begin(), order.end(), Index{0});
  const auto weight = [this](Index i) { return sources[static_cast<std::size_t>(i)].output_weighted; };
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return weight(a) > weight(b); });
  order.resize(static_cast<std::size_t>(std::min<Index>(k, static_cast<Index>(order.size()))));
  return order;
}

std::vector<std::string> attention_sites(Index layer) {
  return {site_name(Site::pattern, layer), site_name(Site::v, layer)};
}

template <class Real>
HeadRead read_head(const Model& model, const BasicTrace<Real>& trace, Index layer, Index head, Index query_pos) {
  const ModelConfig& config = model.config;
  const Index length = observe::sequence_length(trace);
  check(layer >= 0 && layer < config.n_layers && head >= 0 && head < config.n_heads, ErrorCode::usage,
        "head {}.{} is not in a model of {} layers with {} heads", layer, head, config.n_layers, config.n_heads);
  HeadRead read;
  read.layer = layer;
  read.head = head;
  const Index query = read.query_pos = observe::resolve_position(query_pos, length);
  const auto& pattern = trace.at(site_name(Site::pattern, layer));  // [1, head, query, key]
  const Index kv_head = head / (config.n_heads / config.n_kv_heads);
  const auto W_O = head_output_weights(model.weights.layers[static_cast<std::size_t>(layer)].W_O, head, config.d_head);
  std::vector<double> scratch(static_cast<std::size_t>(config.d_model));
  const auto scores = trace.sites.find(site_name(Site::attn_scores, layer));
  for (Index key = 0; key < (config.causal ? query + 1 : length); ++key) {
    const double attention = static_cast<double>(pattern[(head * length + query) * length + key]);
    const Real* v = observe::at_position(trace, Site::v, layer, key).data() + kv_head * config.d_head;
    read.sources.push_back({key, attention, attention * length_of(v, config.d_head),
                            attention * output_length(v, W_O, config.d_head, scratch)});
    if (scores != trace.sites.end())
      read.sources.back().score = static_cast<double>(scores->second[(head * length + query) * length + key]);
    read.entropy += entropy_term(attention);
  }
  return read;
}

HeadHabits head_habits(View<const float, 2> pattern, std::span<const TokenId> tokens) {
  const Index n = static_cast<Index>(tokens.size());
  const auto at = [&pattern](Index query, Index key) { return static_cast<double>(pattern(query, key)); };
  HeadHabits habits;
  Index repeats = 0;
  double induction = 0.0;
  for (Index query = 0; query < n; ++query) {
    for (Index key = 0; key < n; ++key) habits.entropy += entropy_term(at(query, key));
    if (query > 0) {
      habits.previous += at(query, query - 1);
      habits.current += at(query, query);
      habits.first += at(query, 0);
    }
    bool repeated = false;
    for (Index earlier = 0; earlier < query; ++earlier)
      if (tokens[static_cast<std::size_t>(earlier)] == tokens[static_cast<std::size_t>(query)]) {
        repeated = true;
        induction += at(query, earlier + 1);
      }
    repeats += repeated;
  }
  const double queries = static_cast<double>(std::max<Index>(1, n - 1));
  habits.entropy /= static_cast<double>(std::max<Index>(1, n));
  habits.previous /= queries;
  habits.current /= queries;
  habits.first /= queries;
  if (repeats > 0) habits.induction = induction / static_cast<double>(repeats);
  return habits;
}

template HeadRead read_head(const Model&, const Trace&, Index, Index, Index);
template HeadRead read_head(const Model&, const TraceF64&, Index, Index, Index);

}  // namespace kirchhoff
