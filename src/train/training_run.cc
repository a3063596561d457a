#include "kirchhoff/train/training_run.h"

#include <algorithm>   // for find
#include <bit>         // for bit_cast
#include <charconv>    // for from_chars
#include <chrono>      // for steady_clock
#include <filesystem>  // for directory_iterator, remove, remove_all, rename
#include <utility>     // for move

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/measure.h"
#include "kirchhoff/io/directory.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/io/whole_file.h"
#include "train/model_card.h"
#include "train/place_file.h"

namespace kirchhoff::train {
namespace {

namespace fs = std::filesystem;

std::string facts_path(const std::string& directory) { return directory + "/training.json"; }
std::string state_path(const std::string& directory) { return directory + "/state.safetensors"; }
std::string history_path(const std::string& directory) { return directory + "/history.jsonl"; }

/// What prepare_data makes, and training.json itself.
constexpr std::string_view kDataFiles[] = {"tokenizer.json", "tokenizer_config.json", "corpus.tokens", "training.json"};

/// One process at a time begins or trains in a directory.
io::FileLock lock_of(const std::string& directory) {
  return {directory, fmt::format("'{}': another process trains in this directory", directory)};
}

/// Refuses a directory with files that training would write over, or that a reader would take for its own. What a
/// beginning that was stopped has left is made again.
void check_unused(const std::string& directory) {
  check(!io::exists(facts_path(directory)), ErrorCode::usage,
        "'{}' holds a training already; '--resume' goes on with it, another directory begins anew", directory);
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    std::string name = entry.path().filename().string();
    if (name.ends_with(".part")) name.resize(name.size() - 5);
    check(std::find(std::begin(kDataFiles), std::end(kDataFiles), name) != std::end(kDataFiles), ErrorCode::usage,
          "'{}' holds '{}', which is no training's beginning; expected a new or an empty directory", directory,
          entry.path().filename().string());
  }
  check(!error, ErrorCode::io, "the directory '{}' cannot be read: {}", directory, error.message());
}

/// The config of the model with what follows from the data. Error{format} where it says something else.
Json completed(Json model, const std::string& path, Index vocabulary, Index context, TokenId bos) {
  const auto fill = [&](const char* key, Index value, const char* of) {
    if (!model.contains(key) || model[key].is_null()) model[key] = value;
    check(model[key].is_number_integer() && model[key].get<Index>() >= value, ErrorCode::format,
          "'{}': model.{} is {}, but {} has {}", path, key, model[key].dump(), of, value);
  };
  const bool lens = !model.contains("model_type");
  fill(lens ? "d_vocab" : "vocab_size", vocabulary, "the vocabulary");
  if (lens) fill("n_ctx", context, "a sequence");
  if (lens && !model.contains("default_prepend_bos")) model["default_prepend_bos"] = true;
  for (const char* key : {"bos_token_id", "eos_token_id"})  // transformers has its own defaults, of other vocabularies
    if (!lens && !model.contains(key)) model[key] = bos;
  return model;
}

/// Refuses what no model can be, and options that do not fit it.
void check_model(const Json& model, const std::string& path, Index context, const TrainingOptions& options) {
  const ModelFormat format(model, path);
  const Index longest = format.config().n_ctx;
  check(longest == 0 || longest >= context, ErrorCode::format,
        "'{}': the model reads {} tokens at once, but a sequence has {}", path, longest, context);
  const Parameters trial(format, options);
}

/// The bits of a sum, so that a state holds it exactly.
std::string bits_of(double value) { return fmt::format("{:016x}", std::bit_cast<std::uint64_t>(value)); }

/// What save() has noted in a state beside the trainer's own.
class Notes {
 public:
  Notes(const std::map<std::string, std::string>& notes, const std::string& path) : notes_(notes), path_(path) {}

  const std::string& text(const char* key) const {
    const auto found = notes_.find(key);
    check(found != notes_.end(), ErrorCode::format, "'{}': no '{}' in __metadata__", path_, key);
    return found->second;
  }
  std::uint64_t number(const char* key, int base) const {
    const std::string& digits = text(key);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    check(error == std::errc() && end == digits.data() + digits.size(), ErrorCode::format,
          "'{}': '{}' in __metadata__ is '{}', expected a whole number", path_, key, digits);
    return value;
  }

 private:
  const std::map<std::string, std::string>& notes_;
  const std::string& path_;
};

}  // namespace

