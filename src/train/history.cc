#include "kirchhoff/train/history.h"

#include <algorithm>         // for find
#include <cmath>             // for isfinite
#include <cstdint>           // for int64_t
#include <filesystem>        // for exists
#include <fstream>           // for ofstream
#include <functional>        // for function
#include <initializer_list>  // for initializer_list
#include <nlohmann/json.hpp>
#include <string_view>  // for string_view

#include "kirchhoff/base/error.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/io/mapped_file.h"
#include "kirchhoff/io/whole_file.h"

namespace kirchhoff::train {
namespace {

using Json = nlohmann::ordered_json;

double finite(double value, std::string_view name) {
  check(std::isfinite(value), ErrorCode::numerical, "history: {} is {}", name, value);
  return value;
}

/// Scores of heads as [layer][head].
Json by_layer(const std::vector<HeadEvaluation>& heads, std::string_view name,
              const std::function<std::optional<double>(const HeadEvaluation&)>& score) {
  Json layers = Json::array();
  for (const HeadEvaluation& head : heads) {
    if (static_cast<Index>(layers.size()) <= head.layer) layers.push_back(Json::array());
    const std::optional<double> value = score(head);
    layers.back().push_back(value ? Json(finite(*value, name)) : Json(nullptr));
  }
  return layers;
}

Json json_of(const Evaluation& evaluation) {
  Json json = {{"windows", evaluation.windows},
               {"context", evaluation.context},
               {"loss", finite(evaluation.loss.value, "held_out.loss")},
               {"error", finite(evaluation.loss.error, "held_out.error")}};
  Json ends = Json::array(), losses = Json::array();
  for (const PositionBin& bin : evaluation.by_position) {
    if (ends.empty()) ends.push_back(bin.from);
    ends.push_back(bin.to);
    losses.push_back(finite(bin.loss, "held_out.by_position.loss"));
  }
  json["by_position"] = {{"ends", std::move(ends)}, {"loss", std::move(losses)}};
  if (const auto& icl = evaluation.icl)
    json["icl"] = {{"early", {icl->early.from, icl->early.to}},
                   {"late", {icl->late.from, icl->late.to}},
                   {"early_loss", finite(icl->early_loss, "held_out.icl.early_loss")},
                   {"late_loss", finite(icl->late_loss, "held_out.icl.late_loss")},
                   {"score", finite(icl->score.value, "held_out.icl.score")},
                   {"error", finite(icl->score.error, "held_out.icl.error")}};
  if (const auto& task = evaluation.task)
    json["task"] = {{"loss", finite(task->loss, "held_out.task.loss")},
                    {"accuracy", finite(task->accuracy, "held_out.task.accuracy")},
                    {"tokens", task->tokens}};
  if (!evaluation.heads.empty())
    json["heads"] = {{"prefix_matching",
                      by_layer(evaluation.heads, "prefix_matching", [](const auto& h) { return h.prefix_matching; })},
                     {"previous_token",
                      by_layer(evaluation.heads, "previous_token", [](const auto& h) { return h.previous_token; })},
                     {"copying", by_layer(evaluation.heads, "copying", [](const auto& h) { return h.copying; })}};
  return json;
}

/// An object of a line. Every reader fails with the line and the key; done() fails on a key that nobody read.
class Reader {
 public:
  Reader(const Json& value, std::string where) : value_(value), where_(std::move(where)) {
    check(value_.is_object(), ErrorCode::format, "{} is {}, expected an object", where_, value_.type_name());
  }

