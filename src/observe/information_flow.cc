#include "kirchhoff/observe/information_flow.h"

#include <fmt/format.h>

#include <algorithm>  // for find_if, max, sort, stable_sort
#include <cmath>      // for abs
#include <map>        // for map

#include "kirchhoff/base/parallel.h"
#include "observe/one_sequence.h"
#include "observe/stream_sources.h"

namespace kirchhoff {
namespace {

using namespace observe;
using Vector = std::vector<double>;

/// Where a part comes from, and its share once it is known.
struct Share {
  FlowKind kind{};
  Index pos = -1, head = -1;
  double value = 0.0;
};

/// The states of one model, from the last one down.
bool has_flow_mid(const ModelConfig& config) { return !config.attn_only && !config.parallel; }
Index top_level(const ModelConfig& config) { return config.n_layers * (has_flow_mid(config) ? 2 : 1); }

std::string state_name(const ModelConfig& config, Index level) {
  if (level == 0) return "embed";
  if (!has_flow_mid(config)) return fmt::format("post{}", level - 1);
  return fmt::format("{}{}", level % 2 == 1 ? "mid" : "post", (level - 1) / 2);
}

double l1(const Vector& x) {
  double sum = 0.0;
  for (const double value : x) sum += std::abs(value);
  return sum;
}

template <class Real>
class FlowReader {
 public:
  FlowReader(const Model& model, const BasicTrace<Real>& trace)
      : model_(model), config_(model.config), trace_(trace), length_(sequence_length(trace)) {}

  /// The shares of one state's parts, and how far the parts are from summing to it.
  std::vector<Share> shares(Index level, Index pos, double& closure) {
    const bool mid = has_flow_mid(config_);
    const Index layer = mid ? (level - 1) / 2 : level - 1;
    const bool behind_attention = !mid || level % 2 == 1;
    const Site site = behind_attention && mid ? Site::resid_mid : Site::resid_post;
    const Vector whole = recorded(site, layer, pos);
    const double size = l1(whole);
    std::vector<Share> shares;
    Vector left = whole;
    const auto add = [&](FlowKind kind, Index from, Index head, const Vector& part) {
      double distance = 0.0;
      for (std::size_t i = 0; i < whole.size(); ++i) {
        distance += std::abs(whole[i] - part[i]);
        left[i] -= part[i];
      }
      shares.push_back({kind, from, head, std::max(size - distance, 0.0)});
    };
    add(FlowKind::residual, pos, -1, recorded(behind_attention ? Site::resid_pre : Site::resid_mid, layer, pos));
    if (behind_attention) add_heads(layer, pos, add);
    if (!behind_attention || config_.parallel) add(FlowKind::mlp, pos, -1, recorded(Site::mlp_out, layer, pos));
    double total = 0.0;
    for (const Share& share : shares) total += share.value;
    if (total > 0.0)
      for (Share& share : shares) share.value /= total;
    closure = std::max(closure, size > 0.0 ? l1(left) / size : l1(left));
    return shares;
  }

 private:
  Vector recorded(Site site, Index layer, Index pos) const {
    const std::span<const Real> values = at_position(trace_, site, layer, pos);
    return {values.begin(), values.end()};
  }

  template <class Add>
  void add_heads(Index layer, Index pos, const Add& add) {
    const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
    load(layer, w.W_O);
    const Index group = config_.n_heads / config_.n_kv_heads, d_head = config_.d_head;
    const auto& pattern = trace_.at(site_name(Site::pattern, layer));  // [1, head, query, key]
    const auto norm = [&](Vector& x) {
      if (has_ln1_post(config_))
        through_norm(config_.norm, w.ln1_post, ln1_post_scale(config_, trace_, layer, pos), std::span<double>(x));
    };
    struct Written {
      Index head, key;
      Vector y;
    };
    std::vector<Written> written;
    for (Index head = 0; head < config_.n_heads; ++head)
      for (Index key = 0; key < length_; ++key)
        if (pattern[(head * length_ + pos) * length_ + key] > Real(0)) written.push_back({head, key, {}});
    parallel_for_blocks(static_cast<Index>(written.size()), 8, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) {
        Written& part = written[static_cast<std::size_t>(i)];
        const Real* v = at_position(trace_, Site::v, layer, part.key).data() + part.head / group * d_head;
        const double a = static_cast<double>(pattern[(part.head * length_ + pos) * length_ + part.key]);
        part.y.assign(static_cast<std::size_t>(config_.d_model), 0.0);
        for (std::size_t r = 0; r < part.y.size(); ++r) {
          const float* row = W_O_.data() + static_cast<Index>(r) * w.W_O.d_in() + part.head * d_head;
          double sum = 0.0;
          for (Index d = 0; d < d_head; ++d) sum += static_cast<double>(row[d]) * static_cast<double>(v[d]);
          part.y[r] = a * sum;
        }
        norm(part.y);
      }
    });
    for (const Written& part : written) add(FlowKind::attention, part.key, part.head, part.y);
    Vector bias(static_cast<std::size_t>(config_.d_model), 0.0);
    if (w.b_O.present()) bias = w.b_O.f64();
    norm(bias);
    if (has_ln1_post(config_) && w.ln1_post.b.present())
      for (std::size_t i = 0; i < bias.size(); ++i) bias[i] += w.ln1_post.b.f64()[i];
    if (l1(bias) > 0.0) add(FlowKind::bias, pos, -1, bias);
  }

