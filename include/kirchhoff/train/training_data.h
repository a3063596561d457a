#pragma once
#include <optional>  // for optional
#include <string>    // for string
#include <vector>    // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/train/evaluation.h"
#include "kirchhoff/train/trainer.h"
#include "kirchhoff/train/training_config.h"

namespace kirchhoff::train {

/// What a run learns from.
struct TrainingData {
  BatchSource batches;
  HeldOut held_out;
  Index context = 0;  ///< tokens of every sequence
  Index vocabulary = 0;
  Index epoch_tokens = 0;  ///< read in one pass over the text; 0: a task, which has no end
  std::optional<TokenId> bos{};
};

/// The files that a run's data make in its directory: `tokenizer.json`, `tokenizer_config.json` and, of text,
/// `corpus.tokens` (train/token_file.h).
struct DataFiles {
  Json facts;  ///< of training.json: what was read, by path, size and hash; of a task its name and sizes
  Index vocabulary = 0, context = 0;
  TokenId bos = 0;  ///< before every sequence, and between the documents of a text
};

/// Writes them. Of text: trains the tokenizer unless the config names one, and tokenises. A token file made before may
/// stand for text: its tokenizer must be beside it, and both are linked.
/// Errors: usage (text and a task, or neither); not_found, io, format (the files).
DataFiles prepare_data(const TrainingConfig& config, const std::vector<std::string>& paths,
                       const std::string& directory, const Progress& progress = {});

/// Opens what prepare_data has made.
TrainingData open_data(const TrainingConfig& config, const std::string& directory);

}  // namespace kirchhoff::train
