#include "kirchhoff/intervene/node_ablation.h"

#include <fmt/format.h>

#include <map>          // for map
#include <optional>     // for optional
#include <set>          // for set
#include <type_traits>  // for is_same_v

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/random.h"
#include "kirchhoff/engine/corpus_loss.h"
#include "kirchhoff/engine/loss.h"
#include "kirchhoff/engine/rerun.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/kernels/softmax.h"

namespace kirchhoff {
namespace {

template <class Real>
BasicTrace<Real> run_once(const Model& model, const Tokens& tokens, const RunOptions& options) {
  if constexpr (std::is_same_v<Real, float>)
    return run(model, tokens, options);
  else
    return run_f64(model, tokens, options);
}

void check_nodes(const ModelConfig& config, std::span<const AblatedNodes> nodes, const NodeAblationOptions& options) {
  check(options.kind != Ablation::noise, ErrorCode::usage, "heads and MLPs are not ablated by noise");
  check(!nodes.empty(), ErrorCode::usage, "there is nothing to ablate");
  for (const AblatedNodes& one : nodes) {
    check(!one.heads.empty() || !one.mlps.empty(), ErrorCode::usage, "there is nothing to ablate");
    for (const auto& [layer, head] : one.heads)
      check(layer >= 0 && layer < config.n_layers && head >= 0 && head < config.n_heads, ErrorCode::usage,
            "head {}.{} is not in a model of {} layers with {} heads", layer, head, config.n_layers, config.n_heads);
    check(one.mlps.empty() || !config.attn_only, ErrorCode::usage, "the model has no MLPs");
    for (const Index layer : one.mlps)
      check(layer >= 0 && layer < config.n_layers, ErrorCode::usage, "layer {} is not in a model of {} layers", layer,
            config.n_layers);
  }
}

/// The sites whose numbers are replaced.
std::vector<std::string> ablated_sites(std::span<const AblatedNodes> nodes) {
  std::set<std::string> sites;
  for (const AblatedNodes& one : nodes) {
    for (const auto& [layer, head] : one.heads) sites.insert(site_name(Site::z, layer));
    for (const Index layer : one.mlps) sites.insert(site_name(Site::mlp_out, layer));
  }
  return {sites.begin(), sites.end()};
}

/// What is kept from the run without ablation.
Freeze kept(const NodeAblationOptions& options) {
  Freeze freeze;
  freeze.patterns = options.keep_patterns;
  freeze.attention_scales = freeze.mlp_scales = freeze.post_scales = freeze.inner_scales = freeze.final_scale =
      options.freeze_norms;
  return freeze;
}

/// Sums of sites over positions, from which means are made.
class SiteMeans {
 public:
  template <class Real>
  void add(const BasicTrace<Real>& trace, std::span<const std::string> sites) {
    for (const std::string& site : sites) {
      const BasicTensor<Real>& values = trace.at(site);  // [1, pos, ..]
      const Index width = values.size() / values.dim(1);
      std::vector<double>& sum = sums_[site];
      sum.resize(static_cast<std::size_t>(width), 0.0);
      for (Index i = 0; i < values.size(); ++i)
        sum[static_cast<std::size_t>(i % width)] += static_cast<double>(values[i]);
    }
    positions_ += static_cast<Index>(trace.tokens.front().size());
  }
  /// The mean of `width` numbers from `first` on.
  Values mean(const std::string& site, Index first, Index width) const {
    std::vector<double> row;
    for (Index i = first; i < first + width; ++i)
      row.push_back(sums_.at(site)[static_cast<std::size_t>(i)] / static_cast<double>(positions_));
    return Values::row(std::span<const double>(row));
  }
  Index positions() const { return positions_; }

