#include "kirchhoff/intervene/patching.h"

#include <algorithm>    // for max
#include <cmath>        // for abs
#include <type_traits>  // for is_same_v

#include "intervene/patch_plan.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/base/random.h"

namespace kirchhoff {
namespace {

using intervene::PatchPlan;
using intervene::Replacement;

template <class Real>
BasicTrace<Real> run_in(const Model& model, std::span<const Tokens> batch, const RunOptions& options) {
  if constexpr (std::is_same_v<Real, float>)
    return run(model, batch, options);
  else
    return run_f64(model, batch, options);
}

/// Logits for a metric at one position of a run.
LogitPositions logits_for(Index position, const Tokens& tokens) {
  return position + 1 == static_cast<Index>(tokens.size()) ? LogitPositions::last : LogitPositions::all;
}

template <class Real>
double metric_in(const PatchMetric& metric, const BasicTrace<Real>& trace, Index position) {
  const auto logits = trace.logits_of(0);
  return metric.of_row(std::span<const Real>(logits.row(logits.dim[0] == 1 ? 0 : position)));
}

/// The mean of a site over the sequences of a trace that is padded on the right: for each position over those that
/// reach it, [pos, ...], or over all positions, [1, ...].
template <class Real>
TensorF64 mean_of(const BasicTrace<Real>& trace, const std::string& site, Index length, bool over_positions) {
  const BasicTensor<Real>& tensor = trace.at(site);  // [batch, pos, ...]
  const Index longest = tensor.dim(1), width = tensor.size() / (tensor.dim(0) * longest);
  Shape shape(tensor.shape().begin() + 1, tensor.shape().end());
  shape.front() = over_positions ? 1 : length;
  TensorF64 mean(shape);
  std::vector<Index> counts(static_cast<std::size_t>(shape.front()), 0);
  for (Index s = 0; s < tensor.dim(0); ++s) {
    const Index own = static_cast<Index>(trace.tokens[static_cast<std::size_t>(s)].size());
    for (Index p = 0; p < (over_positions ? own : std::min(own, length)); ++p) {
      const Index to = over_positions ? 0 : p;
      ++counts[static_cast<std::size_t>(to)];
      for (Index i = 0; i < width; ++i)
        mean[to * width + i] += static_cast<double>(tensor[(s * longest + p) * width + i]);
    }
  }
  for (Index p = 0; p < shape.front(); ++p) {
    const Index count = counts[static_cast<std::size_t>(p)];
    check(count > 0, ErrorCode::usage, "the mean at position {}: no reference prompt is that long", p);
    for (Index i = 0; i < width; ++i) mean[p * width + i] /= static_cast<double>(count);
  }
  return mean;
}

/// The mean of patterns over sequences of one length, [head, query, key].
template <class Real>
TensorF64 mean_pattern(const BasicTrace<Real>& trace, const std::string& site, Index length) {
  const BasicTensor<Real>& tensor = trace.at(site);  // [batch, head, query, key]
  for (const Tokens& tokens : trace.tokens)
    check(static_cast<Index>(tokens.size()) == length, ErrorCode::usage,
          "the mean of patterns needs reference prompts of {} tokens, like the clean one; one has {}", length,
          tokens.size());
  TensorF64 mean({tensor.dim(1), tensor.dim(2), tensor.dim(3)});
  for (Index s = 0; s < tensor.dim(0); ++s)
    for (Index i = 0; i < mean.size(); ++i)
      mean[i] += static_cast<double>(tensor[s * mean.size() + i]) / static_cast<double>(tensor.dim(0));
  return mean;
}

/// hook_embed += noise.
Intervention noise_intervention(const ModelConfig& config, const EmbeddingNoise& noise, Index length, Random& random) {
  TensorF64 values({length, config.d_model});
  for (const Index p : noise.positions)
    for (Index i = 0; i < config.d_model; ++i)
      values[(p < 0 ? p + length : p) * config.d_model + i] = noise.scale * random.normal();
  Intervention add;
  add.site = site_name(Site::embed);
  add.edit = Edit::add;
  add.where.positions = Selection(noise.positions);
  add.values = Values(std::move(values));
  return add;
}

void add_cost(RerunCost& total, const RerunCost& one) {
  total.variants += one.variants;
  total.flops += one.flops;
  total.bytes = std::max(total.bytes, one.bytes);
  total.batches += one.batches;
  total.rows += one.rows;
  total.dropped_rows += one.dropped_rows;
}

template <class Real>
class Sweep {
 public:
  Sweep(const Model& model, const PromptPair& pair, const PatchOptions& options)
      : model_(model), pair_(pair), options_(options), plan_(model.config, pair, options), grid_(plan_.empty_grid()) {}

