#include "reproduce/materials.h"

#include <algorithm>   // for min
#include <filesystem>  // for remove_all, create_directories

#include "kirchhoff/base/error.h"
#include "kirchhoff/io/directory.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/io/whole_file.h"
#include "kirchhoff/model/load.h"
#include "kirchhoff/model/tokenizer.h"
#include "kirchhoff/text/bpe_trainer.h"
#include "kirchhoff/train/token_file.h"

namespace kirchhoff::reproduce {
namespace {

namespace fs = std::filesystem;

const char* const kHeldOut = "held-out.tokens";
const char* const kTraining = "corpus.tokens";

std::string corpus_file(const std::string& directory, const char* name) {
  return fmt::format("{}/corpus/{}", directory, name);
}

/// An empty directory.
void make_anew(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) fs::create_directories(path, error);
  check(!error, ErrorCode::io, "cannot make the directory '{}': {}", path, error.message());
}

/// The documents that a chain reads, apart.
struct SplitText {
  std::string training, held_out;
  Index documents = 0, held_out_documents = 0;
};

SplitText split_text(const std::vector<std::string>& data, const Scale& scale) {
  SplitText split;
  Index seen = 0;
  for (const std::string& path : data) {
    const io::FileBytes file = io::map_file(path);
    for (const std::string_view document : text::split_documents(file.text())) {
      if (seen++ % scale.document_stride != 0) continue;
      // From the middle of each run of documents: the first of a text is often its title page.
      const bool held = split.documents % scale.held_out_every == scale.held_out_every / 2;
      std::string& text = held ? split.held_out : split.training;
      text += fmt::format("{}\n{}\n", document, text::kEndOfText);
      ++split.documents;
      if (held) ++split.held_out_documents;
    }
  }
  check(split.held_out_documents > 0, ErrorCode::usage,
        "the data holds {} documents of those that are read, one of {} is held out: expected at least {}",
        split.documents, scale.held_out_every, scale.held_out_every / 2 + 1);
  return split;
}

std::shared_ptr<const text::Tokenizer> tokenizer_of(const std::string& directory) {
  const std::string path = directory + "/tokenizer.json";
  return text::make_tokenizer(std::string(io::map_file(path).text()), path,
                              io::read_json_file(directory + "/tokenizer_config.json"));
}

Json prepare_corpus(const StageRun& run, const std::vector<std::string>& data, const Scale& scale) {
  const std::string directory = run.directory + "/corpus";
  make_anew(directory);
  const std::string training = directory + "/training.txt", held_out = directory + "/held-out.txt";
  Json result;
  {
    const SplitText split = split_text(data, scale);
    io::write_whole_file(training, split.training);
    io::write_whole_file(held_out, split.held_out);
    result = {{"documents", split.documents},
              {"held_out_documents", split.held_out_documents},
              {"bytes", split.training.size() + split.held_out.size()}};
  }
  const train::DataFiles files =
      train::prepare_data(text_model(scale, {}, scale.batch * scale.context, 0), {training}, directory, run.progress);
  const train::TokenFileInfo held = train::write_token_file(corpus_file(run.directory, kHeldOut), {held_out},
                                                            *tokenizer_of(directory), {}, run.progress);
  result["vocabulary"] = files.vocabulary;
  result["vocabulary_sha256"] = held.tokenizer;
  result["tokens"] = train::TokenFile(corpus_file(run.directory, kTraining)).size();
  result["held_out_tokens"] = held.tokens;
  result["sha256"] = file_hash(corpus_file(run.directory, kTraining));
  std::error_code ignored;  // the tokens are what everything reads
  fs::remove(training, ignored);
  fs::remove(held_out, ignored);
  return result;
}

/// What a training directory was begun for.
Json identity_of(const StageRun& run, const Json& settings) {
  return {{"settings", settings}, {"corpus", run.inputs.at(kCorpusStage)}};
}

/// Beside the directory, which is the training's alone, and there before it.
std::string identity_file(const std::string& directory) { return directory + ".json"; }

void begin_training(const StageRun& run, const std::string& directory, const train::TrainingConfig& config,
                    const Json& identity) {
  make_anew(directory);
  io::write_whole_file(identity_file(directory), identity.dump(1) + "\n");
  train::begin_run({.config = config,
                    .data = {corpus_file(run.directory, kTraining)},
                    .directory = directory,
                    .command = "kirchhoff reproduce",
                    .licence = {}},
                   run.progress);
}

std::optional<Json> train_model(const StageRun& run, const std::string& name, const train::TrainingConfig& config,
                                const Json& settings) {
  const std::string directory = model_directory(run, name);
  const Json identity = identity_of(run, settings);
  if (!io::exists(directory + "/training.json")) {
    begin_training(run, directory, config, identity);
  } else {
    const std::string path = identity_file(directory);
    check(io::exists(path) && io::read_json_file(path) == identity, ErrorCode::usage,
          "'{}' holds a training of other data or settings: choose another directory with '-o', or delete this one",
          directory);
  }
  train::TrainingRun training(directory);
  if (run.on_training) run.on_training(training.trainer());
  if (!training.run({.until_step = std::nullopt, .minutes = run.minutes}, run.on_step)) return std::nullopt;
  const train::History history = train::read_history(directory + "/history.jsonl");
  const train::HistoryRecord& last = history.records.back();
  return Json{{"model", name},
              {"directory", "runs/" + name},
              {"layers", training.trainer().model().config.n_layers},
              {"parameters", training.count()},
              {"steps", last.step},
              {"tokens", last.tokens},
              {"seed", config.training.seed},
              {"loss", last.evaluation ? Json(last.evaluation->loss.value) : Json(nullptr)},
              {"sha256", file_hash(directory + "/model.safetensors")}};
}

}  // namespace

