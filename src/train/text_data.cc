#include "train/text_data.h"

#include <algorithm>   // for max, min
#include <filesystem>  // for path
#include <memory>      // for make_shared

#include "kirchhoff/base/error.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/io/mapped_file.h"
#include "kirchhoff/io/whole_file.h"
#include "kirchhoff/text/bpe_trainer.h"
#include "kirchhoff/train/repeated_passage.h"
#include "kirchhoff/train/sequence_seed.h"
#include "kirchhoff/train/token_file.h"
#include "kirchhoff/train/window_plan.h"
#include "train/place_file.h"

namespace kirchhoff::train {
namespace {

constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kTokenizerConfig = "tokenizer_config.json";
constexpr const char* kTokens = "corpus.tokens";

constexpr Index kPassageStream = 3;  // what a seed is used for: WindowPlan has 1 and 2

/// An evaluation looks at as many of the held-out windows as hold so many tokens.
constexpr Index kHeldOutTokens = 65536;

std::shared_ptr<const text::Tokenizer> read_tokenizer(const std::string& path) {
  const io::FileBytes file = io::map_file(path);
  const std::string config = (std::filesystem::path(path).parent_path() / kTokenizerConfig).string();
  std::error_code ignored;
  return text::make_tokenizer(std::string(file.text()), path,
                              std::filesystem::exists(config, ignored) ? io::read_json_file(config) : Json(nullptr));
}

void train_tokenizer(Index vocabulary, const std::vector<std::string>& paths, const std::string& directory,
                     const Progress& progress) {
  text::BpeTrainer trainer({.vocabulary_size = vocabulary});
  for (const std::string& path : paths) {
    const io::FileBytes file = io::map_file(path);
    trainer.add(text::split_documents(file.text()), progress);
  }
  const text::TokenizerFiles files = text::tokenizer_files(trainer.train(progress));
  io::write_whole_file(directory + "/" + kTokenizer, files.tokenizer_json);
  io::write_whole_file(directory + "/" + kTokenizerConfig, files.tokenizer_config_json);
}

/// Tokens and tokenizer that were made before, under this directory's names.
void link_tokens(const std::string& tokens, const std::string& directory) {
  const std::filesystem::path from = std::filesystem::path(tokens).parent_path();
  for (const char* name : {kTokenizer, kTokenizerConfig}) place_file((from / name).string(), directory + "/" + name);
  place_file(tokens, directory + "/" + kTokens);
}

Json facts_of(const TokenFileInfo& info) {
  Json files = Json::array();
  for (const TokenFileInfo::Source& source : info.sources)
    files.push_back({{"name", source.name}, {"bytes", source.bytes}, {"sha256", source.sha256}});
  return {{"files", files},
          {"vocabulary", info.vocabulary},
          {"vocabulary_sha256", info.tokenizer},
          {"tokens", info.tokens},
          {"documents", info.documents}};
}

/// [BOS] and the tokens of a window.
Tokens sequence_of(const TokenFile& file, const WindowPlan& plan, Index window) {
  Tokens tokens(static_cast<std::size_t>(plan.length() + 1));
  tokens[0] = file.info().separator;
  file.read(window * plan.length(), std::span(tokens).subspan(1));
  return tokens;
}

}  // namespace

DataFiles prepare_text(const TrainingConfig& config, const std::vector<std::string>& paths,
                       const std::string& directory, const Progress& progress) {
  check(!paths.empty(), ErrorCode::usage,
        "what is the model to read? '--data FILE' names a text, and there is no task");
  const std::string tokens = directory + "/" + kTokens;
  if (paths.size() == 1 && is_token_file(paths.front())) {
    check(!config.tokenizer_file, ErrorCode::usage, "'{}' holds tokens already: their tokenizer is the one beside it",
          paths.front());
    link_tokens(paths.front(), directory);
  } else {
    check(config.tokenizer_file || config.vocabulary, ErrorCode::usage,
          "'{}': key 'tokenizer' is missing: expected {{\"vocabulary\": N}} or {{\"file\": PATH}}", config.path);
    if (config.tokenizer_file) {
      const std::filesystem::path file(*config.tokenizer_file);
      place_file(file.string(), directory + "/" + kTokenizer);
      place_file((file.parent_path() / kTokenizerConfig).string(), directory + "/" + kTokenizerConfig);
    } else {
      train_tokenizer(*config.vocabulary, paths, directory, progress);
    }
    write_token_file(tokens, paths, *read_tokenizer(directory + "/" + kTokenizer), {}, progress);
  }
  const TokenFile file(tokens);
  file.check_tokenizer(*read_tokenizer(directory + "/" + kTokenizer), directory + "/" + kTokenizer);
  const WindowPlan plan(file.size(), {.context = config.training.context, .seed = config.training.seed});
  Json facts = facts_of(file.info());
  facts["epoch_tokens"] = plan.epoch_tokens();
  return {std::move(facts), file.info().vocabulary, config.training.context, file.info().separator};
}

TrainingData open_text(const TrainingConfig& config, const std::string& directory) {
  const auto file = std::make_shared<const TokenFile>(directory + "/" + kTokens);
  file->check_tokenizer(*read_tokenizer(directory + "/" + kTokenizer), directory + "/" + kTokenizer);
  const TrainingOptions& options = config.training;
  const WindowPlan plan(file->size(), {.context = options.context, .seed = options.seed});
  TrainingData data;
  data.context = options.context;
  data.vocabulary = file->info().vocabulary;
  data.epoch_tokens = plan.epoch_tokens();
  data.bos = file->info().separator;
  data.batches = [file, plan, options](Index step) {
    Batch batch;
    for (Index i = 0; i < options.batch; ++i) {
      Tokens& tokens = batch.sequences.emplace_back(sequence_of(*file, plan, plan.window_of(step, i, options.batch)));
      Random random(sequence_seed(options.seed, kPassageStream, (step - 1) * options.batch + i));
      if (random.uniform() < options.repeated_passages) repeat_passage(std::span(tokens).subspan(1), random);
    }
    return batch;
  };
  // Evenly over the held-out windows: they lie in runs, and a run is one text.
  const std::vector<Index>& held_out = plan.held_out();
  const auto wanted = static_cast<std::size_t>(std::max<Index>(64, kHeldOutTokens / options.context));
  const std::size_t count = std::min(held_out.size(), wanted);
  for (std::size_t i = 0; i < count; ++i)
    data.held_out.windows.push_back(sequence_of(*file, plan, held_out[i * held_out.size() / count]));
  repeat_passages(data.held_out.windows, options.held_out_passages);
  return data;
}

}  // namespace kirchhoff::train
