#include "kirchhoff/study/learning_curves.h"

#include <algorithm>   // for any_of, find_if, lower_bound, max, min, mismatch
#include <filesystem>  // for exists, is_regular_file, path

#include "kirchhoff/base/error.h"
#include "kirchhoff/io/json_file.h"

namespace kirchhoff {
namespace {

namespace fs = std::filesystem;
using train::Evaluation;
using train::HeadEvaluation;
using train::HistoryRecord;

/// Removes every "seed", and gives the last that was found.
std::optional<std::uint64_t> take_seeds(Json& value) {
  std::optional<std::uint64_t> seed;
  if (value.is_object()) {
    if (const auto found = value.find("seed"); found != value.end()) {
      if (found->is_number_unsigned()) seed = found->get<std::uint64_t>();
      value.erase("seed");
    }
  }
  if (value.is_structured())
    for (Json& inner : value)
      if (const auto found = take_seeds(inner); found && !seed) seed = found;
  return seed;
}

/// The record of a step, if the run has it.
const HistoryRecord* record_at(const TrainingRun& run, Index step) {
  const auto& records = run.history.records;
  const auto found = std::lower_bound(records.begin(), records.end(), step,
                                      [](const HistoryRecord& record, Index at) { return record.step < at; });
  return found != records.end() && found->step == step ? &*found : nullptr;
}

std::optional<Spread> spread_of(std::span<const std::optional<double>> values) {
  if (std::any_of(values.begin(), values.end(), [](const auto& value) { return !value; })) return std::nullopt;
  Spread spread{0.0, *values.front(), *values.front()};
  for (const auto& value : values) {
    spread.mean += *value / static_cast<double>(values.size());
    spread.low = std::min(spread.low, *value);
    spread.high = std::max(spread.high, *value);
  }
  if (spread.low == spread.high) spread.mean = spread.low;
  return spread;
}

/// The largest value of a score in each layer.
std::vector<double> best_of_layers(const Evaluation& evaluation, double HeadEvaluation::*score) {
  std::vector<double> best;
  for (const HeadEvaluation& head : evaluation.heads) {
    const auto layer = static_cast<std::size_t>(head.layer);
    if (layer >= best.size()) best.resize(layer + 1, head.*score);
    best[layer] = std::max(best[layer], head.*score);
  }
  return best;
}

/// The records of one step in all runs of a group.
class StepReader {
 public:
  explicit StepReader(std::vector<const HistoryRecord*> records) : records_(std::move(records)) {}

  template <class Value>  // std::optional<double>(const HistoryRecord&)
  std::optional<Spread> spread(const Value& value) const {
    std::vector<std::optional<double>> values;
    for (const HistoryRecord* record : records_) values.push_back(value(*record));
    return spread_of(values);
  }
  template <class Value>  // std::optional<double>(const Evaluation&)
  std::optional<Spread> evaluated(const Value& value) const {
    return spread([&](const HistoryRecord& record) {
      return record.evaluation ? std::optional<double>(value(*record.evaluation)) : std::nullopt;
    });
  }
  std::vector<Spread> best(double HeadEvaluation::*score) const {
    std::vector<Spread> layers;
    for (std::size_t layer = 0;; ++layer) {
      const auto spread = this->spread([&](const HistoryRecord& record) -> std::optional<double> {
        if (!record.evaluation) return std::nullopt;
        const std::vector<double> best = best_of_layers(*record.evaluation, score);
        return layer < best.size() ? std::optional<double>(best[layer]) : std::nullopt;
      });
      if (!spread) return layers;
      layers.push_back(*spread);
    }
  }