 private:
  std::map<std::string, std::vector<double>> sums_;
  Index positions_ = 0;
};

/// What the runs with ablations do differently. `means` and `other` may be null where the kind needs none.
std::vector<Interventions> ablations(const ModelConfig& config, std::span<const AblatedNodes> nodes, Ablation kind,
                                     const SiteMeans* means, TraceRef other) {
  std::vector<Interventions> variants;
  for (const AblatedNodes& one : nodes) {
    Interventions& variant = variants.emplace_back();
    const auto replace = [&](Site site, Index layer, const Selection& heads, Index first, Index width) {
      Intervention& edit = variant.sites.emplace_back();
      edit.site = site_name(site, layer);
      edit.where.heads = heads;
      switch (kind) {
        case Ablation::mean:
          edit.edit = Edit::set;
          edit.values = means->mean(edit.site, first, width);
          break;
        case Ablation::resample:
          edit.edit = Edit::resample;
          edit.source.trace = other;
          break;
        case Ablation::zero:
        case Ablation::noise:
          edit.edit = Edit::zero;
          break;
      }
    };
    for (const auto& [layer, head] : one.heads) replace(Site::z, layer, {head}, head * config.d_head, config.d_head);
    for (const Index layer : one.mlps) replace(Site::mlp_out, layer, {}, 0, config.d_model);
  }
  return variants;
}

/// A run without ablation, for variants to branch off; what they keep of it lies beside it.
template <class Real>
struct AblationBase {
  AblationBase(const Model& model, const Tokens& tokens, const NodeAblationOptions& options,
               const std::vector<std::string>& capture) {
    RunOptions base_options{.capture = capture};
    Freeze freeze = kept(options);
    if (options.keep_patterns || options.freeze_norms) {
      own = run_once<Real>(model, tokens,
                           {.capture = freeze_sites(model.config, freeze), .logits = LogitPositions::none});
      freeze.source.trace = own;
      base_options.interventions.freezes.push_back(freeze);
    }
    base.emplace(model, std::span(&tokens, 1), base_options);
  }
  AblationBase(const AblationBase&) = delete;
  AblationBase& operator=(const AblationBase&) = delete;

