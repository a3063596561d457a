#include "observe/path_expander.h"

#include <fmt/format.h>

#include <algorithm>  // for copy, fill, max, min
#include <cmath>      // for abs

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/kernels/gemm.h"
#include "observe/logit_direction.h"
#include "observe/one_sequence.h"
#include "observe/stream_sources.h"

namespace kirchhoff::observe {
namespace {

constexpr Index kBlockBytes = Index{64} << 20;

/// Chains whose first-acting node reads the stream at stage `front` (Stages; of no node: where the target reads it),
/// with how they read it.
template <class Real>
struct Block {
  Index front = 0;
  std::vector<Chain> chains;
  BasicTensor<Real> readouts;  ///< [chains * pos, d_model]
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
  Expander(const Model& model, const BasicTrace<Real>& trace, PathExpansion& result, const Root<Real>& target,
           const PathOptions& options)
      : model_(model),
        config_(model.config),
        trace_(trace),
        options_(options),
        target_(target),
        stages_(model.config),
        length_(sequence_length(trace)),
        rows_(config_.causal ? result.target.pos + 1 : length_),
        sources_(model, trace, rows_, target.stage, options.mlp),
        group_(config_.n_heads / config_.n_kv_heads),
        result_(result),
        collector_(result, options.top) {}

  /// The chains of the listed paths, in their order.
  std::vector<Candidate> run() {
    Block<Real> root{target_.stage, {Chain{}}, BasicTensor<Real>({rows_, config_.d_model})};
    for (const StreamRead<Real>& read : target_.reads) {
      const std::span<Real> readout = root.readouts.template view<2>().row(read.pos);
      for (std::size_t i = 0; i < readout.size(); ++i) readout[i] = static_cast<Real>(read.direction[i]);
    }

    direct_paths();
    if (options_.order > 0) {
      project_sources();
      expand(root);
    }
    return finish();
  }

 private:
  /// Order 0: each source as the target reads it. Of order 0 alone, the nodes together are what is left of the stream
  /// that the model recorded.
  void direct_paths() {
    std::vector<Real> x(static_cast<std::size_t>(config_.d_model));
    double sum = 0.0;
    for (Index s = 0; s < sources_.at(target_.stage); ++s) {
      double value = 0.0;
      for (const StreamRead<Real>& read : target_.reads) {
        sources_.write(s, read.pos, std::span<Real>(x));
        value += dot(read.direction, x.data());
      }
      collector_.add(value, s, {});
      sum += value;
    }
    for (std::size_t i = 0; i < target_.constants.size(); ++i)
      collector_.add(target_.constants[i].second, kFirstConstant - static_cast<Index>(i), {});
    if (options_.order > 0) return;
    result_.longer.sum = -sum;
    for (const StreamRead<Real>& read : target_.reads) result_.longer.sum += dot(read.direction, read.stream.data());
  }

  /// What each source gives the values of each layer: its rows through ln1 and W_V. Behind the sources of the layers
  /// below: the constant part (b_V and ln1's bias), if there is one, and the values that the model recorded.
  void project_sources() {
    const Index d_head = config_.d_head, width = config_.n_kv_heads * d_head;
    for (Index layer = 0; layer < config_.n_layers && Stages::behind_attention(layer) <= target_.stage; ++layer) {
      const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
      const Index below = sources_.at(Stages::attention(layer)), parts = below + sources_.has_value_bias(layer) + 1;
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
          sources_.write(s, row, at);
          if (has_ln1(config_)) through_norm(config_.norm, w.ln1, ln1_scale(config_, trace_, layer, row), at);
        }
        kernels::gemm(kernels::BasicGemmProblem<Real>{
            .a = x.template view<2>(), .b = transposed(W_V), .c = v.template view<2>()});
        store(s, [&](Index row, Index i) { return v[row * width + i]; });
      }
      if (sources_.has_value_bias(layer)) {
        const std::vector<double> constant = sources_.value_bias(layer);
        store(below, [&](Index, Index i) { return static_cast<Real>(constant[static_cast<std::size_t>(i)]); });
      }
      const auto& recorded = trace_.at(site_name(Site::v, layer));  // [1, pos, kv head, d_head]
      store(parts - 1, [&](Index row, Index i) { return recorded[row * width + i]; });
      values_.push_back(std::move(values));
    }
  }