  /// W_O of one layer, expanded once for all positions.
  void load(Index layer, const WeightMatrix& W_O) {
    if (layer == loaded_) return;
    loaded_ = layer;
    W_O_.resize(static_cast<std::size_t>(W_O.d_out() * W_O.d_in()));
    W_O.rows(0, W_O.d_out(), W_O_.data());
  }

  const Model& model_;
  const ModelConfig& config_;
  const BasicTrace<Real>& trace_;
  Index length_, loaded_ = -1;
  std::vector<float> W_O_;
};

/// Attention from one position is one edge, whichever heads.
std::vector<FlowEdge> merge_heads(const std::vector<Share>& shares) {
  std::vector<FlowEdge> edges;
  std::map<Index, std::size_t> of_pos;
  for (const Share& share : shares) {
    if (share.kind == FlowKind::attention) {
      const auto [found, fresh] = of_pos.emplace(share.pos, edges.size());
      if (!fresh) {
        edges[found->second].value += share.value;
        edges[found->second].heads.push_back({share.head, share.value});
        continue;
      }
    }
    FlowEdge edge;
    edge.from = static_cast<std::size_t>(share.pos);  // a position until nodes are numbered
    edge.kind = share.kind;
    edge.value = share.value;
    if (share.kind == FlowKind::attention) edge.heads.push_back({share.head, share.value});
    edges.push_back(std::move(edge));
  }
  for (FlowEdge& edge : edges) {
    std::stable_sort(edge.heads.begin(), edge.heads.end(),
                     [](const FlowHead& a, const FlowHead& b) { return a.value > b.value; });
    while (!edge.heads.empty() && edge.heads.back().value < 0.1 * edge.value) edge.heads.pop_back();
  }
  std::stable_sort(edges.begin(), edges.end(), [](const FlowEdge& a, const FlowEdge& b) { return a.value > b.value; });
  return edges;
}

}  // namespace

std::string_view name(FlowKind kind) {
  constexpr std::string_view kNames[] = {"residual", "attention", "mlp", "bias"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::vector<std::string> flow_sites(const ModelConfig& config) {
  std::vector<std::string> sites;
  for (Index layer = 0; layer < config.n_layers; ++layer) {
    for (const Site site : {Site::resid_pre, Site::resid_post, Site::v, Site::pattern})
      sites.push_back(site_name(site, layer));
    if (has_flow_mid(config)) sites.push_back(site_name(Site::resid_mid, layer));
    if (!config.attn_only) sites.push_back(site_name(Site::mlp_out, layer));
    if (has_ln1_post(config)) sites.push_back(site_name(Site::ln1_post_scale, layer));
  }
  return sites;
}

template <class Real>
InformationFlow information_flow(const Model& model, const BasicTrace<Real>& trace, const FlowOptions& options) {
  const ModelConfig& config = model.config;
  check(options.threshold >= 0.0 && options.threshold <= 1.0, ErrorCode::usage,
        "a threshold of {}: shares lie between 0 and 1", options.threshold);
  InformationFlow flow;
  flow.options = options;
  flow.options.pos = resolve_position(options.pos, sequence_length(trace));
  FlowReader<Real> reader(model, trace);
  const Index top = top_level(config);
  flow.nodes.push_back({top, flow.options.pos, state_name(config, top)});
  std::size_t begin = 0;
  for (Index level = top; level > 0; --level) {
    report(options.progress, "flow", top - level, top);
    const std::size_t end = flow.nodes.size();  // the nodes of this level are [begin, end)
    std::map<Index, std::size_t> below;
    for (std::size_t to = begin; to < end; ++to)
      for (FlowEdge& edge : merge_heads(reader.shares(level, flow.nodes[to].pos, flow.closure))) {
        if (edge.value < options.threshold || edge.value <= 0.0) continue;
        edge.to = to;
        edge.layer = has_flow_mid(config) ? (level - 1) / 2 : level - 1;
        if (edge.kind == FlowKind::bias) {
          edge.from = to;
        } else {
          const Index pos = static_cast<Index>(edge.from);
          const auto [found, fresh] = below.emplace(pos, flow.nodes.size());
          if (fresh) flow.nodes.push_back({level - 1, pos, state_name(config, level - 1)});
          edge.from = found->second;
        }
        flow.edges.push_back(std::move(edge));
      }
    begin = end;
  }
  return flow;
}

template InformationFlow information_flow(const Model&, const Trace&, const FlowOptions&);
template InformationFlow information_flow(const Model&, const TraceF64&, const FlowOptions&);

}  // namespace kirchhoff