  PatchGrid run() {
    const Tokens& base_tokens = plan_.base();
    const bool needs_own = options_.ablation == Ablation::noise && options_.direction == PatchDirection::denoise;
    const BasicRerunBase<Real> base(model_, std::span(&base_tokens, 1),
                                    {.capture = needs_own ? plan_.capture() : std::vector<std::string>{},
                                     .logits = logits_for(plan_.base_metric_position(), base_tokens)});
    const double own = metric_in(pair_.metric, base.trace(), plan_.base_metric_position());
    (plan_.into_corrupt() ? grid_.corrupt.emplace() : grid_.clean) = own;
    switch (options_.ablation) {
      case Ablation::resample:
        resample(base);
        break;
      case Ablation::zero:
        corrupt_end();
        sweep(base, {.edit = Edit::zero}, nullptr, 0);
        break;
      case Ablation::mean:
        corrupt_end();
        sweep(base, means(), nullptr, 0);
        break;
      case Ablation::noise:
        noise(base);
        break;
    }
    return std::move(grid_);
  }

 private:
  BasicTrace<Real> run_on(const Tokens& tokens, Index metric_position, std::vector<std::string> capture,
                          Interventions interventions = {}) const {
    return run_in<Real>(model_, std::span(&tokens, 1),
                        {.capture = std::move(capture),
                         .logits = logits_for(metric_position, tokens),
                         .interventions = std::move(interventions)});
  }

  void corrupt_end() {
    if (pair_.corrupt.empty()) return;
    const Index position = plan_.corrupt_metric_position();
    grid_.corrupt = metric_in(pair_.metric, run_on(pair_.corrupt, position, {}), position);
  }

  void resample(const BasicRerunBase<Real>& base) {
    const bool clean = plan_.into_corrupt();
    const Index position = clean ? plan_.clean_metric_position() : plan_.corrupt_metric_position();
    const BasicTrace<Real> source = run_on(clean ? pair_.clean : pair_.corrupt, position, plan_.capture());
    const double end = metric_in(pair_.metric, source, position);
    (clean ? grid_.clean : grid_.corrupt.emplace()) = end;
    sweep(base, {.edit = Edit::resample, .trace = source}, nullptr, 0);
  }

  Replacement means() const {
    const std::vector<std::string> sites = plan_.capture();
    const BasicTrace<Real> trace =
        run_in<Real>(model_, options_.reference, {.capture = sites, .logits = LogitPositions::none, .pad_left = false});
    const Index length = static_cast<Index>(pair_.clean.size());
    Replacement replacement{.edit = Edit::set};
    for (const std::string& site : sites)
      replacement.by_layer.emplace_back(plan_.site() == Site::pattern
                                            ? mean_pattern(trace, site, length)
                                            : mean_of(trace, site, length, options_.mean_over_positions));
    return replacement;
  }

  /// Denoise: the clean run with noise, in each cell its own clean activations are put back behind the noise. Noise:
  /// the clean run, in each cell the activations of the run with noise are put in.
  void noise(const BasicRerunBase<Real>& base) {
    Random random(options_.noise.seed);
    const Index position = plan_.clean_metric_position(), length = static_cast<Index>(pair_.clean.size());
    const auto samples = static_cast<double>(options_.noise.samples);
    double corrupt = 0.0;
    for (Index s = 0; s < options_.noise.samples; ++s) {
      const Interventions noisy{.sites = {noise_intervention(model_.config, options_.noise, length, random)}};
      const bool denoise = options_.direction == PatchDirection::denoise;
      const BasicTrace<Real> trace =
          run_on(pair_.clean, position, denoise ? std::vector<std::string>{} : plan_.capture(), noisy);
      corrupt += metric_in(pair_.metric, trace, position) / samples;
      sweep(base, {.edit = Edit::resample, .trace = denoise ? TraceRef(base.trace()) : TraceRef(trace)},
            denoise ? &noisy : nullptr, s);
    }
    grid_.corrupt = corrupt;
    for (double& value : grid_.values) value /= samples;
  }