  /// Puts each node that the chains of `parents` can read from in front of them, latest first.
  void expand(const Block<Real>& parents) {
    for (Index layer = config_.n_layers - 1; layer >= 0; --layer) {
      if (sources_.linear() && Stages::behind_mlp(layer) <= parents.front)
        in_pieces(parents, config_.d_model + 2 * config_.d_mlp,
                  [&](Index first, Index count) { prepend_mlp(parents, first, count, layer); });
      if (Stages::behind_attention(layer) <= parents.front)
        in_pieces(parents, config_.n_heads * (config_.d_model + config_.d_head),
                  [&](Index first, Index count) { prepend_heads(parents, first, count, layer); });
    }
  }

  /// A few chains at a time, each of which takes `width` numbers a position.
  template <class Task>
  void in_pieces(const Block<Real>& parents, Index width, const Task& task) {
    const Index piece = std::max<Index>(1, kBlockBytes / (rows_ * width * static_cast<Index>(sizeof(Real))));
    const auto count = static_cast<Index>(parents.chains.size());
    for (Index first = 0; first < count; first += piece) {
      report(options_.progress, "paths", done_++, 0);
      task(first, std::min(piece, count - first));
    }
  }

  View<const Real, 2> readouts_of(const Block<Real>& parents, Index first, Index count) const {
    return {parents.readouts.data() + first * rows_ * config_.d_model, {count * rows_, config_.d_model}};
  }
  bool longest(const Chain& chain) const { return static_cast<Index>(chain.size()) == options_.order; }
  /// Whether anything but sources is in the stream at a stage.
  static bool nodes_before(Index stage) { return stage > 0; }

  /// The MLP of `layer` in front of chains [first, first + count).
  void prepend_mlp(const Block<Real>& parents, Index first, Index count, Index layer) {
    Block<Real> children{stages_.mlp(layer), {}, sources_.mlp(layer).back(readouts_of(parents, first, count))};
    const Index told_apart = sources_.at(children.front), size = rows_ * config_.d_model;
    std::vector<double> found(static_cast<std::size_t>(count * (told_apart + 1)));
    auto x = BasicTensor<Real>::uninitialised({rows_, config_.d_model});
    for (Index part = 0; part <= told_apart; ++part) {
      for (Index row = 0; part < told_apart && row < rows_; ++row)
        sources_.write(part, row, x.template view<2>().row(row));
      const Real* stream = part < told_apart ? x.data() : sources_.mlp_stream(layer).data;
      parallel_for(count, [&](Index child) {
        found[static_cast<std::size_t>(child * (told_apart + 1) + part)] =
            dot_product(children.readouts.data() + child * size, stream, size);
      });
    }
    for (Index child = 0; child < count; ++child) {
      Chain chain = parents.chains[static_cast<std::size_t>(first + child)];
      chain.push_back(static_cast<std::int32_t>(layer * (config_.n_heads + 1) + config_.n_heads));
      collect(found.data() + child * (told_apart + 1), told_apart, told_apart, chain, children.front);
      children.chains.push_back(std::move(chain));
    }
    if (!longest(children.chains.front()) && nodes_before(children.front)) expand(children);
  }

  /// The values of one chain with each source: the first `of_stream` are the stream's, then the value bias; behind
  /// `told_apart` of them the value with everything that the model recorded: what the sources do not give of it came by
  /// earlier nodes, on longer paths.
  void collect(const double* values, Index of_stream, Index told_apart, const Chain& chain, Index stage) {
    double sum = 0.0;
    for (Index s = 0; s < told_apart; ++s) {
      collector_.add(values[s], s < of_stream ? s : kValueBias, chain);
      sum += values[s];
    }
    if (longest(chain) && nodes_before(stage)) result_.longer.sum += values[told_apart] - sum;
  }

  /// The heads of `layer` in front of chains [first, first + count).
  void prepend_heads(const Block<Real>& parents, Index first, Index count, Index layer) {
    const Index heads = config_.n_heads, d_head = config_.d_head, d_model = config_.d_model;
    const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];

    // 1. The readouts of what the heads write, before a norm behind them, times W_O: [count, pos, head, d_head].
    View<const Real, 2> readouts = readouts_of(parents, first, count);
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
    Block<Real> children{Stages::attention(layer), {}, {}};
    for (Index child = 0; child < heads * count; ++child) {
      Chain chain = parents.chains[static_cast<std::size_t>(first + child % count)];
      chain.push_back(static_cast<std::int32_t>(layer * (heads + 1) + child / count));
      collect(found.data() + child * parts, sources_.at(children.front), told_apart, chain, children.front);
      children.chains.push_back(std::move(chain));
    }
    if (longest(children.chains.front()) || !nodes_before(children.front)) return;