  bool has(const char* key) const { return value_.contains(key); }
  const Json& at(const char* key) {
    check(has(key), ErrorCode::format, "{} has no '{}'", where_, key);
    read_.emplace_back(key);
    return value_[key];
  }
  Reader object(const char* key) { return {at(key), name(key)}; }
  double number(const char* key) { return number(at(key), name(key)); }
  std::optional<double> optional_number(const char* key) {
    return has(key) ? std::optional<double>(number(key)) : std::nullopt;
  }
  Index count(const char* key) { return count(at(key), name(key)); }
  std::vector<double> numbers(const char* key) {
    std::vector<double> list;
    for (const Json& element : array(key)) list.push_back(number(element, name(key)));
    return list;
  }
  std::vector<Index> counts(const char* key) {
    std::vector<Index> list;
    for (const Json& element : array(key)) list.push_back(count(element, name(key)));
    return list;
  }
  PositionBand band(const char* key) {
    const std::vector<Index> ends = counts(key);
    check(ends.size() == 2 && ends[0] < ends[1], ErrorCode::format, "{} is no pair of ascending positions", name(key));
    return {ends[0], ends[1]};
  }
  /// [layer][head]; null is no score.
  std::vector<std::vector<std::optional<double>>> scores(const char* key) {
    std::vector<std::vector<std::optional<double>>> layers;
    for (const Json& layer : array(key)) {
      check(layer.is_array(), ErrorCode::format, "{} is no list of lists", name(key));
      layers.emplace_back();
      for (const Json& score : layer)
        layers.back().push_back(score.is_null() ? std::nullopt : std::optional<double>(number(score, name(key))));
    }
    return layers;
  }
  void done() const {
    for (const auto& [key, ignored] : value_.items())
      check(std::find(read_.begin(), read_.end(), key) != read_.end(), ErrorCode::format, "{} has the unknown key '{}'",
            where_, key);
  }
  const std::string& where() const { return where_; }

 private:
  std::string name(const char* key) const { return fmt::format("{}: '{}'", where_, key); }
  const Json& array(const char* key) {
    const Json& value = at(key);
    check(value.is_array(), ErrorCode::format, "{} is {}, expected a list", name(key), value.type_name());
    return value;
  }
  static double number(const Json& value, const std::string& name) {
    check(value.is_number(), ErrorCode::format, "{} is {}, expected a number", name, value.type_name());
    return value.get<double>();
  }
  static Index count(const Json& value, const std::string& name) {
    check(value.is_number_unsigned() && value.get<std::uint64_t>() <= std::uint64_t{INT64_MAX}, ErrorCode::format,
          "{} is {}, expected a whole number that is not negative", name, value.dump());
    return value.get<Index>();
  }

