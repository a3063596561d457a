#include "intervene/patch_plan.h"

#include <algorithm>  // for max, min, mismatch

#include "kirchhoff/base/error.h"

namespace kirchhoff::intervene {
namespace {

Site patched_site(PatchSite site) {
  switch (site) {
    case PatchSite::resid:
      return Site::resid_pre;
    case PatchSite::attn:
      return Site::attn_out;
    case PatchSite::mlp:
      return Site::mlp_out;
    case PatchSite::head:
    case PatchSite::head_pos:
      return Site::z;
    case PatchSite::q:
      return Site::q;
    case PatchSite::k:
      return Site::k;
    case PatchSite::v:
      return Site::v;
    case PatchSite::pattern:
      return Site::pattern;
  }
  return Site::z;
}

bool has_axis_of_positions(PatchSite site) {
  return site == PatchSite::resid || site == PatchSite::attn || site == PatchSite::mlp || site == PatchSite::head_pos;
}

template <class T>
Index length_of(const std::vector<T>& list) {
  return static_cast<Index>(list.size());
}

Index resolve(Index position, Index length, std::string_view what) {
  check(position >= -length && position < length, ErrorCode::usage,
        "{}: there is no position {}, the clean prompt has {} tokens", what, position, length);
  return position < 0 ? position + length : position;
}

}  // namespace

PatchPlan::PatchPlan(const ModelConfig& config, const PromptPair& pair, const PatchOptions& options)
    : config_(config),
      pair_(pair),
      options_(options),
      site_(patched_site(options.site)),
      by_position_(has_axis_of_positions(options.site)),
      into_corrupt_(options.ablation == Ablation::resample && options.direction == PatchDirection::denoise) {
  check_options();
  align();
  switch (options.site) {
    case PatchSite::resid:
    case PatchSite::attn:
    case PatchSite::mlp:
      break;
    case PatchSite::k:
    case PatchSite::v:
      n_heads_ = config.n_kv_heads;
      break;
    default:
      n_heads_ = config.n_heads;
  }
  const Index length = length_of(pair.clean);
  clean_metric_ = resolve(pair.metric.pos, length, "the metric");
  if (!pair.corrupt.empty())
    corrupt_metric_ = pair.metric.pos < 0 ? pair.metric.pos + length_of(pair.corrupt) : corrupt_position(clean_metric_);
  check(corrupt_metric_ >= 0 || pair.corrupt.empty(), ErrorCode::usage,
        "the metric is read at position {}, which is not aligned with a position of the corrupt prompt",
        pair.metric.pos);

  // Without a choice: every position that has a counterpart.
  const bool mapped = options.ablation == Ablation::resample;
  std::vector<Index> chosen = options.positions;
  if (chosen.empty())
    for (Index p = 0; p < length; ++p)
      if (!mapped || corrupt_position(p) >= 0) chosen.push_back(p);
  for (const Index p : chosen) {
    const Index clean = resolve(p, length, "the patched positions");
    const Index corrupt = mapped ? corrupt_position(clean) : clean;
    check(corrupt >= 0, ErrorCode::usage,
          "position {} of the clean prompt is not aligned with one of the corrupt prompt", clean);
    clean_positions_.push_back(clean);
    base_positions_.push_back(into_corrupt_ ? corrupt : clean);
  }
  n_cells_ = config.n_layers * std::max<Index>(1, n_heads_) * (by_position_ ? length_of(clean_positions_) : 1);
}

void PatchPlan::check_options() const {
  check(!pair_.clean.empty(), ErrorCode::usage, "the clean prompt has no tokens");
  check(options_.window >= 1, ErrorCode::usage, "a window of {} layers: it must have at least one", options_.window);
  switch (options_.ablation) {
    case Ablation::resample:
      check(!pair_.corrupt.empty(), ErrorCode::usage, "ablation 'resample' needs a corrupt prompt");
      break;
    case Ablation::mean:
    case Ablation::zero:
      if (options_.direction == PatchDirection::denoise)
        throw Error(
            ErrorCode::usage,
            fmt::format("ablation '{}' has no corrupted run, which direction 'denoise' needs", name(options_.ablation)),
            "direction 'noise' ablates the clean run");
      check(options_.ablation == Ablation::zero || !options_.reference.empty(), ErrorCode::usage,
            "ablation 'mean' needs reference prompts");
      check(options_.ablation == Ablation::zero || !options_.mean_over_positions || options_.site != PatchSite::pattern,
            ErrorCode::usage, "patterns of different positions have no common mean");
      break;
    case Ablation::noise:
      check(!options_.noise.positions.empty(), ErrorCode::usage,
            "ablation 'noise' needs the positions that get the noise");
      check(options_.noise.scale > 0.0, ErrorCode::usage, "ablation 'noise' needs a scale above 0, not {}",
            options_.noise.scale);
      check(options_.noise.samples >= 1, ErrorCode::usage, "ablation 'noise' needs at least one sample, not {}",
            options_.noise.samples);
      for (const Index p : options_.noise.positions) resolve(p, length_of(pair_.clean), "the noise");
  }
}

void PatchPlan::align() {
  const Index clean = length_of(pair_.clean), corrupt = length_of(pair_.corrupt);
  if (corrupt == 0) return;
  identity_ = pair_.alignment.empty();
  check(!identity_ || clean == corrupt, ErrorCode::usage,
        "the clean prompt has {} tokens, the corrupt one {}: say which positions stand for which", clean, corrupt);
  to_corrupt_.assign(static_cast<std::size_t>(clean), -1);
  from_.assign(static_cast<std::size_t>(into_corrupt_ ? corrupt : clean), -1);
  const auto map = [&](Index i, Index j) {
    check(i >= 0 && i < clean && j >= 0 && j < corrupt, ErrorCode::usage,
          "alignment {}:{}: the prompts have {} and {} tokens", i, j, clean, corrupt);
    Index& from = from_[static_cast<std::size_t>(into_corrupt_ ? j : i)];
    check(to_corrupt_[static_cast<std::size_t>(i)] < 0 && from < 0, ErrorCode::usage,
          "alignment {}:{}: one of them is aligned already", i, j);
    to_corrupt_[static_cast<std::size_t>(i)] = j;
    from = into_corrupt_ ? i : j;
  };
  for (const auto& [i, j] : pair_.alignment) map(i, j);
  for (Index p = 0; identity_ && p < clean; ++p) map(p, p);
}

Index PatchPlan::corrupt_position(Index clean) const {
  return to_corrupt_.empty() ? -1 : to_corrupt_[static_cast<std::size_t>(clean)];
}

std::vector<std::string> PatchPlan::capture() const {
  std::vector<std::string> names;
  for (Index layer = 0; layer < config_.n_layers; ++layer) names.push_back(site_name(site_, layer));
  return names;
}

PatchGrid PatchPlan::empty_grid() const {
  PatchGrid grid;
  grid.axes = {"layer"};
  grid.shape = {config_.n_layers};
  if (n_heads_ > 0) {
    grid.axes.emplace_back(n_heads_ == config_.n_heads ? "head" : "kv_head");
    grid.shape.push_back(n_heads_);
  }
  if (by_position_) {
    grid.axes.emplace_back("pos");
    grid.shape.push_back(length_of(clean_positions_));
  }
  grid.positions = clean_positions_;
  grid.values.assign(static_cast<std::size_t>(n_cells_), 0.0);
  return grid;
}

Interventions PatchPlan::cell(Index number, const Replacement& replacement) const {
  Where where;
  if (by_position_) {
    const Index count = length_of(base_positions_);
    where.positions = {base_positions_[static_cast<std::size_t>(number % count)]};
    number /= count;
  } else if (!options_.positions.empty() || !identity_) {
    where.positions = Selection(base_positions_);
  }
  if (n_heads_ > 0) {
    where.heads = {number % n_heads_};
    number /= n_heads_;
  }
  Interventions all;
  const Index first = std::max<Index>(0, number - options_.window / 2);
  const Index end = std::min(config_.n_layers, number - options_.window / 2 + options_.window);
  for (Index layer = first; layer < end; ++layer) {
    Intervention& one = all.sites.emplace_back();
    one.site = site_name(site_, layer);
    one.edit = replacement.edit;
    one.where = where;
    if (one.edit == Edit::set) one.values = replacement.by_layer[static_cast<std::size_t>(layer)];
    one.source.trace = replacement.trace;
    if (!identity_ && options_.ablation == Ablation::resample) one.source.positions = {from_};
  }
  return all;
}

/// How many tokens both runs begin with.
Index PatchPlan::alike() const {
  if (options_.ablation != Ablation::resample || !identity_ || !config_.causal) return 0;
  const auto [clean, corrupt] = std::mismatch(pair_.clean.begin(), pair_.clean.end(), pair_.corrupt.begin());
  return clean - pair_.clean.begin();
}

Interventions PatchPlan::costly_part(Index number) const {
  Interventions all = cell(number, {.edit = Edit::zero});
  const Index first = alike();
  if (first == 0 || all.sites.empty()) return all;
  const std::vector<Index>& chosen = by_position_ ? all.sites[0].where.positions.entries() : base_positions_;
  std::vector<Index> rest;
  for (const Index p : chosen)
    if (p >= first) rest.push_back(p);
  if (rest.empty()) return {};
  for (Intervention& one : all.sites) one.where.positions = Selection(rest);
  return all;
}

RerunOptions PatchPlan::rerun_options() const {
  RerunOptions rerun;
  rerun.positions = {base_metric_position()};
  rerun.columns = pair_.metric.columns();
  rerun.vanish = options_.vanish;
  rerun.memory = options_.memory;
  return rerun;
}

}  // namespace kirchhoff::intervene