    // 4. How these chains read the stream: back through W_V and ln1.
    children.readouts = BasicTensor<Real>::uninitialised({heads * count * rows_, d_model});
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
                            children.readouts.template view<2>().row(child * rows_ + row));
      });
    y = {};  // not held while longer chains are expanded
    z = {};
    expand(children);
  }

  /// How many paths there are in all, of every length.
  double count_all() const {
    // Paths into the stream: of the sources, and of the nodes that wrote by a stage.
    double by_heads = 0.0, by_all = 0.0;
    const auto arriving = [&](Index stage, double by_nodes) {
      return static_cast<double>(sources_.at(stage)) + by_nodes;
    };
    for (Index layer = 0; Stages::attention(layer) < target_.stage; ++layer) {
      by_heads = by_all + static_cast<double>(config_.n_heads) *
                              (arriving(Stages::attention(layer), by_all) + sources_.has_value_bias(layer));
      const double read = arriving(stages_.mlp(layer), config_.parallel ? by_all : by_heads);
      by_all = by_heads + (sources_.linear() ? read : 0.0);
    }
    return arriving(target_.stage, by_all) + static_cast<double>(target_.constants.size());
  }

  std::vector<Candidate> finish() {
    for (const PathOrder& order : result_.orders) {
      result_.total += order.sum;
      result_.longer.count -= order.count;
    }
    result_.longer.count += count_all();
    result_.total += result_.longer.sum;
    result_.rest_count += result_.longer.count;
    result_.rest_sum += result_.longer.sum;
    std::vector<Candidate> listed = collector_.take();
    for (const Candidate& candidate : listed) {
      StreamPath path{{source_name(candidate)}, static_cast<Index>(candidate.chain.size()), candidate.value};
      for (auto node = candidate.chain.rbegin(); node != candidate.chain.rend(); ++node) {
        const Index layer = *node / (config_.n_heads + 1), head = *node % (config_.n_heads + 1);
        path.nodes.push_back(head == config_.n_heads ? fmt::format("m{}", layer) : fmt::format("a{}.h{}", layer, head));
      }
      result_.paths.push_back(std::move(path));
    }
    const double size = collector_.size() + std::abs(result_.longer.sum), off = std::abs(result_.total - result_.own);
    result_.closure = size > 0.0 ? off / size : off;
    return listed;
  }

  std::string source_name(const Candidate& candidate) const {
    if (candidate.source <= kFirstConstant)
      return target_.constants[static_cast<std::size_t>(kFirstConstant - candidate.source)].first;
    if (candidate.source == kValueBias) return fmt::format("a{}.b_V", candidate.chain.back() / (config_.n_heads + 1));
    return sources_.name(candidate.source);
  }

  const Model& model_;
  const ModelConfig& config_;
  const BasicTrace<Real>& trace_;
  const PathOptions& options_;
  const Root<Real>& target_;
  const Stages stages_;
  const Index length_, rows_;  ///< rows_: positions that can reach the target's
  const PathSources<Real> sources_;
  const Index group_;
  PathExpansion& result_;
  Collector collector_;
  std::vector<BasicTensor<Real>> values_;  ///< by layer: [part, kv head, pos, d_head]
  Tensor scratch_V_, scratch_O_;
  Index done_ = 0;
};

/// The longest chains that end in front of a layer.
Index depth(const ModelConfig& config, Index layers, MlpPaths mlp) {
  return layers * (mlp == MlpPaths::linear && !config.attn_only && !config.parallel ? 2 : 1);
}

}  // namespace

template <class Real>
PathExpansion expand(const Model& model, const BasicTrace<Real>& trace, PathExpansion result, const Root<Real>& root,
                     const PathOptions& options, std::vector<Candidate>* candidates) {
  check(options.order >= 0, ErrorCode::usage, "paths of order {}: an order is a number of nodes, at least 0",
        options.order);
  check(options.top >= 0, ErrorCode::usage, "{} paths to list: at least 0", options.top);
  PathOptions within = options;
  within.order = std::min(options.order, depth(model.config, root.stage / 2, options.mlp));  // no chain is longer
  for (Index k = 0; k <= within.order; ++k) result.orders.push_back({k, 0.0, 0.0});
  result.longer.order = within.order + 1;
  std::vector<Candidate> listed = Expander<Real>(model, trace, result, root, within).run();
  if (candidates) *candidates = std::move(listed);
  return result;
}

template PathExpansion expand(const Model&, const Trace&, PathExpansion, const Root<float>&, const PathOptions&,
                              std::vector<Candidate>*);
template PathExpansion expand(const Model&, const TraceF64&, PathExpansion, const Root<double>&, const PathOptions&,
                              std::vector<Candidate>*);

}  // namespace kirchhoff::observe