  BasicTrace<Real> own;
  std::optional<BasicRerunBase<Real>> base;
};

template <class Real>
AblatedPrompt ablate_prompt(const Model& model, const Tokens& tokens, std::span<const AblatedNodes> nodes,
                            const PatchMetric& metric, const NodeAblationOptions& options, const Tokens& corrupt) {
  check_nodes(model.config, nodes, options);
  const bool resample = options.kind == Ablation::resample;
  check(!resample || !corrupt.empty(), ErrorCode::usage, "resample ablation needs a corrupt prompt");
  check(!resample || corrupt.size() == tokens.size(), ErrorCode::usage,
        "the corrupt prompt has {} tokens, the prompt {}: resample ablation goes position by position", corrupt.size(),
        tokens.size());
  const std::vector<std::string> sites = ablated_sites(nodes);
  const AblationBase<Real> own(model, tokens, options,
                               options.kind == Ablation::mean ? sites : std::vector<std::string>{});
  BasicTrace<Real> other;
  if (resample) other = run_once<Real>(model, corrupt, {.capture = sites, .logits = LogitPositions::none});
  SiteMeans means;
  if (options.kind == Ablation::mean) means.add(own.base->trace(), sites);

  AblatedPrompt result;
  const Index length = static_cast<Index>(tokens.size()), pos = metric.pos < 0 ? metric.pos + length : metric.pos;
  check(pos >= 0 && pos < length, ErrorCode::usage, "position {} is not in a prompt of {} tokens", metric.pos, length);
  result.clean = metric.of_row(std::span<const Real>(own.base->trace().logits_of(0).row(pos)));
  const std::vector<Interventions> variants = ablations(model.config, nodes, options.kind, &means, other);
  RerunOptions rerun_options{.positions = {metric.pos}, .columns = metric.columns(), .memory = options.memory};
  rerun_options.progress = [&](std::string_view, Index done, Index) {
    report(options.progress, "ablations", done, static_cast<Index>(nodes.size()));
    return true;
  };
  rerun(model, *own.base, each_of(variants), rerun_options, [&](const BasicVariant<Real>& variant) {
    result.values.push_back(metric.of_columns(std::span<const Real>(variant.logits.at(0).row(0))));
  });
  result.baseline = options.kind == Ablation::zero   ? "zero"
                    : options.kind == Ablation::mean ? fmt::format("the mean over the prompt's {} positions", length)
                                                     : "the run on the corrupt prompt, position by position";
  return result;
}

}  // namespace

std::string AblatedNodes::name() const {
  std::vector<std::string> names;
  for (const auto& [layer, head] : heads) names.push_back(fmt::format("a{}.h{}", layer, head));
  for (const Index layer : mlps) names.push_back(fmt::format("m{}", layer));
  return fmt::format("{}", fmt::join(names, "+"));
}

std::vector<AblatedNodes> every_head(const ModelConfig& config) {
  std::vector<AblatedNodes> nodes;
  for (Index layer = 0; layer < config.n_layers; ++layer)
    for (Index head = 0; head < config.n_heads; ++head) nodes.push_back({.heads = {{layer, head}}});
  return nodes;
}

std::string ablate_on_text(
    const Model& model, std::span<const Tokens> windows, std::span<const AblatedNodes> nodes,
    const NodeAblationOptions& options,
    const std::function<void(Index node, Index window, std::span<const double> losses)>& receive) {
  check_predicts_next(model.config, "an ablation's effect on the loss");
  check_nodes(model.config, nodes, options);
  check(!windows.empty(), ErrorCode::usage, "there is no window of tokens");
  const Index count = static_cast<Index>(windows.size());
  const std::vector<std::string> sites = ablated_sites(nodes);
  std::string baseline = "zero";
  SiteMeans means;
  if (options.kind == Ablation::mean) {
    for (Index w = 0; w < count; ++w) {
      report(options.progress, "means", w, count);
      means.add(run(model, windows[static_cast<std::size_t>(w)], {.capture = sites, .logits = LogitPositions::none}),
                sites);
    }
    baseline = fmt::format("the mean over the text's {} positions", means.positions());
  }
  Index shift = 0;
  if (options.kind == Ablation::resample) {
    check(count > 1, ErrorCode::usage, "resample ablation needs a second window to take values from");
    for (const Tokens& window : windows)
      check(window.size() == windows.front().size(), ErrorCode::usage,
            "resample ablation needs windows of one length: {} and {} tokens", windows.front().size(), window.size());
    shift = 1 + Random(options.seed).below(count - 1);
    baseline = fmt::format("the text {} window{} further on, position by position", shift, shift == 1 ? "" : "s");
  }

  for (Index w = 0; w < count; ++w) {
    report(options.progress, "ablations", w, count);
    const Tokens& window = windows[static_cast<std::size_t>(w)];
    const AblationBase<float> own(model, window, options, {});
    receive(-1, w, token_losses(own.base->trace()));
    Trace other;
    if (shift > 0)
      other = run(model, windows[static_cast<std::size_t>((w + shift) % count)],
                  {.capture = sites, .logits = LogitPositions::none});
    const std::vector<Interventions> variants = ablations(model.config, nodes, options.kind, &means, other);
    std::vector<double> losses(window.size() - 1);
    RerunOptions rerun_options{.positions = {}, .memory = options.memory};
    rerun_options.progress = [&](std::string_view, Index, Index) {
      report(options.progress, "ablations", w, count);
      return true;
    };
    rerun(model, *own.base, each_of(variants), rerun_options, [&](const Variant& variant) {
      if (!losses.empty())
        kernels::cross_entropy(variant.logits.at(0).rows(0, static_cast<Index>(losses.size())),
                               std::span(window).subspan(1), losses);
      receive(variant.number, w, losses);
    });
  }
  report(options.progress, "ablations", count, count);
  return baseline;
}

AblatedPrompt ablate_on_prompt(const Model& model, const Tokens& tokens, std::span<const AblatedNodes> nodes,
                               const PatchMetric& metric, const NodeAblationOptions& options, const Tokens& corrupt) {
  return ablate_prompt<float>(model, tokens, nodes, metric, options, corrupt);
}

AblatedPrompt ablate_on_prompt_f64(const Model& model, const Tokens& tokens, std::span<const AblatedNodes> nodes,
                                   const PatchMetric& metric, const NodeAblationOptions& options,
                                   const Tokens& corrupt) {
  return ablate_prompt<double>(model, tokens, nodes, metric, options, corrupt);
}

}  // namespace kirchhoff
