#include "reproduce/induction_stages.h"

#include <algorithm>   // for max, sort
#include <cmath>       // for round
#include <filesystem>  // for directory_iterator

#include "kirchhoff/base/error.h"
#include "kirchhoff/model/load.h"
#include "kirchhoff/observe/in_context.h"
#include "kirchhoff/reproduce/loss_trajectory.h"
#include "kirchhoff/study/ablation_study.h"
#include "kirchhoff/study/circuit_json.h"
#include "kirchhoff/study/head_roles.h"
#include "kirchhoff/train/history.h"

namespace kirchhoff::reproduce {
namespace {

constexpr std::uint64_t kTokenSeed = 0;  // of the tokens whose losses make the vectors: the same for all runs

/// A checkpoint of a run: step, directory.
std::vector<std::pair<Index, std::string>> checkpoints_of(const std::string& directory) {
  std::vector<std::pair<Index, std::string>> found;
  for (const auto& entry : std::filesystem::directory_iterator(directory + "/checkpoints")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") == std::string::npos)
      found.emplace_back(static_cast<Index>(std::stoll(name)), entry.path().string());
  }
  std::sort(found.begin(), found.end());
  check(!found.empty(), ErrorCode::format, "'{}' holds no checkpoint", directory);
  return found;
}

/// Five digits say all that the planes show, and keep the files small.
double rounded(double loss) { return std::round(loss * 1e5) / 1e5; }

/// `count` of a list, evenly.
template <class Value>
std::vector<Value> spread(const std::vector<Value>& all, Index count) {
  const auto size = static_cast<Index>(all.size()), kept = std::min(count, size);
  std::vector<Value> list;
  for (Index i = 0; i < kept; ++i) list.push_back(all[static_cast<std::size_t>(i * size / kept)]);
  return list;
}

/// The place of the checkpoint nearest to a step.
std::size_t nearest(const Json& steps, Index step) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (std::abs(steps[i].get<Index>() - step) < std::abs(steps[found].get<Index>() - step)) found = i;
  return found;
}

const train::HeadEvaluation* best(const train::Evaluation& evaluation, double train::HeadEvaluation::*score) {
  const train::HeadEvaluation* found = nullptr;
  for (const train::HeadEvaluation& head : evaluation.heads)
    if (found == nullptr || head.*score > found->*score) found = &head;
  return found;
}

Json curves_of(const std::string& directory, const InductionRun& of) {
  const train::History history = train::read_history(directory + "/history.jsonl");
  std::vector<Index> steps;
  std::vector<double> matching;
  Json curves = {{"kind", of.kind.name()}, {"seed", of.seed}};
  for (const char* key : {"steps", "tokens", "loss", "icl", "prefix_matching", "previous_token"})
    curves[key] = Json::array();
  for (const train::HistoryRecord& record : history.records) {
    if (!record.evaluation) continue;
    const train::Evaluation& seen = *record.evaluation;
    const train::HeadEvaluation* by_matching = best(seen, &train::HeadEvaluation::prefix_matching);
    const train::HeadEvaluation* by_previous = best(seen, &train::HeadEvaluation::previous_token);
    steps.push_back(record.step);
    matching.push_back(by_matching != nullptr ? by_matching->prefix_matching : 0.0);
    curves["steps"].push_back(record.step);
    curves["tokens"].push_back(record.tokens);
    curves["loss"].push_back(seen.loss.value);
    curves["icl"].push_back(seen.icl ? Json(seen.icl->score.value) : Json(nullptr));
    curves["prefix_matching"].push_back(matching.back());
    curves["previous_token"].push_back(by_previous != nullptr ? by_previous->previous_token : 0.0);
  }
  check(!steps.empty(), ErrorCode::format, "'{}/history.jsonl' holds no evaluation", directory);
  const train::HistoryRecord* last = nullptr;
  for (const train::HistoryRecord& record : history.records)
    if (record.evaluation) last = &record;
  curves["heads"] = Json::array();
  for (const train::HeadEvaluation& head : last->evaluation->heads)
    curves["heads"].push_back({{"head", head_node(head.layer, head.head)},
                               {"layer", head.layer},
                               {"index", head.head},
                               {"prefix_matching", head.prefix_matching},
                               {"previous_token", head.previous_token},
                               {"copying", head.copying ? Json(*head.copying) : Json(nullptr)}});
  const PhaseChange phase = phase_change(steps, matching);
  curves["final_prefix_matching"] = phase.final_value;
  curves["phase"] = nullptr;
  if (phase.final_value < kRoleScore) return curves;
  const auto icl_at = [&](Index step) {
    const auto at = static_cast<std::size_t>(std::find(steps.begin(), steps.end(), step) - steps.begin());
    return curves["icl"][at].is_null() ? 0.0 : curves["icl"][at].get<double>();
  };
  const double end = icl_at(steps.back());
  curves["phase"] = {
      {"from", phase.from},
      {"to", phase.to},
      {"icl_before", icl_at(phase.from)},
      {"icl_after", icl_at(phase.to)},
      {"share_of_icl", end != 0.0 ? Json((icl_at(phase.to) - icl_at(phase.from)) / end) : Json(nullptr)}};
  return curves;
}

}  // namespace

