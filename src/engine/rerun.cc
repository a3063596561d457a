#include "kirchhoff/engine/rerun.h"

#include <algorithm>  // for copy_n, max
#include <utility>    // for move

#include "engine/forward.h"
#include "engine/variants.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/model/load.h"

namespace kirchhoff {
namespace {

// Variants that go through the layers together: so many rows that a product gains nothing from more, and so few that
// their buffers stay small beside the model.
constexpr Index kBatchRows = 2048;
constexpr Index kBatchVariants = 512;

/// The positions of each sequence whose logits are read, ascending.
std::vector<std::vector<Index>> wanted_positions(const engine::BatchLayout& base, const std::vector<Index>& positions) {
  std::vector<std::vector<Index>> wanted(static_cast<std::size_t>(base.batch()));
  for (Index b = 0; b < base.batch(); ++b) {
    std::vector<Index>& own = wanted[static_cast<std::size_t>(b)];
    if (positions.empty()) {
      check(base.length(b) == base.longest(), ErrorCode::usage,
            "logits at all positions need sequences of one length: these have {} and {} tokens", base.longest(),
            base.length(b));
      for (Index p = 0; p < base.length(b); ++p) own.push_back(p);
    }
    for (const Index p : positions) {
      check(p >= -base.length(b) && p < base.length(b), ErrorCode::usage,
            "there is no position {}: a sequence has {} tokens", p, base.length(b));
      const Index before = own.empty() ? -1 : own.back();
      own.push_back(p < 0 ? p + base.length(b) : p);
      check(before < own.back(), ErrorCode::usage, "positions of logits must ascend: {} comes after {}", own.back(),
            before);
    }
  }
  return wanted;
}

/// What makes up the cost of a batch: the variants' joins, side by side.
struct Group {
  std::vector<Interventions> variants;
  std::vector<engine::Join> joins;  // sequences of the base; variant by variant
  std::vector<std::size_t> first_join{0};
  Index rows = 0;         // at most
  Index editor_size = 0;  // numbers

  Index size() const { return static_cast<Index>(variants.size()); }

  /// The joins as sequences of the batch: variants of base sequence b lie at [b size, (b + 1) size).
  std::vector<engine::Join> placed() const {
    std::vector<engine::Join> all = joins;
    for (Index v = 0; v < size(); ++v)
      for (std::size_t j = first_join[static_cast<std::size_t>(v)]; j < first_join[static_cast<std::size_t>(v) + 1];
           ++j)
        all[j].sequence = all[j].sequence * size() + v;
    return all;
  }
};

/// Cuts a stream of variants into groups that go through the layers together.
class Groups {
 public:
  Groups(const ModelConfig& config, const engine::BatchLayout& base, Index columns, Index real_bytes,
         const NextVariant& variants, const RerunOptions& options)
      : config_(config),
        base_(base),
        wanted_(wanted_positions(base, options.positions)),
        columns_(columns),
        real_bytes_(real_bytes),
        limit_(options.memory > 0 ? options.memory : available_memory() / 4),
        records_(!options.capture.empty()),
        next_variant_(variants) {
    for (const auto& positions : wanted_) logit_rows_ += static_cast<Index>(positions.size());
  }
  /// What is held for each variant beside, in numbers.
  void add_held(Index size) { held_size_ += size; }

  /// The next group; empty at the end.
  Group next() {
    Group group;
    while (group.size() < kBatchVariants) {
      if (!fetched_ && !fetch()) break;
      const Index rows = group.rows + rows_;
      const Index editors = group.editor_size + editor_size_;
      const bool fits = bytes(rows, group.size() + 1, editors) <= limit_;
      if (group.size() > 0 && (rows > kBatchRows || !fits)) break;
      check(fits, ErrorCode::out_of_memory, "one variant needs {} MiB, and the limit for variants is {} MiB",
            bytes(rows, 1, editors) >> 20, limit_ >> 20);
      group.variants.push_back(std::move(variant_));
      group.joins.insert(group.joins.end(), joins_.begin(), joins_.end());
      group.first_join.push_back(group.joins.size());
      group.rows = rows;
      group.editor_size = editors;
      fetched_ = false;
    }
    return group;
  }

  engine::BranchPlan plan(const Group& group) const {
    return {config_, base_, group.size(), group.placed(), wanted_, records_};
  }
  /// The workspace; logits as they are computed, and as they are handed over.
  Index bytes(Index rows, Index variants, Index editors) const {
    return real_bytes_ * (engine::Forward<float>::workspace_size(config_, rows) +
                          2 * variants * logit_rows_ * columns_ + variants * held_size_ + editors);
  }
  Index columns() const { return columns_; }
  const std::vector<std::vector<Index>>& wanted() const { return wanted_; }

 private:
  bool fetch() {
    variant_ = {};
    if (!next_variant_(variant_)) return false;
    joins_ = engine::joins_of(config_, base_, variant_);
    rows_ = engine::BranchPlan(config_, base_, 1, joins_, wanted_, records_).cost(columns_).most_rows;
    editor_size_ = engine::editor_size(config_, base_, variant_);
    fetched_ = true;
    return true;
  }

