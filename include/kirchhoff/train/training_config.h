#pragma once
#include <nlohmann/json.hpp>

#include <array>        // for array
#include <cstdint>      // for uint64_t
#include <optional>     // for optional
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "kirchhoff/base/types.h"

namespace kirchhoff::train {

using Json = nlohmann::ordered_json;

/// When something happens that happens now and then: at the steps listed, every so many, and so many times in each
/// doubling of the step (at the whole numbers nearest to 2^(k / per_doubling), as P2's checkpoints lie). 0: never.
struct Moments {
  std::vector<Index> steps{};
  Index every = 0, per_doubling = 0;

  bool at(Index step) const;
};

enum class LearningRateShape {
  constant,
  cosine,  ///< falls along half a cosine to `final_fraction` of the peak
};

/// How a model is trained. Everything that decides about its bits is here or in the model's config; thread counts are
/// not.
struct TrainingOptions {
  Index steps = 1000;
  Index batch = 32;        ///< sequences of a step
  Index context = 256;     ///< tokens of a sequence, BOS included; of tasks: theirs
  Index micro_batch = 0;   ///< sequences whose activations are held at once; 0: as many as fit about 1,024 tokens
  std::uint64_t seed = 0;  ///< of the initial weights and of the order of the text

  /// Of a text's training windows, the share in which a passage comes again. Text that was rid of its duplicates
  /// repeats itself less than others do, and repetition is what induction heads form for.
  double repeated_passages = 0.0;
  double held_out_passages = 0.0;  ///< the same of the windows that are measured on

  // AdamW (Loshchilov & Hutter 2019, as torch.optim.AdamW does it)
  double learning_rate = 1e-3;  ///< at its peak
  std::array<double, 2> betas{0.9, 0.95};
  double epsilon = 1e-8;
  double weight_decay = 0.01;  ///< of matrices; biases, gains and smears have none
  double clip = 1.0;           ///< largest norm of the whole gradient; 0: none

  // Its course
  LearningRateShape shape = LearningRateShape::cosine;
  Index warmup = 100;  ///< steps of linear growth
  double final_fraction = 0.1;

  // The initial weights: normal with this standard deviation, those that write to the stream divided by the square root
  // of the number of sublayers (GPT-2); gains 1, biases 0.
  double init_deviation = 0.0;       ///< 0: 0.8 / sqrt(d_model), TransformerLens's
  double embedding_deviation = 0.0;  ///< of W_E; 0: as the others
  bool biases = true;                ///< false: all biases stay 0, those of norms too
  double sinusoid_base = 10000.0;    ///< the slowest of the sinusoids turns this much slower than the fastest
  double sinusoid_frequency = 1.0;   ///< of the fastest, in radians a position (Vaswani et al.: 1)
  double sinusoid_amplitude = 1.0;   ///< of what is added to normalised token vectors, whose entries have variance 1
  Index sinusoid_features = 0;       ///< of the d_model entries, the first so many hold sinusoids, the others 0; 0: all
  bool sinusoidal = false;  ///< W_pos holds sinusoids (Vaswani et al. 2017) that are not trained, as P1 has them

  Moments checkpoints{};  ///< the last step is one in any case
  Moments evaluations{};  ///< so it is here, and step 0

  /// Error{usage} if a number is out of range, naming its key.
  void validate() const;
  /// The learning rate of step 1, 2, ..., `steps`.
  double learning_rate_at(Index step) const;
};

/// A run as a file describes it: {"model": {...}, "tokenizer": {...} or "task": {...}, "training": {...}}.
struct TrainingConfig {
  std::string path;  ///< for messages
  /// In TransformerLens's names (or a Hugging Face config.json): saved with the weights. d_vocab and n_ctx may be left
  /// out, they follow from tokenizer or task.
  Json model;
  std::optional<Index> vocabulary;            ///< tokenizer: {"vocabulary": N}: trained on the text
  std::optional<std::string> tokenizer_file;  ///< tokenizer: {"file": PATH}
  Json task;                                  ///< {"name": ..., options}; null for text
  TrainingOptions training;
};

/// Errors: format (unknown keys, values out of range: file, key and what was expected), io, not_found.
TrainingConfig parse_training_config(const Json& json, const std::string& path);
TrainingConfig read_training_config(const std::string& path);
/// The same facts as JSON: what training.json holds.
Json to_json(const TrainingOptions& options);

/// Ready-made configs: "attn-only-0l" ... "attn-only-3l", "smeared-1l", "mlp-2l", "repeated-tokens-2l", ...
/// Error{usage} listing the names for any other.
TrainingConfig training_preset(std::string_view name);
std::vector<std::string> training_preset_names();

}  // namespace kirchhoff::train
