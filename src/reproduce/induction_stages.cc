#include "reproduce/induction_stages.h"

#include <algorithm>   // for max, sort
#include <cmath>       // for round
#include <filesystem>  // for directory_iterator
#include <numeric>     // for iota

#include "kirchhoff/base/error.h"
#include "kirchhoff/model/load.h"
#include "kirchhoff/observe/in_context.h"
#include "kirchhoff/reproduce/loss_trajectory.h"
#include "kirchhoff/study/ablation_study.h"
#include "kirchhoff/study/head_roles.h"
#include "kirchhoff/study/learning_curves.h"
#include "kirchhoff/train/repeated_passage.h"

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

/// What is measured on: text like that of training.
std::vector<Tokens> with_passages(std::vector<Tokens> windows, const InductionSizes& sizes) {
  train::repeat_passages(windows, sizes.repeated_passages);
  return windows;
}

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

std::string title_of(const ModelKind& kind) {
  return fmt::format("{} layer{}{}", kind.layers, kind.layers == 1 ? "" : "s", kind.smeared ? ", smeared keys" : "");
}

/// The entry of a list of {"run": ..} that is of this run.
const Json& entry_of(const Json& list, const std::string& run) {
  for (const Json& entry : list)
    if (entry.at("run") == run) return entry;
  fail(ErrorCode::internal, "no curves of '{}'", run);
}

/// Heads of the last moment of a run, layer by layer.
std::vector<double> prefix_matching_of(const Json& curves, const std::string& run) {
  std::vector<double> scores;
  for (const Json& head : curves.at("heads"))
    if (head.at("run") == run) scores.push_back(head.at("prefix_matching").get<double>());
  return scores;
}

}  // namespace

Json losses_at_checkpoints(const StageRun& run, const std::string& name, const InductionSizes& sizes) {
  const std::vector<Tokens> plain = held_out_windows(run, sizes.context, sizes.windows);
  const std::vector<Tokens> windows = with_passages(plain, sizes);
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
  const BandedIclScore icl =  // what the model does with text that was left as it is
      icl_score(corpus_losses(load_model(checkpoints.back().second), plain), icl_bands(sizes.context));
  return {{"model", name},
          {"windows", windows.size()},
          {"steps", steps},
          {"losses", losses},
          {"plain_icl", {{"score", icl.score.value}, {"error", icl.score.error}}}};
}

Json curves_of_runs(const StageRun& run, const std::vector<InductionRun>& runs) {
  std::vector<TrainingRun> trainings;
  for (const InductionRun& of : runs) trainings.push_back(read_training_run(model_directory(run, of.name())));
  Json result = to_json(group_runs(trainings));
  Json last = Json::array(), kinds = Json::array();
  for (const Json& head : result["heads"])
    if (head["step"] == entry_of(result["runs"], head["run"].get<std::string>())["step"]) last.push_back(head);
  result["heads"] = std::move(last);
  for (const InductionRun& of : runs) {
    Json* kind = nullptr;
    for (Json& known : kinds)
      if (known["kind"] == of.kind.name()) kind = &known;
    if (kind == nullptr) {
      kinds.push_back({{"kind", of.kind.name()},
                       {"title", title_of(of.kind)},
                       {"group", entry_of(result["runs"], of.name())["group"]},
                       {"runs", Json::array()}});
      kind = &kinds.back();
    }
    (*kind)["runs"].push_back(of.name());
  }
  for (Json& of : result["runs"]) of.erase("path");  // says where somebody worked, not what came out
  result["kinds"] = std::move(kinds);
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
  const Json& curves = run.inputs.at("curves");
  const std::vector<Tokens> all = with_passages(held_out_windows(run, sizes.context, sizes.windows), sizes);
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
  const Json& own = entry_of(curves.at("runs"), name).at("phase_change");
  const Json& phase = own.is_null() ? entry_of(curves.at("runs"), reference).at("phase_change") : own;
  std::size_t from = 0, to = steps.size() - 1;
  if (!phase.is_null()) {
    from = nearest(steps, phase.at("from_step").get<Index>());
    to = nearest(steps, phase.at("to_step").get<Index>());
    if (from == to) from > 0 ? --from : ++to;
  }
  const auto vector_at = [&](std::size_t i) {
    return spread(losses.at("losses").at(i).get<std::vector<double>>(), sizes.ablation_windows);
  };
  options.change = before_and_after(vector_at(from), vector_at(to));

  std::vector<AblatedNodes> nodes = every_head(model.config);
  const std::vector<double> matching = prefix_matching_of(curves, name);
  check(matching.size() == nodes.size(), ErrorCode::format, "'{}' has {} heads, {} were scored", name, nodes.size(),
        matching.size());
  // As many of the others as there are induction heads: those that match least.
  std::vector<std::size_t> order(nodes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return matching[a] < matching[b]; });
  AblatedNodes induction, others;
  for (const std::size_t i : order)
    if (matching[i] >= kCheckedScore) induction.heads.push_back(nodes[i].heads.front());
  for (const std::size_t i : order)
    if (matching[i] < kCheckedScore && others.heads.size() < induction.heads.size())
      others.heads.push_back(nodes[i].heads.front());
  const bool groups = !induction.heads.empty() && !others.heads.empty();
  if (groups) nodes.insert(nodes.end(), {induction, others});
  Json result = to_json(study_ablations(model, windows, nodes, options));
  Json& list = result["ablations"];
  result["groups"] = nullptr;
  if (groups) {
    result["groups"] = {{"induction", list[list.size() - 2]}, {"others", list[list.size() - 1]}};
    list.erase(list.end() - 2, list.end());
  }
  for (std::size_t i = 0; i < list.size(); ++i) list[i]["prefix_matching"] = matching[i];
  result["model"] = name;
  result["ablation"] = to_json(options.ablation);
  result["change_from"] = steps[from];
  result["change_to"] = steps[to];
  return result;
}

}  // namespace kirchhoff::reproduce