 private:
  std::vector<const HistoryRecord*> records_;
};

CurvePoint point_of(const StepReader& reader, const HistoryRecord& first) {
  using Number = std::optional<double>;
  CurvePoint point{.step = first.step,
                   .tokens = first.tokens,
                   .loss = {},
                   .held_out = {},
                   .icl = {},
                   .accuracy = {},
                   .task_loss = {},
                   .prefix_matching = {},
                   .previous_token = {}};
  point.loss = reader.spread([](const HistoryRecord& record) { return record.loss; });
  point.held_out = reader.evaluated([](const Evaluation& e) -> Number { return e.loss.value; });
  point.icl = reader.evaluated([](const Evaluation& e) { return e.icl ? Number(e.icl->score.value) : std::nullopt; });
  point.accuracy =
      reader.evaluated([](const Evaluation& e) { return e.task ? Number(e.task->accuracy) : std::nullopt; });
  point.task_loss = reader.evaluated([](const Evaluation& e) { return e.task ? Number(e.task->loss) : std::nullopt; });
  point.prefix_matching = reader.best(&HeadEvaluation::prefix_matching);
  point.previous_token = reader.best(&HeadEvaluation::previous_token);
  return point;
}

std::vector<CurvePoint> points_of(const std::vector<const TrainingRun*>& runs) {
  std::vector<CurvePoint> points;
  for (const HistoryRecord& record : runs.front()->history.records) {
    std::vector<const HistoryRecord*> records;
    for (const TrainingRun* run : runs)
      if (const HistoryRecord* at = record_at(*run, record.step)) records.push_back(at);
    if (records.size() == runs.size()) points.push_back(point_of(StepReader(std::move(records)), record));
  }
  return points;
}

/// "attn-2l" of attn-2l-s0, attn-2l-s1; all names, if they have nothing in common.
std::string common_name(const std::vector<const TrainingRun*>& runs) {
  std::string common = runs.front()->name;
  for (const TrainingRun* run : runs) {
    const auto [a, b] = std::mismatch(common.begin(), common.end(), run->name.begin(), run->name.end());
    common.erase(a, common.end());
  }
  if (runs.size() == 1) return common;
  for (const std::string_view tail : {"seed", "s"})
    if (common.ends_with(tail) && common.size() > tail.size() &&
        std::string_view("-_.").find(common[common.size() - tail.size() - 1]) != std::string_view::npos)
      common.resize(common.size() - tail.size());
  while (!common.empty() && std::string_view("-_.").find(common.back()) != std::string_view::npos) common.pop_back();
  if (!common.empty()) return common;
  std::string all;
  for (const TrainingRun* run : runs) all += (all.empty() ? "" : ", ") + run->name;
  return all;
}

}  // namespace

TrainingRun read_training_run(const std::string& path) {
  const bool file = fs::is_regular_file(path);
  const fs::path folder = file ? fs::path(path).parent_path() : fs::path(path);
  const fs::path history = file ? fs::path(path) : folder / "history.jsonl";
  check(fs::exists(history), ErrorCode::not_found, "'{}' has no history.jsonl: it is not the directory of a training",
        path);
  TrainingRun run{.path = path, .name = {}, .config = nullptr, .seed = {}, .history = {}};
  const fs::path absolute = fs::absolute(folder).lexically_normal();
  run.name = (absolute.has_filename() ? absolute.filename() : absolute.parent_path().filename()).string();
  run.history = train::read_history(history.string());
  if (const fs::path config = folder / "training.json"; fs::exists(config)) {
    run.config = io::read_json_file(config.string());
    run.seed = take_seeds(run.config);
    if (run.config.is_object()) run.config.erase("command");  // which names the seed and the directory
  }
  return run;
}

std::vector<RunGroup> group_runs(std::span<const TrainingRun> runs) {
  std::vector<RunGroup> groups;
  for (const TrainingRun& run : runs) {
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const RunGroup& group) {
      return !run.config.is_null() && group.runs.front()->config == run.config;
    });
    if (same != groups.end())
      same->runs.push_back(&run);
    else
      groups.push_back({.name = {}, .runs = {&run}, .points = {}});
  }
  for (RunGroup& group : groups) {
    group.name = common_name(group.runs);
    group.points = points_of(group.runs);
  }
  return groups;
}

}  // namespace kirchhoff