  const ModelConfig& config_;
  const engine::BatchLayout& base_;
  std::vector<std::vector<Index>> wanted_;
  Index columns_, logit_rows_ = 0, held_size_ = 0, real_bytes_, limit_;
  bool records_;
  const NextVariant& next_variant_;

  bool fetched_ = false;  // a variant that has not found its group yet
  Interventions variant_;
  std::vector<engine::Join> joins_;
  Index rows_ = 0, editor_size_ = 0;
};

void count_batch(RerunCost& cost, const Groups& groups, const Group& group, Index rows) {
  cost.bytes = std::max(cost.bytes, groups.bytes(rows, group.size(), group.editor_size));
  cost.rows += rows;
  ++cost.batches;
}

/// The rows of W_U's storage that are read, [columns, d_model]; none where all are.
Tensor columns_of_unembedding(const Model& model, const std::vector<Index>& columns) {
  if (columns.empty()) return {};
  const WeightMatrix& W_U = model.weights.W_U;
  Tensor rows = Tensor::uninitialised({static_cast<Index>(columns.size()), W_U.d_in()});
  for (std::size_t i = 0; i < columns.size(); ++i) {
    check(columns[i] >= 0 && columns[i] < W_U.d_out(), ErrorCode::usage,
          "token id {} is out of range: the model has logits 0 to {}", columns[i], W_U.d_out() - 1);
    W_U.rows(columns[i], columns[i] + 1, rows.data() + static_cast<Index>(i) * W_U.d_in());
  }
  return rows;
}

Index column_count(const ModelConfig& config, const RerunOptions& options) {
  return options.columns.empty() ? config.d_vocab_out : static_cast<Index>(options.columns.size());
}

/// One variant's part of what a group recorded.
template <class Real>
BasicTrace<Real> trace_of(const BasicTrace<Real>& group, const BasicTrace<Real>& base, Index variant, Index variants) {
  BasicTrace<Real> trace;
  trace.tokens = base.tokens;
  trace.pad_left = base.pad_left;
  const auto batch = static_cast<Index>(base.tokens.size());
  for (const auto& [site, tensor] : group.sites) {
    Shape shape = tensor.shape();
    shape[0] = batch;
    auto own = BasicTensor<Real>::uninitialised(shape, tensor.axes());
    const Index size = own.size() / batch;
    for (Index b = 0; b < batch; ++b)
      std::copy_n(tensor.data() + (b * variants + variant) * size, size, own.data() + b * size);
    trace.sites.emplace(site, std::move(own));
  }
  return trace;
}

/// A base keeps the keys and values that a group of heads shares once.
void check_base_edges(const ModelConfig& config, const Interventions& base) {
  if (config.n_heads == config.n_kv_heads) return;
  const Index heads_of_group = config.n_heads / config.n_kv_heads;
  for (const EdgeIntervention& edges : base.edges)
    for (const Edge& edge : edges.edges) {
      const Reader& reader = edge.reader;
      const bool copies =
          reader.kind == Reader::Kind::head || reader.kind == Reader::Kind::k || reader.kind == Reader::Kind::v;
      check(
          !copies, ErrorCode::unsupported,
          "variants of a run with the edge {}: the head reads keys and values that heads share; take edges into {} and "
          "{}",
          name(edge), name(Reader{Reader::Kind::group_k, reader.layer, reader.head / heads_of_group}),
          name(Reader{Reader::Kind::group_v, reader.layer, reader.head / heads_of_group}));
    }
}

/// The variants' interventions behind those of the run that they branch off.
std::vector<Interventions> with_base(const Interventions& base, std::span<const Interventions> variants) {
  std::vector<Interventions> all(variants.begin(), variants.end());
  for (Interventions& variant : all) {
    variant.edges.insert(variant.edges.begin(), base.edges.begin(), base.edges.end());
    variant.freezes.insert(variant.freezes.begin(), base.freezes.begin(), base.freezes.end());
  }
  return all;
}

template <class Real>
RerunCost rerun_all(const Model& model, const BasicRerunBase<Real>& base, const NextVariant& variants,
                    const RerunOptions& options, const std::function<void(const BasicVariant<Real>&)>& receive) {
  const engine::BaseState<Real>& state = base.state();
  const Tensor unembedding = columns_of_unembedding(model, options.columns);
  Groups groups(model.config, state.layout, column_count(model.config, options), Index{sizeof(Real)}, variants,
                options);

  groups.add_held(engine::editor_size(model.config, state.layout, base.interventions()));
  for (const std::string& pattern : options.capture)
    for (const SiteRef& ref : find_sites(model.config, pattern)) {
      check(ref.site != Site::unembed_out, ErrorCode::usage, "{}: of variants, ask for logits", site_name(ref));
      groups.add_held(2 * base.trace().at(site_name(ref)).size());  // what is handed over is a copy
    }

  // What a sequence without rows gives: the base's own logits, as a variant in which nothing is changed.
  BasicTrace<Real> recorded;
  BasicTensor<Real> workspace;
  const auto resume = [&](const engine::BranchPlan& plan, const BasicTensor<Real>* base_logits,
                          std::span<const Interventions> interventions, RerunCost& cost) {
    const engine::VariantEditors<Real> editors(model, state.layout, with_base(base.interventions(), interventions));
    const engine::Branches<Real> branches{.base = state,
                                          .plan = plan,
                                          .most_rows = plan.cost(groups.columns()).most_rows,
                                          .workspace = workspace,
                                          .base_logits = base_logits,
                                          .unembedding = options.columns.empty() ? nullptr : &unembedding,
                                          .columns = &options.columns,
                                          .editors = editors,
                                          .base_trace = &base.trace(),
                                          .vanish = options.capture.empty() ? options.vanish : 0.0};
    RunOptions run_options;
    run_options.capture = options.capture;
    run_options.pad_left = base.trace().pad_left;
    engine::Forward<Real> forward(model, branches, run_options);
    recorded = forward.run();
    cost.flops += forward.work().flops;
    cost.dropped_rows += forward.work().dropped_rows;
    return forward.take_branch_logits();
  };
  std::vector<engine::Join> ends;
  for (Index b = 0; b < state.layout.batch(); ++b)
    ends.push_back({model.config.n_layers - 1, engine::Entry::post, b, groups.wanted()[static_cast<std::size_t>(b)]});
  RerunCost cost, of_base;
  const BasicTensor<Real> base_logits =
      resume(engine::BranchPlan(model.config, state.layout, 1, ends, groups.wanted(), false), nullptr,
             std::vector<Interventions>(1), of_base);

  const Index batch = state.layout.batch();
  for (Group group = groups.next(); group.size() > 0; group = groups.next()) {
    report(options.progress, "variants", cost.variants, 0);
    const engine::BranchPlan plan = groups.plan(group);
    const BasicTensor<Real> logits = resume(plan, &base_logits, group.variants, cost);
    count_batch(cost, groups, group, plan.cost(groups.columns()).most_rows);
    // [base sequence, variant, position, column]: one variant's are `size` sequences apart.
    for (Index v = 0; v < group.size(); ++v) {
      const Index step = logits.dim(1) * logits.dim(2);
      const BasicTrace<Real> trace = trace_of(recorded, base.trace(), v, group.size());
      receive(
          {cost.variants++,
           {logits.data() + v * step, {batch, logits.dim(1), logits.dim(2)}, {group.size() * step, logits.dim(2), 1}},
           options.capture.empty() ? nullptr : &trace});
    }
  }
  report(options.progress, "variants", cost.variants, cost.variants);
  return cost;
}

}  // namespace

template <class Real>
BasicRerunBase<Real>::BasicRerunBase(const Model& model, std::span<const Tokens> batch, const RunOptions& options) {
  check(options.cache == nullptr, ErrorCode::usage, "a run that variants branch off takes no key-value cache");
  check(model.config.n_layers > 0, ErrorCode::usage, "the model has no layers that variants could differ in");
  check(options.interventions.sites.empty(), ErrorCode::unsupported,
        "variants of a run with interventions at sites: give each variant those too, and edges or freezes to the run");
  check_base_edges(model.config, options.interventions);
  interventions_ = options.interventions;
  auto state = std::make_shared<engine::BaseState<Real>>(batch);
  engine::Forward<Real> forward(model, batch, options);
  forward.keep(*state);
  trace_ = forward.run();
  bytes_ = engine::base_state_bytes(model.config, state->layout.rows(), Index{sizeof(Real)});
  state_ = std::move(state);
}
template class BasicRerunBase<float>;
template class BasicRerunBase<double>;

NextVariant each_of(std::span<const Interventions> variants) {
  return [variants, next = std::size_t{0}](Interventions& variant) mutable {
    if (next == variants.size()) return false;
    variant = variants[next++];
    return true;
  };
}

RerunCost rerun(const Model& model, const RerunBase& base, const NextVariant& variants, const RerunOptions& options,
                const std::function<void(const Variant&)>& receive) {
  return rerun_all<float>(model, base, variants, options, receive);
}
RerunCost rerun(const Model& model, const RerunBaseF64& base, const NextVariant& variants, const RerunOptions& options,
                const std::function<void(const VariantF64&)>& receive) {
  return rerun_all<double>(model, base, variants, options, receive);
}

RerunCost estimate_rerun(const ModelConfig& config, std::span<const Tokens> batch, const NextVariant& variants,
                         const RerunOptions& options) {
  const engine::BatchLayout base(batch, 0, true);
  Groups groups(config, base, column_count(config, options), Index{sizeof(float)}, variants, options);
  RerunCost cost;
  for (Group group = groups.next(); group.size() > 0; group = groups.next()) {
    const engine::BranchPlan::Cost batch_cost = groups.plan(group).cost(groups.columns());
    cost.flops += batch_cost.flops;
    count_batch(cost, groups, group, batch_cost.most_rows);
    cost.variants += group.size();
  }
  return cost;
}

}  // namespace kirchhoff