  /// Adds the metric of every cell to its value. `before`: what every variant does beside.
  void sweep(const BasicRerunBase<Real>& base, const Replacement& replacement, const Interventions* before,
             Index sample) {
    const Index cells = plan_.n_cells();
    const Index total = cells * (options_.ablation == Ablation::noise ? options_.noise.samples : 1);
    Index next = 0;
    const NextVariant variants = [&](Interventions& variant) {
      if (next == cells) return false;
      variant = before != nullptr ? *before : Interventions{};
      Interventions cell = plan_.cell(next++, replacement);
      for (Intervention& one : cell.sites) variant.sites.push_back(std::move(one));
      return true;
    };
    RerunOptions rerun_options = plan_.rerun_options();
    rerun_options.progress = [&](std::string_view, Index done, Index) {
      report(options_.progress, "patching", sample * cells + done, total);
      return true;
    };
    add_cost(grid_.cost, rerun(model_, base, variants, rerun_options, [&](const BasicVariant<Real>& variant) {
               const std::span<const Real> logits = variant.logits.at(0).row(0);
               grid_.values[static_cast<std::size_t>(variant.number)] += pair_.metric.of_columns(logits);
             }));
  }

  const Model& model_;
  const PromptPair& pair_;
  const PatchOptions& options_;
  PatchPlan plan_;
  PatchGrid grid_;
};

}  // namespace

bool ends_differ(double clean, double corrupt) {
  return std::abs(clean - corrupt) > 1e-3 * std::max(std::abs(clean), std::abs(corrupt)) + 1e-6;
}

std::optional<double> PatchGrid::normalised(double value) const {
  if (!corrupt || !ends_differ(clean, *corrupt)) return std::nullopt;
  return (value - *corrupt) / (clean - *corrupt);
}

PatchGrid patch(const Model& model, const PromptPair& pair, const PatchOptions& options) {
  return Sweep<float>(model, pair, options).run();
}
PatchGrid patch_f64(const Model& model, const PromptPair& pair, const PatchOptions& options) {
  return Sweep<double>(model, pair, options).run();
}

RerunCost estimate_patch(const ModelConfig& config, const PromptPair& pair, const PatchOptions& options) {
  const PatchPlan plan(config, pair, options);
  const bool noisy = options.ablation == Ablation::noise;
  const auto estimate = [&](const auto& part_of_cell) {
    Random random(0);
    Index next = 0;
    const NextVariant variants = [&](Interventions& variant) {
      if (next == plan.n_cells()) return false;
      variant = part_of_cell(next++);
      if (noisy && options.direction == PatchDirection::denoise)
        variant.sites.push_back(
            noise_intervention(config, options.noise, static_cast<Index>(pair.clean.size()), random));
      return true;
    };
    return estimate_rerun(config, std::span(&plan.base(), 1), variants, plan.rerun_options());
  };
  // Groups and memory are planned for what may change, the work is that of what does.
  RerunCost cost = estimate([&](Index cell) { return plan.cell(cell, {.edit = Edit::zero}); });
  cost.flops = estimate([&](Index cell) { return plan.costly_part(cell); }).flops;
  if (noisy) {
    const Index samples = options.noise.samples;
    cost.variants *= samples;
    cost.flops *= static_cast<double>(samples);
    cost.batches *= samples;
    cost.rows *= samples;
  }
  return cost;
}

std::string_view name(PatchSite site) {
  switch (site) {
    case PatchSite::resid:
      return "resid";
    case PatchSite::attn:
      return "attn";
    case PatchSite::mlp:
      return "mlp";
    case PatchSite::head:
      return "head";
    case PatchSite::head_pos:
      return "head-pos";
    case PatchSite::q:
      return "q";
    case PatchSite::k:
      return "k";
    case PatchSite::v:
      return "v";
    case PatchSite::pattern:
      return "pattern";
  }
  return {};
}

std::string_view name(PatchDirection direction) { return direction == PatchDirection::denoise ? "denoise" : "noise"; }

std::string_view name(Ablation ablation) {
  switch (ablation) {
    case Ablation::resample:
      return "resample";
    case Ablation::mean:
      return "mean";
    case Ablation::zero:
      return "zero";
    case Ablation::noise:
      return "noise";
  }
  return {};
}

}  // namespace kirchhoff
