#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "kirchhoff/base/random.h"
#include "kirchhoff/train/trainer.h"

namespace kirchhoff::train::test {

/// A folder that goes away.
struct TemporaryFolder {
  explicit TemporaryFolder(const std::string& name)
      : path((std::filesystem::temp_directory_path() / ("kirchhoff-" + name + "-" + std::to_string(::getpid())))
                 .string()) {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  std::string operator/(const std::string& name) const { return path + "/" + name; }
  std::string path;
};

inline Json lens_config(Index layers, Index d_model = 32, Index vocabulary = 29) {
  return {{"n_layers", layers},
          {"d_model", d_model},
          {"n_heads", 4},
          {"d_head", d_model / 4},
          {"n_ctx", 24},
          {"d_vocab", vocabulary},
          {"attn_only", true},
          {"act_fn", nullptr},
          {"normalization_type", "LN"},
          {"positional_embedding_type", "shortformer"}};
}

/// Sequences in which something can be learnt: the second half repeats the first.
inline BatchSource repeats(Index vocabulary, Index count, Index length) {
  return [=](Index step) {
    Batch batch;
    Random random(static_cast<std::uint64_t>(step) * 1000003U);
    for (Index s = 0; s < count; ++s) {
      Tokens tokens;
      for (Index i = 0; i < length; ++i)
        tokens.push_back(i < length / 2 ? static_cast<TokenId>(random.below(vocabulary))
                                        : tokens[static_cast<std::size_t>(i - length / 2)]);
      batch.sequences.push_back(std::move(tokens));
    }
    return batch;
  };
}

inline TrainingOptions short_run(Index steps = 20) {
  TrainingOptions options;
  options.steps = steps;
  options.batch = 6;
  options.context = 24;
  options.micro_batch = 4;
  options.learning_rate = 3e-3;
  options.weight_decay = 0.1;
  options.clip = 0.5;
  options.warmup = 5;
  options.seed = 3;
  return options;
}

}  // namespace kirchhoff::train::test