const char* const kCorpusStage = "corpus";

Scale scale_of_early_induction() {
  return {.vocabulary = 1024,
          .d_model = 128,
          .heads = 4,
          .schedule = train::LearningRateShape::constant,
          .sinusoid_features = 32,
          .sinusoid_amplitude = 3.0,
          .repeated_passages = 1.0};
}

train::TrainingConfig text_model(const Scale& scale, const ModelKind& kind, Index tokens, std::uint64_t seed) {
  train::TrainingConfig config =
      train::training_preset(kind.smeared ? "smeared-1l" : fmt::format("attn-only-{}l", kind.layers));
  config.path = kind.name();
  config.vocabulary = scale.vocabulary;
  config.model["d_model"] = scale.d_model;
  config.model["n_heads"] = scale.heads;
  config.model["d_head"] = scale.d_model / scale.heads;
  train::TrainingOptions& training = config.training;
  training.context = scale.context;
  training.batch = scale.batch;
  training.steps = std::max<Index>(1, tokens / (scale.batch * scale.context));
  training.learning_rate = scale.learning_rate;
  training.shape = scale.schedule;
  training.warmup = std::min(training.warmup, training.steps / 10);
  training.sinusoid_features =
      std::min(scale.sinusoid_features.value_or(training.sinusoid_features), scale.d_model / 4 * 2);
  training.sinusoid_amplitude = scale.sinusoid_amplitude.value_or(training.sinusoid_amplitude);
  // The model without layers has none at any scale: nothing in it could tell.
  if (training.repeated_passages > 0.0)
    training.repeated_passages = scale.repeated_passages.value_or(training.repeated_passages);
  training.seed = seed;
  return config;
}

Stage corpus_stage(const std::vector<std::string>& data, const Scale& scale) {
  check(!data.empty(), ErrorCode::usage, "there is no text to learn from");
  Json sources = Json::array();
  for (const std::string& path : data)
    sources.push_back({{"name", fs::path(path).filename().string()},
                       {"bytes", fs::file_size(io::map_file(path).path)},
                       {"sha256", file_hash(path)}});
  return {.name = kCorpusStage,
          .summary = "documents held out, a tokenizer trained, the text as tokens",
          .settings = {{"files", sources},
                       {"vocabulary", scale.vocabulary},
                       {"document_stride", scale.document_stride},
                       {"held_out_every", scale.held_out_every}},
          .outputs = {"corpus/corpus.tokens", "corpus/held-out.tokens", "corpus/tokenizer.json"},
          .minutes = 0.2,
          .published = true,
          .run = [data, scale](const StageRun& run) { return prepare_corpus(run, data, scale); }};
}

Stage training_stage(const std::string& name, const train::TrainingConfig& config, double minutes) {
  const Json settings = {{"model", config.model}, {"training", train::to_json(config.training)}};
  return {.name = "train/" + name,
          .summary = fmt::format("{} steps of {}", config.training.steps, name),
          .inputs = {kCorpusStage},
          .settings = settings,
          .outputs = {fmt::format("runs/{}/model.safetensors", name), fmt::format("runs/{}/history.jsonl", name)},
          .minutes = minutes,
          .published = false,
          .run = [name, config, settings](const StageRun& run) { return train_model(run, name, config, settings); }};
}

std::string model_directory(const StageRun& run, const std::string& name) {
  return fmt::format("{}/runs/{}", run.directory, name);
}

Subject open_subject(const std::string& directory) {
  const io::ModelFiles files = io::open_model_files(directory);
  return {load_model(files), make_tokenizer(files)};
}

TokenCorpus whole_text(const StageRun& run, bool held_out) {
  const train::TokenFile file(corpus_file(run.directory, held_out ? kHeldOut : kTraining));
  return window_corpus(file.tokens(0, file.size()), {.context = file.size()}, file.path());
}

std::vector<Tokens> held_out_windows(const StageRun& run, Index context, Index count) {
  const train::TokenFile file(corpus_file(run.directory, kHeldOut));
  const TokenCorpus corpus =
      window_corpus(file.tokens(0, file.size()), {.context = context, .bos = file.info().separator}, file.path());
  const auto all = static_cast<Index>(corpus.windows.size());
  std::vector<Tokens> windows;
  for (Index i = 0; i < std::min(count, all); ++i)
    windows.push_back(corpus.windows[static_cast<std::size_t>(i * all / std::min(count, all))]);
  return windows;
}

std::vector<TokenId> ordinary_tokens(Index vocabulary) {
  std::vector<TokenId> tokens;
  for (TokenId id = 1; id < vocabulary; ++id) tokens.push_back(id);
  return tokens;
}

}  // namespace kirchhoff::reproduce
