#include "kirchhoff/study/ablation_study.h"

#include <algorithm>  // for any_of
#include <map>        // for map
#include <numeric>    // for accumulate

#include "kirchhoff/base/error.h"

namespace kirchhoff {
namespace {

double sum_of_losses(std::span<const double> losses) { return std::accumulate(losses.begin(), losses.end(), 0.0); }

struct NodeMeans {
  WindowMean loss, change, icl, icl_change;
  double along = 0.0;
};

Json number_or_null(const std::optional<MeanLoss>& mean) { return mean ? Json(mean->value) : Json(nullptr); }
Json error_or_null(const std::optional<MeanLoss>& mean) { return mean ? Json(mean->error) : Json(nullptr); }

}  // namespace

AblationStudy study_ablations(const Model& model, std::span<const Tokens> windows, std::span<const AblatedNodes> nodes,
                              const AblationStudyOptions& options) {
  const Index late = options.late, early = options.early;
  check(early >= 1 && late > early, ErrorCode::usage,
        "tokens {} and {}: the later one comes first, and nothing predicts token 0", late, early);
  check(options.change.size() == options.tokens.size(), ErrorCode::usage, "a vector of {} numbers over {} tokens",
        options.change.size(), options.tokens.size());
  const Index last = options.bands ? options.bands->late.to - 1 : late;
  const auto has_late = [last](const Tokens& window) { return static_cast<Index>(window.size()) > last; };
  const auto icl_of = [&](std::span<const double> losses) {
    if (options.bands) {
      const std::vector<double> window(losses.begin(), losses.end());
      return icl_score(std::span(&window, 1), *options.bands).score.value;
    }
    return losses[static_cast<std::size_t>(late - 1)] - losses[static_cast<std::size_t>(early - 1)];
  };
  std::map<Index, std::size_t> chosen;  // window -> entry of the vector
  for (std::size_t i = 0; i < options.tokens.size(); ++i) chosen[options.tokens[i].window] = i;

  NodeMeans clean;
  std::vector<NodeMeans> means(nodes.size());
  std::vector<double> own;
  AblationStudy study;
  study.baseline = ablate_on_text(
      model, windows, nodes, options.ablation, [&](Index node, Index window, std::span<const double> losses) {
        NodeMeans& mean = node < 0 ? clean : means[static_cast<std::size_t>(node)];
        if (node < 0) own.assign(losses.begin(), losses.end());
        const Index count = static_cast<Index>(losses.size());
        mean.loss.add(sum_of_losses(losses), count);
        mean.change.add(sum_of_losses(losses) - sum_of_losses(own), count);
        if (has_late(windows[static_cast<std::size_t>(window)])) {
          mean.icl.add(icl_of(losses), 1);
          mean.icl_change.add(icl_of(losses) - icl_of(own), 1);
        }
        if (const auto found = chosen.find(window); found != chosen.end()) {
          const auto at = static_cast<std::size_t>(options.tokens[found->second].position - 1);
          mean.along += along_change(std::span(&options.change[found->second], 1), losses.subspan(at, 1),
                                     std::span<const double>(own).subspan(at, 1));
        }
      });

  const bool icl = std::any_of(windows.begin(), windows.end(), has_late);
  study.loss = clean.loss.mean();
  if (icl) study.icl = clean.icl.mean();
  study.windows = static_cast<Index>(windows.size());
  for (const Tokens& window : windows) study.predictions += static_cast<Index>(window.size()) - 1;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    TextAblation& one = study.ablations.emplace_back();
    one.node = nodes[i].name();
    one.loss = means[i].loss.mean();
    one.change = means[i].change.mean();
    if (icl) one.icl = means[i].icl.mean();
    if (icl) one.icl_change = means[i].icl_change.mean();
    if (!options.tokens.empty()) one.along = means[i].along;
  }
  return study;
}

Json to_json(const AblationStudy& study) {
  Json list = Json::array();
  for (const TextAblation& one : study.ablations)
    list.push_back({{"node", one.node},
                    {"loss", one.loss.value},
                    {"loss_error", one.loss.error},
                    {"loss_change", one.change.value},
                    {"loss_change_error", one.change.error},
                    {"icl", number_or_null(one.icl)},
                    {"icl_change", number_or_null(one.icl_change)},
                    {"icl_change_error", error_or_null(one.icl_change)},
                    {"along_change", one.along ? Json(*one.along) : Json(nullptr)}});
  return {{"baseline", study.baseline},
          {"loss", study.loss.value},
          {"loss_error", study.loss.error},
          {"icl", number_or_null(study.icl)},
          {"icl_error", error_or_null(study.icl)},
          {"ablations", list}};
}

Json to_json(const NodeAblationOptions& options) {
  return {{"kind", name(options.kind)},
          {"mode", options.keep_patterns ? "patterns kept" : "full"},
          {"freeze_norms", options.freeze_norms}};
}

Json to_json(const IclScore& icl) {
  return {{"late", icl.late},
          {"early", icl.early},
          {"score", icl.score.value},
          {"score_error", icl.score.error},
          {"late_loss", icl.late_loss.value},
          {"early_loss", icl.early_loss.value},
          {"windows", icl.windows}};
}

Json to_json(std::span<const PositionLoss> positions) {
  Json list = Json::array();
  for (const PositionLoss& one : positions)
    list.push_back(
        {{"position", one.position}, {"loss", one.loss.value}, {"error", one.loss.error}, {"windows", one.windows}});
  return list;
}

Json to_json(std::span<const PositionBin> bins) {
  Json list = Json::array();
  for (std::size_t i = 0; i < bins.size(); ++i)
    list.push_back({{"from", bins[i].from},
                    {"to", bins[i].to},
                    {"loss", bins[i].loss},
                    {"log_position", bins[i].log_position},
                    {"slope", i + 1 < bins.size() ? Json(bins[i].slope) : Json(nullptr)}});
  return list;
}

}  // namespace kirchhoff
