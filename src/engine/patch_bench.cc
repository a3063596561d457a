#include <algorithm>  // for max, min, sort
#include <chrono>     // for steady_clock
#include <vector>     // for vector

#include "engine/bench_products.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/base/random.h"
#include "kirchhoff/engine/bench.h"
#include "kirchhoff/engine/graph.h"
#include "kirchhoff/engine/rerun.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff {
namespace {

constexpr Index kEdges = 128;

/// One variant for each place of the sweep, taken from `corrupt`.
std::vector<Interventions> variants_of(const ModelConfig& config, const PatchBenchOptions& options,
                                       const Trace& corrupt) {
  std::vector<Interventions> variants;
  if (options.sweep == PatchSweep::edge) {
    const std::vector<Edge> edges = Graph(config).edges();
    Random random(3);
    for (Index i = 0; i < kEdges; ++i) {
      EdgeIntervention edge;
      edge.edges = {edges[static_cast<std::size_t>(random.below(std::ssize(edges)))]};
      edge.source.trace = corrupt;
      variants.emplace_back().edges.push_back(std::move(edge));
    }
    return variants;
  }
  const auto add = [&](Site site, Index layer, Where where) {
    variants.emplace_back().sites.push_back({.site = site_name(site, layer),
                                             .edit = Edit::resample,
                                             .where = std::move(where),
                                             .source = {.trace = corrupt}});
  };
  for (Index layer = 0; layer < config.n_layers; ++layer) {
    if (options.sweep == PatchSweep::resid) {
      for (Index p = 0; p < options.tokens; ++p) add(Site::resid_pre, layer, {.positions = {p}});
      continue;
    }
    for (Index h = 0; h < config.n_heads; ++h) {
      if (options.sweep == PatchSweep::head) add(Site::z, layer, {.heads = {h}});
      for (Index p = 0; p < options.tokens && options.sweep == PatchSweep::head_pos; ++p)
        add(Site::z, layer, {.positions = {p}, .heads = {h}});
    }
  }
  return variants;
}

/// What the sources of a sweep's variants must have recorded.
std::vector<std::string> sites_of_sweep(const ModelConfig& config, PatchSweep sweep) {
  if (sweep == PatchSweep::edge) return edge_sites(config, Graph(config).edges());
  return {sweep == PatchSweep::resid ? "blocks.*.hook_resid_pre" : "blocks.*.attn.hook_z"};
}

}  // namespace

PatchBench bench_patch(const Model& model, const PatchBenchOptions& options) {
  check(options.tokens >= 1 && options.batch >= 1 && options.repeats >= 1, ErrorCode::usage,
        "tokens, batch and repeats must be at least 1");
  engine::check_expanded(model);
  Random random(2);
  std::vector<Tokens> clean(static_cast<std::size_t>(options.batch)), corrupted;
  for (Tokens& tokens : clean)
    for (Index i = 0; i < options.tokens; ++i)
      tokens.push_back(static_cast<TokenId>(random.below(model.config.d_vocab)));
  corrupted = clean;
  for (Tokens& tokens : corrupted)
    for (Index i = 0; i < options.tokens; i += 8)
      tokens[static_cast<std::size_t>(i)] = static_cast<TokenId>(random.below(model.config.d_vocab));
  const Index last = model.config.d_vocab_out - 1;
  RerunOptions rerun_options{.columns = {std::min<Index>(11, last), std::min<Index>(13, last)},
                             .vanish = options.vanish};
  if (options.sweep == PatchSweep::edge) rerun_options.columns = {};

  reset_peak();
  auto start = std::chrono::steady_clock::now();
  const RunOptions capture{.capture = sites_of_sweep(model.config, options.sweep), .logits = LogitPositions::none};
  const Trace corrupt = run(model, corrupted, capture);
  const RerunBase base(model, clean, {.logits = LogitPositions::none});
  PatchBench result;
  result.base_seconds = seconds_since(start);

  const std::vector<Interventions> variants = variants_of(model.config, options, corrupt);
  double sum = 0.0;  // of the differences, so that they are formed
  const auto measure = [&] {
    return rerun(model, base, each_of(variants), rerun_options, [&](const Variant& v) {
      for (Index s = 0; s < options.batch; ++s)
        sum += static_cast<double>(v.logits(s, 0, 0)) - static_cast<double>(v.logits(s, 0, 1));
    });
  };
  measure();  // the first one pays for pages, code and threads
  result.peak_mib = peak_mib();
  result.variants = static_cast<Index>(variants.size());
  const RerunCost cost = estimate_rerun(model.config, clean, each_of(variants), rerun_options);
  result.flops = cost.flops;
  engine::Products products(engine::multiplied(model, false), std::max<Index>(1, cost.rows / cost.batches));
  products.seconds();

  std::vector<PatchBench> pairs;
  for (Index i = 0; i < options.repeats; ++i) {
    report(options.progress, "bench", i, options.repeats);
    PatchBench pair = result;
    pair.gemm_gflops = products.flops() / products.seconds() * 1e-9;
    start = std::chrono::steady_clock::now();
    measure();
    pair.seconds = seconds_since(start);
    pair.gflops = pair.flops / pair.seconds * 1e-9;
    pair.ratio = pair.gflops / pair.gemm_gflops;
    pairs.push_back(pair);
  }
  report(options.progress, "bench", options.repeats, options.repeats);
  check(sum == sum, ErrorCode::numerical, "a logit difference is not a number");
  std::sort(pairs.begin(), pairs.end(), [](const PatchBench& a, const PatchBench& b) { return a.ratio < b.ratio; });
  PatchBench median = pairs[pairs.size() / 2];
  median.lowest_ratio = pairs.front().ratio;
  median.highest_ratio = pairs.back().ratio;
  return median;
}

}  // namespace kirchhoff
