#include "kirchhoff/observe/paths.h"

#include <fmt/format.h>

#include <algorithm>  // for copy, fill, max, min, push_heap, pop_heap, sort
#include <cmath>      // for abs

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/kernels/gemm.h"
#include "observe/logit_direction.h"
#include "observe/one_sequence.h"
#include "observe/stream_sources.h"

namespace kirchhoff {
namespace {

using namespace observe;

constexpr Index kBlockBytes = Index{64} << 20;

/// Heads as layer * n_heads + head, the one that acts last first.
using Chain = std::vector<std::int32_t>;

/// A path before it has names.
struct Candidate {
  double value = 0.0;
  Index seen = 0;    ///< how many came before it: ties go to the earlier one
  Index source = 0;  ///< into the names that its collector knows
  Chain chain;
};
/// Whether `a` is listed before `b`.
bool before(const Candidate& a, const Candidate& b) {
  const double x = std::abs(a.value), y = std::abs(b.value);
  return x != y ? x > y : a.seen < b.seen;
}

/// Keeps the largest paths and sums the others.
class Collector {
 public:
  Collector(PathExpansion& result, Index top) : result_(result), top_(static_cast<std::size_t>(top)) {}

  void add(double value, Index source, const Chain& chain) {
    PathOrder& order = result_.orders[chain.size()];
    order.count += 1.0;
    order.sum += value;
    size_ += std::abs(value);
    if (kept_.size() == top_ && (top_ == 0 || std::abs(value) <= std::abs(kept_.front().value))) {
      rest(value);
    } else {
      kept_.push_back({value, seen_, source, chain});
      std::push_heap(kept_.begin(), kept_.end(), before);
      if (kept_.size() > top_) {
        std::pop_heap(kept_.begin(), kept_.end(), before);
        rest(kept_.back().value);
        kept_.pop_back();
      }
    }
    ++seen_;
  }

  double size() const { return size_; }
  std::vector<Candidate> take() {
    std::sort(kept_.begin(), kept_.end(), before);
    return std::move(kept_);
  }

 private:
  void rest(double value) {
    result_.rest_count += 1.0;
    result_.rest_sum += value;
  }

