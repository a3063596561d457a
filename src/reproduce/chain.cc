#include "kirchhoff/reproduce/chain.h"
#include "kirchhoff/io/directory.h"

#include <chrono>      // for steady_clock
#include <filesystem>  // for path
#include <utility>     // for move

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/measure.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/io/mapped_file.h"
#include "kirchhoff/io/sha256.h"
#include "kirchhoff/io/whole_file.h"

namespace kirchhoff::reproduce {
namespace {

std::string record_path(const std::string& directory, const std::string& stage) {
  return fmt::format("{}/stages/{}.json", directory, stage);
}

/// Hashes of the records that a stage builds on; none while one of them is missing.
using Hashes = std::map<std::string, std::string>;
Json hashes_of(const Stage& stage, const Hashes& hashes) {
  Json inputs = Json::object();
  for (const std::string& input : stage.inputs) {
    const auto found = hashes.find(input);
    if (found == hashes.end()) return nullptr;
    inputs[input] = found->second;
  }
  return inputs;
}

std::optional<Json> read_record(const std::string& directory, const std::string& stage) {
  const std::string path = record_path(directory, stage);
  if (!io::exists(path)) return std::nullopt;
  return io::read_json_file(path, {.object_at_top = true});
}

/// Whether the record is of this stage as it would be done now.
bool is_of(const Json& record, const Stage& stage, const Json& inputs) {
  return record.contains("settings") && record["settings"] == stage.settings && record.contains("inputs") &&
         record["inputs"] == inputs;
}

bool is_done(const Json& record, const Stage& stage, const Json& inputs, const std::string& directory) {
  if (!is_of(record, stage, inputs) || !record.contains("result")) return false;
  for (const std::string& output : stage.outputs)
    if (!io::exists(directory + "/" + output)) return false;
  return true;
}

double seconds_of(const Json& record) { return record.value("seconds", 0.0); }

void write_record(const std::string& directory, const Stage& stage, const Json& inputs, double seconds,
                  const std::optional<Json>& result) {
  Json record = new_result("reproduction");
  record["stage"] = stage.name;
  record["settings"] = stage.settings;
  record["inputs"] = inputs;
  record["seconds"] = seconds;
  if (result) record["result"] = *result;
  const std::string path = record_path(directory, stage.name);
  io::make_directories(std::filesystem::path(path).parent_path().string());
  io::write_whole_file(path, record.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void check_order(const Chain& chain) {
  Hashes seen;
  for (const Stage& stage : chain.stages) {
    check(!hashes_of(stage, seen).is_null(), ErrorCode::internal, "stage '{}' stands before what it builds on",
          stage.name);
    check(seen.emplace(stage.name, "").second, ErrorCode::internal, "two stages are named '{}'", stage.name);
  }
}

}  // namespace

double Chain::minutes() const {
  double sum = 0.0;
  for (const Stage& stage : stages) sum += stage.minutes;
  return sum;
}

std::string name(StageState state) {
  switch (state) {
    case StageState::skipped:
      return "done before";
    case StageState::done:
      return "done";
    case StageState::stopped:
      return "stopped";
    case StageState::waiting:
      break;
  }
  return "to be done";
}

std::string file_hash(const std::string& path) {
  io::Sha256 hash;
  hash.add(io::map_file(path).bytes);
  return hash.finish();
}

std::string record_hash(const Json& record) {
  const Json identity = {
      {"settings", record.at("settings")}, {"inputs", record.at("inputs")}, {"result", record.value("result", Json())}};
  const std::string text = identity.dump(-1, ' ', false, Json::error_handler_t::replace);
  io::Sha256 hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.finish();
}

ChainReport run_chain(const Chain& chain, const ChainOptions& options) {
  check_order(chain);
  const auto start = std::chrono::steady_clock::now();
  ChainReport report;
  Hashes hashes;
  std::map<std::string, Json> results;
  bool stopped = false;
  for (std::size_t i = 0; i < chain.stages.size(); ++i) {
    const Stage& stage = chain.stages[i];
    const Json inputs = hashes_of(stage, hashes);
    std::optional<Json> record = read_record(options.directory, stage.name);
    const auto keep = [&](const Json& done, StageState state) {
      hashes[stage.name] = record_hash(done);
      results[stage.name] = done["result"];
      report.stages.push_back({stage.name, state, seconds_of(done)});
    };
    if (!inputs.is_null() && record && is_done(*record, stage, inputs, options.directory)) {
      keep(*record, StageState::skipped);
      continue;
    }
    const double before = record && is_of(*record, stage, inputs) ? seconds_of(*record) : 0.0;
    const double left = options.minutes - seconds_since(start) / 60.0;
    if (stopped || (options.minutes > 0.0 && left <= 0.0)) {
      stopped = true;
      report.stages.push_back({stage.name, StageState::waiting, before});
      continue;
    }
    throw_if_interrupted();
    if (options.on_stage) options.on_stage(stage, static_cast<Index>(i));
    StageRun run{.directory = options.directory,
                 .inputs = {},
                 .minutes = options.minutes > 0.0 ? left : 0.0,
                 .progress = options.progress,
                 .on_step = options.on_step,
                 .on_training = options.on_training};
    for (const std::string& input : stage.inputs) run.inputs[input] = results.at(input);
    const auto begun = std::chrono::steady_clock::now();
    std::optional<Json> result;
    try {
      result = stage.run(run);
    } catch (...) {
      const InterruptShield shield;
      write_record(options.directory, stage, inputs, before + seconds_since(begun), std::nullopt);
      throw;
    }
    const InterruptShield shield;
    write_record(options.directory, stage, inputs, before + seconds_since(begun), result);
    record = read_record(options.directory, stage.name);  // as it is hashed when it is read again
    if (result) {
      keep(*record, StageState::done);
    } else {
      stopped = true;
      report.stages.push_back({stage.name, StageState::stopped, seconds_of(*record)});
    }
  }
  report.finished = !stopped;
  return report;
}

ChainReport chain_state(const Chain& chain, const std::string& directory) {
  check_order(chain);
  ChainReport report;
  report.finished = true;
  Hashes hashes;
  for (const Stage& stage : chain.stages) {
    const Json inputs = hashes_of(stage, hashes);
    const std::optional<Json> record = read_record(directory, stage.name);
    const bool done = !inputs.is_null() && record && is_done(*record, stage, inputs, directory);
    if (done) hashes[stage.name] = record_hash(*record);
    const bool begun = !done && record && is_of(*record, stage, inputs);
    report.finished = report.finished && done;
    report.stages.push_back({stage.name,
                             done    ? StageState::skipped
                             : begun ? StageState::stopped
                                     : StageState::waiting,
                             done || begun ? seconds_of(*record) : 0.0});
  }
  return report;
}

std::map<std::string, Json> stage_records(const Chain& chain, const std::string& directory) {
  std::map<std::string, Json> records;
  const ChainReport state = chain_state(chain, directory);
  for (const ChainReport::Entry& entry : state.stages) {
    check(entry.state == StageState::skipped, ErrorCode::usage, "stage '{}' of '{}' is not done", entry.stage,
          directory);
    records[entry.stage] = *read_record(directory, entry.stage);
  }
  return records;
}

}  // namespace kirchhoff::reproduce
