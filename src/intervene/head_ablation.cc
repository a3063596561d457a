#include "kirchhoff/intervene/head_ablation.h"

#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff {

std::vector<double> ablate_heads(const Model& model, const RerunBase& base,
                                 std::span<const std::pair<Index, Index>> heads, const PatchMetric& metric,
                                 const HeadAblation& ablation, const Progress& progress) {
  check(base.tokens().size() == 1, ErrorCode::usage, "heads are ablated in a run of one sequence, this one has {}",
        base.tokens().size());
  std::vector<Interventions> variants;
  for (const auto& [layer, head] : heads) {
    Intervention& one = variants.emplace_back().sites.emplace_back();
    one.site = site_name(Site::z, layer);
    one.edit = ablation.mean ? Edit::mean_all : Edit::resample;
    one.where.heads = {head};
    one.source.trace = ablation.source;
  }
  std::vector<double> values;
  RerunOptions options{.positions = {metric.pos}, .columns = metric.columns()};
  options.progress = [&](std::string_view, Index done, Index) {
    report(progress, "ablating heads", done, static_cast<Index>(heads.size()));
    return true;
  };
  rerun(model, base, each_of(variants), options, [&](const Variant& variant) {
    values.push_back(metric.of_columns(std::span<const float>(variant.logits.at(0).row(0))));
  });
  return values;
}

}  // namespace kirchhoff