  PathExpansion& result_;
  std::size_t top_;
  std::vector<Candidate> kept_;  ///< a heap, the smallest in front
  Index seen_ = 0;
  double size_ = 0.0;
};

/// Chains whose first-acting head is in layer `front` (n_layers: no head at all), with how they read the stream that
/// enters that layer.
template <class Real>
struct Block {
  Index front = 0;
  std::vector<Chain> chains;
  BasicTensor<Real> readouts;  ///< [chains, pos, d_model]
};

template <class Real>
double dot_product(const Real* a, const Real* b, Index n) {
  double sum = 0.0;
  for (Index i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

template <class Real>
class Expander {
 public:
  Expander(const Model& model, const BasicTrace<Real>& trace, PathExpansion& result, const PathOptions& options)
      : model_(model),
        config_(model.config),
        trace_(trace),
        options_(options),
        sources_(stream_sources(model.config, model.weights)),
        length_(sequence_length(trace)),
        rows_(config_.causal ? result.target.pos + 1 : length_),
        group_(config_.n_heads / config_.n_kv_heads),
        result_(result),
        collector_(result, options.top) {}

  void run() {
    const Index pos = result_.target.pos;
    const LogitDirection u = logit_direction(model_, trace_, result_.target);
    Block<Real> root{config_.n_layers, {Chain{}}, BasicTensor<Real>({1, rows_, config_.d_model})};
    const std::span<Real> readout(root.readouts.data() + pos * config_.d_model, u.stream.size());
    for (std::size_t i = 0; i < readout.size(); ++i) readout[i] = static_cast<Real>(u.stream[i]);

    direct_paths(u, pos);
    if (options_.order > 0) {
      project_sources();
      expand(root);
    }
    finish();
  }

 private:
  Index source_count() const { return static_cast<Index>(sources_.size()); }
  bool has_value_bias(Index layer) const {
    const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
    return w.b_V.present() || (has_ln1(config_) && w.ln1.b.present());
  }

  /// Order 0: each source as the unembedding reads it. Of order 0 alone, the heads together are what is left of the
  /// stream that the model recorded.
  void direct_paths(const LogitDirection& u, Index pos) {
    std::vector<Real> x(u.stream.size());
    double sum = 0.0;
    for (Index s = 0; s < source_count(); ++s) {
      write_source(model_, trace_, sources_[static_cast<std::size_t>(s)], pos, std::span<Real>(x));
      const double value = dot(u.stream, x.data());
      collector_.add(value, s, {});
      sum += value;
    }
    if (model_.weights.ln_final.b.present() && config_.final_norm) collector_.add(u.norm_bias, kFinalBias, {});
    if (model_.weights.b_U.present()) collector_.add(u.unembed_bias, kUnembedBias, {});
    if (options_.order == 0)
      result_.longer.sum = dot(u.stream, at_position(trace_, Site::resid_post, config_.n_layers - 1, pos).data()) - sum;
  }

  /// What each source gives the values of each layer: its rows through ln1 and W_V. Behind the sources of the layers
  /// below: the constant part (b_V and ln1's bias), if there is one, and the values that the model recorded.
  void project_sources() {
    const Index d_head = config_.d_head, width = config_.n_kv_heads * d_head;
    for (Index layer = 0; layer < config_.n_layers; ++layer) {
      const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
      const Index below = sources_below(sources_, layer), parts = below + has_value_bias(layer) + 1;
      auto values = BasicTensor<Real>::uninitialised({parts, config_.n_kv_heads, rows_, d_head});
      const ConstMatrix W_V = storage_rows(w.W_V, 0, w.W_V.d_out(), scratch_V_);  // [n_kv_heads d_head, d_model]
      auto x = BasicTensor<Real>::uninitialised({rows_, config_.d_model});
      auto v = BasicTensor<Real>::uninitialised({rows_, width});
      const auto store = [&](Index part, auto&& value_at) {
        for (Index g = 0; g < config_.n_kv_heads; ++g)
          for (Index row = 0; row < rows_; ++row) {
            Real* out = values.data() + ((part * config_.n_kv_heads + g) * rows_ + row) * d_head;
            for (Index i = 0; i < d_head; ++i) out[i] = value_at(row, g * d_head + i);
          }
      };
      for (Index s = 0; s < below; ++s) {
        for (Index row = 0; row < rows_; ++row) {
          const std::span<Real> at = x.template view<2>().row(row);
          write_source(model_, trace_, sources_[static_cast<std::size_t>(s)], row, at);
          if (has_ln1(config_)) through_norm(config_.norm, w.ln1, ln1_scale(config_, trace_, layer, row), at);
        }
        kernels::gemm(kernels::BasicGemmProblem<Real>{
            .a = x.template view<2>(), .b = transposed(W_V), .c = v.template view<2>()});
        store(s, [&](Index row, Index i) { return v[row * width + i]; });
      }
      if (has_value_bias(layer)) {
        std::vector<double> constant(static_cast<std::size_t>(width), 0.0);
        for (Index i = 0; i < width; ++i) {
          double& sum = constant[static_cast<std::size_t>(i)];
          if (w.b_V.present()) sum = w.b_V.f64()[static_cast<std::size_t>(i)];
          if (has_ln1(config_) && w.ln1.b.present())
            for (Index j = 0; j < config_.d_model; ++j)
              sum += w.ln1.b.f64()[static_cast<std::size_t>(j)] * static_cast<double>(W_V(i, j));
        }
        store(below, [&](Index, Index i) { return static_cast<Real>(constant[static_cast<std::size_t>(i)]); });
      }
      const auto& recorded = trace_.at(site_name(Site::v, layer));  // [1, pos, kv head, d_head]
      store(parts - 1, [&](Index row, Index i) { return recorded[row * width + i]; });
      values_.push_back(std::move(values));
    }
  }

  /// Puts each head of every layer below in front of the chains of `parents`.
  void expand(const Block<Real>& parents) {
    const Index child_bytes =
        config_.n_heads * rows_ * (config_.d_model + config_.d_head) * static_cast<Index>(sizeof(Real));
    const Index piece = std::max<Index>(1, kBlockBytes / child_bytes);
    const Index count = static_cast<Index>(parents.chains.size());
    for (Index layer = parents.front - 1; layer >= 0; --layer)
      for (Index first = 0; first < count; first += piece) {
        report(options_.progress, "paths", done_++, 0);
        prepend(parents, first, std::min(piece, count - first), layer);
      }
  }

  /// The heads of `layer` in front of chains [first, first + count).
  void prepend(const Block<Real>& parents, Index first, Index count, Index layer) {
    const Index heads = config_.n_heads, d_head = config_.d_head, d_model = config_.d_model;
    const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];

    // 1. The readouts of what the heads write, before a norm behind them, times W_O: [count, pos, head, d_head].
    View<const Real, 2> readouts(parents.readouts.data() + first * rows_ * d_model, {count * rows_, d_model});
    BasicTensor<Real> behind_norm;
    if (has_ln1_post(config_)) {
      behind_norm = BasicTensor<Real>::uninitialised({count * rows_, d_model});
      std::copy(readouts.data, readouts.data + readouts.size(), behind_norm.data());
      for (Index row = 0; row < count * rows_; ++row)
        back_through_norm(config_.norm, w.ln1_post, ln1_post_scale(config_, trace_, layer, row % rows_),
                          behind_norm.template view<2>().row(row));
      readouts = behind_norm.template view<2>();
    }
    auto z = BasicTensor<Real>::uninitialised({count * rows_, heads * d_head});
    kernels::gemm(kernels::BasicGemmProblem<Real>{
        .a = readouts, .b = storage_rows(w.W_O, 0, w.W_O.d_out(), scratch_O_), .c = z.template view<2>()});

    // 2. From the queries to the keys: y_j = sum_i A[i, j] z_i, and each source's part: y . v.
    const BasicTensor<Real>& values = values_[static_cast<std::size_t>(layer)];
    const Index parts = values.dim(0), told_apart = parts - 1;
    auto y = BasicTensor<Real>::uninitialised({heads * count, rows_, d_head});
    std::vector<double> found(static_cast<std::size_t>(heads * count * parts));
    const Real* pattern = trace_.at(site_name(Site::pattern, layer)).data();  // [1, head, query, key]
    parallel_for(heads * count, [&](Index child) {
      const Index head = child / count, parent = child % count;
      Real* at_keys = y.data() + child * rows_ * d_head;
      std::fill(at_keys, at_keys + rows_ * d_head, Real{0});
      for (Index query = 0; query < rows_; ++query) {
        const Real* read = z.data() + (parent * rows_ + query) * heads * d_head + head * d_head;
        const Real* row = pattern + (head * length_ + query) * length_;
        for (Index key = 0; key < rows_; ++key)
          if (row[key] != Real{0})
            for (Index i = 0; i < d_head; ++i) at_keys[key * d_head + i] += row[key] * read[i];
      }
      for (Index part = 0; part < parts; ++part)
        found[static_cast<std::size_t>(child * parts + part)] = dot_product(
            at_keys, values.data() + (part * config_.n_kv_heads + head / group_) * rows_ * d_head, rows_ * d_head);
    });

    // 3. Collected in a fixed order.
    Block<Real> children{layer, {}, {}};
    for (Index child = 0; child < heads * count; ++child) {
      Chain chain = parents.chains[static_cast<std::size_t>(first + child % count)];
      chain.push_back(static_cast<std::int32_t>(layer * heads + child / count));
      const double* part = found.data() + child * parts;
      double sum = 0.0;
      for (Index s = 0; s < told_apart; ++s) {
        collector_.add(part[s], s < sources_below(sources_, layer) ? s : kValueBias, chain);
        sum += part[s];
      }
      // The values themselves are the sources' parts and what earlier heads gave: the longer paths.
      if (static_cast<Index>(chain.size()) == options_.order && layer > 0) result_.longer.sum += part[told_apart] - sum;
      children.chains.push_back(std::move(chain));
    }
    if (static_cast<Index>(children.chains.front().size()) == options_.order || layer == 0) return;

    // 4. How these chains read the stream: back through W_V and ln1.
    children.readouts = BasicTensor<Real>::uninitialised({heads * count, rows_, d_model});
    const ConstMatrix W_V = storage_rows(w.W_V, 0, w.W_V.d_out(), scratch_V_);
    const Index group_rows = group_ * count * rows_;
    std::vector<kernels::BasicGemmProblem<Real>> products;
    for (Index g = 0; g < config_.n_kv_heads; ++g)
      products.push_back(
          {.a = View<const Real, 2>(y.data() + g * group_rows * d_head, {group_rows, d_head}),
           .b = W_V.rows(g * d_head, d_head),
           .c = View<Real, 2>(children.readouts.data() + g * group_rows * d_model, {group_rows, d_model})});
    kernels::gemm(std::span<const kernels::BasicGemmProblem<Real>>(products));
    if (has_ln1(config_))
      parallel_for(heads * count, [&](Index child) {
        for (Index row = 0; row < rows_; ++row)
          back_through_norm(config_.norm, w.ln1, ln1_scale(config_, trace_, layer, row),
                            children.readouts.template view<3>().at(child).row(row));
      });
    y = {};  // not held while longer chains are expanded
    z = {};
    expand(children);
  }

  /// How many paths there are in all, of every length.
  double count_all() const {
    double arriving = 0.0;  // paths to the stream that enters the layer
    std::size_t s = 0;
    for (Index layer = -1; layer < config_.n_layers; ++layer) {
      if (layer >= 0) arriving += static_cast<double>(config_.n_heads) * (arriving + has_value_bias(layer));
      for (; s < sources_.size() && sources_[s].layer == layer; ++s) arriving += 1.0;
    }
    return arriving + (model_.weights.ln_final.b.present() && config_.final_norm) + model_.weights.b_U.present();
  }

  void finish() {
    for (const PathOrder& order : result_.orders) {
      result_.total += order.sum;
      result_.longer.count -= order.count;
    }
    result_.longer.count += count_all();
    result_.total += result_.longer.sum;
    result_.rest_count += result_.longer.count;
    result_.rest_sum += result_.longer.sum;
    for (const Candidate& candidate : collector_.take()) {
      StreamPath path{{source_name(candidate)}, static_cast<Index>(candidate.chain.size()), candidate.value};
      for (auto head = candidate.chain.rbegin(); head != candidate.chain.rend(); ++head)
        path.nodes.push_back(fmt::format("a{}.h{}", *head / config_.n_heads, *head % config_.n_heads));
      result_.paths.push_back(std::move(path));
    }
    const double size = collector_.size() + std::abs(result_.longer.sum), off = std::abs(result_.total - result_.own);
    result_.closure = size > 0.0 ? off / size : off;
  }

  std::string source_name(const Candidate& candidate) const {
    if (candidate.source == kFinalBias) return "ln_final.b";
    if (candidate.source == kUnembedBias) return "unembed.b";
    if (candidate.source == kValueBias) return fmt::format("a{}.b_V", candidate.chain.back() / config_.n_heads);
    return sources_[static_cast<std::size_t>(candidate.source)].node();
  }

  static constexpr Index kValueBias = -1, kFinalBias = -2, kUnembedBias = -3;

  const Model& model_;
  const ModelConfig& config_;
  const BasicTrace<Real>& trace_;
  const PathOptions& options_;
  const std::vector<StreamSource> sources_;
  const Index length_, rows_, group_;  ///< rows_: positions that can reach the target's
  PathExpansion& result_;
  Collector collector_;
  std::vector<BasicTensor<Real>> values_;  ///< by layer: [part, kv head, pos, d_head]
  Tensor scratch_V_, scratch_O_;
  Index done_ = 0;
};

}  // namespace

std::vector<std::string> path_sites(const ModelConfig& config) {
  std::vector<std::string> sites = stream_source_sites(config);
  if (config.final_norm && config.norm != NormKind::none) sites.push_back(site_name(Site::final_scale));
  if (config.logit_softcap > 0.0) sites.push_back(site_name(Site::unembed_out));
  sites.push_back(site_name(Site::resid_post, config.n_layers - 1));
  for (Index layer = 0; layer < config.n_layers; ++layer) {
    sites.push_back(site_name(Site::pattern, layer));
    sites.push_back(site_name(Site::v, layer));
  }
  return sites;
}

template <class Real>
PathExpansion expand_paths(const Model& model, const BasicTrace<Real>& trace, const LogitTarget& target,
                           const PathOptions& options) {
  check(options.order >= 0, ErrorCode::usage, "paths of order {}: an order is a number of heads, at least 0",
        options.order);
  check(options.top >= 0, ErrorCode::usage, "{} paths to list: at least 0", options.top);
  PathOptions within = options;
  within.order = std::min(options.order, model.config.n_layers);  // no chain is longer
  PathExpansion result;
  result.target = target;
  result.target.pos = resolve_position(target.pos, sequence_length(trace));
  for (Index k = 0; k <= within.order; ++k) result.orders.push_back({k, 0.0, 0.0});
  result.longer.order = within.order + 1;
  const OwnLogit own = own_logit(model, trace, result.target);
  result.own = own.value;
  result.soft_capped = own.soft_capped;
  Expander<Real>(model, trace, result, within).run();
  return result;
}

template PathExpansion expand_paths(const Model&, const Trace&, const LogitTarget&, const PathOptions&);
template PathExpansion expand_paths(const Model&, const TraceF64&, const LogitTarget&, const PathOptions&);

}  // namespace kirchhoff
