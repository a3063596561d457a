#include "kirchhoff/study/learning_curves.h"

namespace kirchhoff {
namespace {

Json json_of(const std::optional<Spread>& spread) {
  if (!spread) return nullptr;
  return {{"mean", spread->mean}, {"low", spread->low}, {"high", spread->high}};
}
Json json_of(const std::vector<Spread>& layers) {
  Json json = Json::object();
  for (std::size_t layer = 0; layer < layers.size(); ++layer)
    json[std::to_string(layer)] = json_of(std::optional(layers[layer]));
  return json;
}
Json json_of(const std::optional<PhaseChange>& change) {
  if (!change) return nullptr;
  return {{"from_step", change->from_step},
          {"to_step", change->to_step},
          {"from_tokens", change->from_tokens},
          {"to_tokens", change->to_tokens},
          {"prefix_matching_before", change->prefix_before},
          {"prefix_matching_after", change->prefix_after},
          {"icl_before", change->before},
          {"icl_after", change->after},
          {"head", head_name(change->layer, change->head)},
          {"head_step", change->head_step}};
}

Json json_of(const TrainingRun& run, const std::string& group) {
  const PhaseFinding phase = find_phase_change(run.history);
  const auto& records = run.history.records;
  return {{"run", run.name},
          {"path", run.path},
          {"group", group},
          {"seed", run.seed ? Json(*run.seed) : Json(nullptr)},
          {"records", records.size()},
          {"step", records.empty() ? 0 : records.back().step},
          {"tokens", records.empty() ? 0 : records.back().tokens},
          {"unfinished", run.history.unfinished},
          {"phase_change", json_of(phase.change)},
          {"no_phase_change", phase.change ? Json(nullptr) : Json(phase.why_not)}};
}

Json json_of(const CurvePoint& point, const std::string& group) {
  return {{"group", group},
          {"step", point.step},
          {"tokens", point.tokens},
          {"loss", json_of(point.loss)},
          {"held_out", json_of(point.held_out)},
          {"icl", json_of(point.icl)},
          {"accuracy", json_of(point.accuracy)},
          {"task_loss", json_of(point.task_loss)},
          {"prefix_matching", json_of(point.prefix_matching)},
          {"previous_token", json_of(point.previous_token)}};
}

}  // namespace

Json to_json(std::span<const RunGroup> groups) {
  Json json = {{"runs", Json::array()}, {"points", Json::array()}, {"heads", Json::array()}};
  for (const RunGroup& group : groups) {
    for (const TrainingRun* run : group.runs) json["runs"].push_back(json_of(*run, group.name));
    for (const CurvePoint& point : group.points) json["points"].push_back(json_of(point, group.name));
    for (const TrainingRun* run : group.runs)
      for (const train::HistoryRecord& record : run->history.records) {
        if (!record.evaluation) continue;
        for (const train::HeadEvaluation& head : record.evaluation->heads)
          json["heads"].push_back({{"run", run->name},
                                   {"step", record.step},
                                   {"head", head_name(head.layer, head.head)},
                                   {"prefix_matching", head.prefix_matching},
                                   {"previous_token", head.previous_token},
                                   {"copying", head.copying ? Json(*head.copying) : Json(nullptr)}});
      }
  }
  return json;
}

}  // namespace kirchhoff