Json losses_at_checkpoints(const StageRun& run, const std::string& name, const InductionSizes& sizes) {
  const std::vector<Tokens> windows = held_out_windows(run, sizes.context, sizes.windows);
  const std::vector<ChosenToken> chosen = choose_tokens(windows, kTokenSeed);
  Json steps = Json::array(), losses = Json::array();
  const auto checkpoints = checkpoints_of(model_directory(run, name));
  for (std::size_t i = 0; i < checkpoints.size(); ++i) {
    const auto& [step, directory] = checkpoints[i];
    report(run.progress, "checkpoints", static_cast<Index>(i), static_cast<Index>(checkpoints.size()));
    const Model model = load_model(directory);
    Json vector = Json::array();
    for (const double loss : losses_of(chosen, corpus_losses(model, windows))) vector.push_back(rounded(loss));
    steps.push_back(step);
    losses.push_back(std::move(vector));
  }
  return {{"model", name}, {"windows", windows.size()}, {"steps", steps}, {"losses", losses}};
}

Json curves_of_runs(const StageRun& run, const std::vector<InductionRun>& runs) {
  Json result;
  for (const InductionRun& of : runs) result["runs"][of.name()] = curves_of(model_directory(run, of.name()), of);
  return result;
}

Json loss_plane(const StageRun& run, const std::vector<InductionRun>& runs) {
  std::vector<std::vector<double>> vectors;
  for (const InductionRun& of : runs)
    for (const Json& vector : run.inputs.at("losses/" + of.name()).at("losses"))
      vectors.push_back(vector.get<std::vector<double>>());
  const PlaneOfChange plane = plane_of_change(vectors);
  Json result = {{"share", plane.share}, {"tokens", vectors.front().size()}, {"runs", Json::object()}};
  std::size_t next = 0;
  for (const InductionRun& of : runs) {
    const Json& steps = run.inputs.at("losses/" + of.name()).at("steps");
    Json points = Json::array();
    for (std::size_t i = 0; i < steps.size(); ++i) points.push_back(plane.points[next++]);
    result["runs"][of.name()] = {{"steps", steps}, {"points", points}};
  }
  return result;
}

Json ablated_heads(const StageRun& run, const std::string& name, const std::string& reference,
                   const InductionSizes& sizes) {
  const Model model = load_model(model_directory(run, name));
  const Json& curves = run.inputs.at("curves").at("runs");
  const Json& own = curves.at(name);
  const std::vector<Tokens> all = held_out_windows(run, sizes.context, sizes.windows);
  const std::vector<Tokens> windows = spread(all, sizes.ablation_windows);
  AblationStudyOptions options;
  options.ablation = {.kind = Ablation::zero, .keep_patterns = true, .progress = run.progress};
  options.bands = icl_bands(sizes.context);
  options.tokens = spread(choose_tokens(all, kTokenSeed), sizes.ablation_windows);
  for (std::size_t i = 0; i < options.tokens.size(); ++i) options.tokens[i].window = static_cast<Index>(i);

  // The way from the phase change's beginning to its end; of a run without one, that of the reference, and from the
  // first checkpoint to the last one where there is none at all.
  const Json& losses = run.inputs.at("losses/" + name);
  const Json& steps = losses.at("steps");
  const Json& phase = own.at("phase").is_null() ? curves.at(reference).at("phase") : own.at("phase");
  std::size_t from = 0, to = steps.size() - 1;
  if (!phase.is_null()) {
    from = nearest(steps, phase.at("from").get<Index>());
    to = nearest(steps, phase.at("to").get<Index>());
    if (from == to) from > 0 ? --from : ++to;
  }
  const auto vector_at = [&](std::size_t i) {
    return spread(losses.at("losses").at(i).get<std::vector<double>>(), sizes.ablation_windows);
  };
  options.change = before_and_after(vector_at(from), vector_at(to));

  std::vector<AblatedNodes> nodes = every_head(model.config);
  AblatedNodes induction, others;
  for (const Json& head : own.at("heads")) {
    const std::pair<Index, Index> place{head.at("layer").get<Index>(), head.at("index").get<Index>()};
    (head.at("prefix_matching").get<double>() >= kRoleScore ? induction : others).heads.push_back(place);
  }
  // As many of the others: those that match least.
  const auto matching = [&](const std::pair<Index, Index>& place) {
    for (const Json& head : own.at("heads"))
      if (head.at("layer") == place.first && head.at("index") == place.second)
        return head.at("prefix_matching").get<double>();
    return 0.0;
  };
  std::stable_sort(others.heads.begin(), others.heads.end(),
                   [&](const auto& a, const auto& b) { return matching(a) < matching(b); });
  if (others.heads.size() > induction.heads.size()) others.heads.resize(induction.heads.size());
  const bool groups = !induction.heads.empty() && !others.heads.empty();
  if (groups) nodes.insert(nodes.end(), {induction, others});
  Json result = to_json(study_ablations(model, windows, nodes, options));
  Json& list = result["ablations"];
  result["groups"] = nullptr;
  if (groups) {
    result["groups"] = {{"induction", list[list.size() - 2]}, {"others", list[list.size() - 1]}};
    list.erase(list.end() - 2, list.end());
  }
  for (std::size_t i = 0; i < list.size(); ++i)
    list[i]["prefix_matching"] = own.at("heads").empty() ? Json(nullptr) : own.at("heads").at(i).at("prefix_matching");
  result["model"] = name;
  result["ablation"] = to_json(options.ablation);
  result["change_from"] = steps[from];
  result["change_to"] = steps[to];
  return result;
}

}  // namespace kirchhoff::reproduce