  const Json& value_;
  std::string where_;
  std::vector<std::string> read_;
};

std::vector<PositionBin> read_bins(Reader json) {
  const std::vector<Index> ends = json.counts("ends");
  const std::vector<double> losses = json.numbers("loss");
  json.done();
  check(losses.empty() ? ends.empty() : ends.size() == losses.size() + 1, ErrorCode::format,
        "{} has {} losses between {} ends", json.where(), losses.size(), ends.size());
  std::vector<PositionBin> bins;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    check(ends[i] >= 1 && ends[i] < ends[i + 1], ErrorCode::format, "{}: ends do not ascend from 1 on", json.where());
    bins.push_back({.from = ends[i], .to = ends[i + 1], .loss = losses[i]});
  }
  return with_slopes(std::move(bins));
}

std::vector<HeadEvaluation> read_heads(Reader json) {
  const auto prefix = json.scores("prefix_matching"), previous = json.scores("previous_token"),
             copying = json.scores("copying");
  json.done();
  check(previous.size() == prefix.size() && copying.size() == prefix.size(), ErrorCode::format,
        "{}: scores of {}, {} and {} layers", json.where(), prefix.size(), previous.size(), copying.size());
  std::vector<HeadEvaluation> heads;
  for (std::size_t layer = 0; layer < prefix.size(); ++layer) {
    check(previous[layer].size() == prefix[layer].size() && copying[layer].size() == prefix[layer].size(),
          ErrorCode::format, "{}: scores of {}, {} and {} heads in layer {}", json.where(), prefix[layer].size(),
          previous[layer].size(), copying[layer].size(), layer);
    for (std::size_t head = 0; head < prefix[layer].size(); ++head) {
      check(prefix[layer][head] && previous[layer][head], ErrorCode::format,
            "{}: head {}.{} lacks a score of its pattern", json.where(), layer, head);
      heads.push_back({static_cast<Index>(layer), static_cast<Index>(head), *prefix[layer][head],
                       *previous[layer][head], copying[layer][head]});
    }
  }
  return heads;
}

BandedIclScore read_icl(Reader json, Index windows) {
  BandedIclScore icl{.early = json.band("early"), .late = json.band("late"), .score = {}};
  icl.early_loss = json.number("early_loss");
  icl.late_loss = json.number("late_loss");
  icl.score = {json.number("score"), json.number("error")};
  icl.windows = windows;
  json.done();
  return icl;
}

TaskEvaluation read_task(Reader json) {
  const TaskEvaluation task{json.number("loss"), json.number("accuracy"), json.count("tokens")};
  json.done();
  return task;
}

Evaluation read_evaluation(Reader json) {
  Evaluation evaluation{.windows = json.count("windows"),
                        .context = json.count("context"),
                        .loss = {json.number("loss"), json.number("error")},
                        .by_position = read_bins(json.object("by_position"))};
  if (json.has("icl")) evaluation.icl = read_icl(json.object("icl"), evaluation.windows);
  if (json.has("task")) evaluation.task = read_task(json.object("task"));
  if (json.has("heads")) evaluation.heads = read_heads(json.object("heads"));
  json.done();
  return evaluation;
}

/// A file's finished lines, and whether something is behind the last.
struct Lines {
  std::vector<std::string> lines;  ///< without their ends
  bool unfinished = false;
};
Lines lines_of(const std::string& path) {
  const io::FileBytes file = io::map_file(path);
  const std::string_view text = file.text();
  Lines result;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n', begin)) {
    result.lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  result.unfinished = begin < text.size();
  return result;
}

std::vector<HistoryRecord> parse_lines(const std::vector<std::string>& lines, const std::string& path) {
  std::vector<HistoryRecord> records;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string place = fmt::format("{}:{}", path, i + 1);
    HistoryRecord record = parse_history_line(lines[i], place);
    check(records.empty() || records.back().step < record.step, ErrorCode::format,
          "'{}': step {} is not behind step {} of the line before", place, record.step,
          records.empty() ? 0 : records.back().step);
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace

std::string history_line(const HistoryRecord& record) {
  Json json = {{"step", record.step}, {"tokens", record.tokens}};
  if (record.loss) json["loss"] = finite(*record.loss, "loss");
  if (record.learning_rate) json["learning_rate"] = finite(*record.learning_rate, "learning_rate");
  if (record.gradient_norm) json["gradient_norm"] = finite(*record.gradient_norm, "gradient_norm");
  if (record.evaluation) json["held_out"] = json_of(*record.evaluation);
  return json.dump() + "\n";
}

HistoryRecord parse_history_line(const std::string& line, const std::string& place) {
  const Json json = io::parse_json(line, place);
  Reader reader(json, fmt::format("'{}'", place));
  HistoryRecord record;
  record.step = reader.count("step");
  record.tokens = reader.count("tokens");
  record.loss = reader.optional_number("loss");
  record.learning_rate = reader.optional_number("learning_rate");
  record.gradient_norm = reader.optional_number("gradient_norm");
  if (reader.has("held_out")) record.evaluation = read_evaluation(reader.object("held_out"));
  reader.done();
  return record;
}

void append_history(const std::string& path, const HistoryRecord& record) {
  const std::string line = history_line(record);
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file << line << std::flush;
  check(file.good(), ErrorCode::io, "'{}' could not be written", path);
}

History read_history(const std::string& path) {
  const Lines lines = lines_of(path);
  return {parse_lines(lines.lines, path), lines.unfinished};
}

void truncate_history(const std::string& path, Index step) {
  if (!std::filesystem::exists(path)) return;
  const Lines lines = lines_of(path);
  const std::vector<HistoryRecord> records = parse_lines(lines.lines, path);
  std::string kept;
  std::size_t count = 0;
  for (; count < records.size() && records[count].step <= step; ++count) kept += lines.lines[count] + "\n";
  if (count < records.size() || lines.unfinished) io::write_whole_file(path, kept);
}

}  // namespace kirchhoff::train