void begin_run(const TrainingSetup& setup, const Progress& progress) {
  const std::string &directory = setup.directory, &path = setup.config.path;
  TrainingOptions options = setup.config.training;
  options.validate();
  // Before minutes go into the data. What the model takes from them is 1 token and 2 positions here.
  check_model(completed(setup.config.model, path, 1, 2, 0), path, 2, options);
  io::make_directories(directory);
  const io::FileLock lock = lock_of(directory);
  check_unused(directory);
  const DataFiles files = prepare_data(setup.config, setup.data, directory, progress);
  const Json model = completed(setup.config.model, path, files.vocabulary, files.context, files.bos);
  options.context = files.context;
  check_model(model, path, files.context, options);
  const Json facts = {{"schema", "kirchhoff.training"},
                      {"version", 1},
                      {"model", model},
                      {"data", files.facts},
                      {"licence", setup.licence},
                      {"training", to_json(options)},
                      {"command", setup.command}};
  io::write_whole_file(facts_path(directory), facts.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

TrainingRun::TrainingRun(const std::string& directory) : directory_(directory) {
  const std::string path = facts_path(directory);
  check(io::exists(path), ErrorCode::not_found, "'{}' holds no training: there is no training.json", directory);
  lock_ = lock_of(directory);
  facts_ = io::read_json_file(path, {.object_at_top = true});
  for (const char* key : {"model", "data", "training"})
    check(facts_.contains(key) && facts_[key].is_object(), ErrorCode::format, "'{}': key '{}' is missing", path, key);
  Json config = {{"model", facts_["model"]}, {"training", facts_["training"]}};
  if (facts_["data"].contains("task")) config["task"] = facts_["data"]["task"];
  config_ = parse_training_config(config, path);
  data_ = open_data(config_, directory);
  trainer_.emplace(ModelFormat(config_.model, path), config_.training, data_.batches);
  if (io::exists(state_path(directory))) {
    const std::string state = state_path(directory);
    const std::map<std::string, std::string> metadata = trainer_->restore(state);
    const Notes notes(metadata, state);
    check(notes.text("run") == facts_.dump(), ErrorCode::format,
          "'{}' is the state of another run than training.json describes", state);
    loss_sum_ = std::bit_cast<double>(notes.number("loss_sum", 16));
    loss_count_ = static_cast<Index>(notes.number("loss_count", 10));
    check(io::exists(history_path(directory)), ErrorCode::not_found,
          "'{}' is missing: expected what was measured up to step {}", history_path(directory), trainer_->step());
    truncate_history(history_path(directory), trainer_->step());
  } else {
    // The state is saved before the first step: without one, nothing else can be there but the first record.
    check(!io::exists(directory + "/checkpoints"), ErrorCode::not_found,
          "'{}' is missing, though there are checkpoints: expected the last saved state", state_path(directory));
    std::error_code ignored;
    fs::remove(history_path(directory), ignored);
    record(nullptr);
    save();
  }
  if (trainer_->step() == 0 && config_.training.checkpoints.at(0)) write_checkpoint();
}

bool TrainingRun::run(const RunLimits& limits, const Listener& listener) {
  check(limits.save_every >= 1, ErrorCode::usage, "save_every is {}, expected 1 or more", limits.save_every);
  const auto start = std::chrono::steady_clock::now();
  const TrainingOptions& options = trainer_->options();
  const auto limited = [&] {
    return (limits.until_step && trainer_->step() >= *limits.until_step) ||
           (limits.minutes > 0.0 && seconds_since(start) >= 60.0 * limits.minutes);
  };
  bool saved = true;
  while (!trainer_->done() && !limited()) {
    StepReport report;
    try {
      throw_if_interrupted();
      report = trainer_->advance();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::interrupted) throw;
      const InterruptShield shield;
      if (!saved) save();
      throw Error(ErrorCode::interrupted, fmt::format("interrupted after step {}", trainer_->step()),
                  fmt::format("'kirchhoff train --resume -o {}' goes on from there", directory_));
    }
    const InterruptShield shield;  // what belongs to this step is written with it
    loss_sum_ += report.loss;
    ++loss_count_;
    saved = false;
    const bool last = trainer_->done();
    if (last || options.evaluations.at(report.step)) record(&report);
    const bool checkpoint = last || options.checkpoints.at(report.step);
    if (checkpoint) write_checkpoint();
    if (last) finish();
    if (checkpoint || report.step % limits.save_every == 0) {
      save();
      saved = true;
    }
    if (listener) listener(report);
  }
  if (!saved) save();
  return trainer_->done();
}

void TrainingRun::record(const StepReport* report) {
  HistoryRecord entry{.step = trainer_->step()};
  if (report != nullptr) {
    entry.tokens = report->tokens;
    entry.loss = loss_sum_ / static_cast<double>(loss_count_);
    entry.learning_rate = report->learning_rate;
    entry.gradient_norm = report->gradient_norm;
  }
  entry.evaluation = evaluate(trainer_->model(), data_.held_out, {.bos = data_.bos});
  append_history(history_path(directory_), entry);
  loss_sum_ = 0.0;
  loss_count_ = 0;
}

/// The directory appears whole, with its weights: it is made beside its place and renamed. One that is there already
/// holds the same bits, from before a crash.
void TrainingRun::write_checkpoint() const {
  const std::string place = fmt::format("{}/checkpoints/{:08}", directory_, trainer_->step());
  if (io::exists(place)) return;
  const std::string part = place + ".part";
  std::error_code ignored;
  fs::remove_all(part, ignored);
  io::make_directories(part);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    place_file(directory_ + "/" + name, part + "/" + name);
  trainer_->parameters().write(part);
  std::error_code error;
  fs::rename(part, place, error);
  check(!error, ErrorCode::io, "'{}': cannot be renamed to '{}': {}", part, place, error.message());
}

void TrainingRun::save() const {
  trainer_->save(
      state_path(directory_),
      {{"run", facts_.dump()}, {"loss_sum", bits_of(loss_sum_)}, {"loss_count", std::to_string(loss_count_)}});
}

void TrainingRun::finish() const {
  trainer_->parameters().write(directory_);
  const History history = read_history(history_path(directory_));
  io::write_whole_file(directory_ + "/README.md", model_card(facts_, trainer_->parameters(), history));
}

}  // namespace kirchhoff::train
