#include "kirchhoff/train/training_data.h"

#include <algorithm>  // for min
#include <memory>     // for shared_ptr

#include "kirchhoff/base/error.h"
#include "kirchhoff/io/whole_file.h"
#include "kirchhoff/model/config_reader.h"
#include "kirchhoff/text/word_level.h"
#include "kirchhoff/train/tasks.h"
#include "train/text_data.h"

namespace kirchhoff::train {
namespace {

constexpr Index kHeldOutExamples = 256;

std::shared_ptr<const Task> task_of(const TrainingConfig& config) {
  ConfigReader reader(config.task, config.path, "task.");
  const std::string name = reader.text("name");
  TaskOptions options;
  const auto size = [&](const char* key, Index& value) { value = reader.count_or(key, 0, Index{1} << 20); };
  size("symbols", options.symbols);
  size("length", options.length);
  size("shortest", options.shortest);
  size("modulus", options.modulus);
  size("depth", options.depth);
  size("kinds", options.kinds);
  reader.finish();
  return make_task(name, options);
}

Json to_json(const Task& task) {
  const TaskOptions& o = task.options();
  Json json = {{"name", task.name()}};
  for (const auto& [key, value] : {std::pair<const char*, Index>{"symbols", o.symbols},
                                   {"length", o.length},
                                   {"shortest", o.shortest},
                                   {"modulus", o.modulus},
                                   {"depth", o.depth},
                                   {"kinds", o.kinds}})
    if (value > 0) json[key] = value;
  return json;
}

TrainingData open_task(const TrainingConfig& config) {
  const std::shared_ptr<const Task> task = task_of(config);
  TrainingData data;
  data.context = task->context();
  data.vocabulary = task->vocabulary();
  data.bos = kTaskBos;
  const std::uint64_t seed = config.training.seed;
  const Index count = config.training.batch;
  data.batches = [task, seed, count](Index step) {
    Batch batch;
    for (Index i = 0; i < count; ++i) {
      Example example = task->example(seed, step, i);
      batch.first_scored.push_back(example.scored.front());
      batch.sequences.push_back(std::move(example.tokens));
    }
    return batch;
  };
  data.held_out = held_out_examples(*task, seed, kHeldOutExamples);
  return data;
}

}  // namespace

DataFiles prepare_data(const TrainingConfig& config, const std::vector<std::string>& paths,
                       const std::string& directory, const Progress& progress) {
  if (config.task.is_null()) return prepare_text(config, paths, directory, progress);
  check(paths.empty(), ErrorCode::usage, "'{}' names a task, which makes its own sequences: no text is read beside it",
        config.path);
  const std::shared_ptr<const Task> task = task_of(config);
  const text::TokenizerFiles files = text::word_level_files(task->token_names(), kTaskBos);
  io::write_whole_file(directory + "/tokenizer.json", files.tokenizer_json);
  io::write_whole_file(directory + "/tokenizer_config.json", files.tokenizer_config_json);
  return {
      {{"task", to_json(*task)}, {"vocabulary", task->vocabulary()}}, task->vocabulary(), task->context(), kTaskBos};
}

TrainingData open_data(const TrainingConfig& config, const std::string& directory) {
  return config.task.is_null() ? open_text(config, directory) : open_task(config);
}

}  // namespace kirchhoff::train
