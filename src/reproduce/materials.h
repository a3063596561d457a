#pragma once
#include <memory>    // for shared_ptr
#include <optional>  // for optional
#include <string>    // for string
#include <vector>    // for vector

#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/corpus.h"
#include "kirchhoff/reproduce/chain.h"
#include "kirchhoff/text/tokenizer.h"

// What all chains are made from: one text as tokens, and models that learned from it.

namespace kirchhoff::reproduce {

/// Sizes that all models of a chain share.
struct Scale {
  Index vocabulary = 3072, d_model = 192, heads = 6, context = 256;
  Index batch = 16;  ///< sequences of a step
  double learning_rate = 5e-3;
  train::LearningRateShape schedule = train::LearningRateShape::cosine;
  /// Of TrainingOptions: those of the presets where not said.
  std::optional<Index> sinusoid_features = std::nullopt;
  std::optional<double> sinusoid_amplitude = std::nullopt, repeated_passages = std::nullopt;
  Index document_stride = 1;  ///< every so many documents of the data are read
  Index held_out_every = 40;  ///< of these, one in so many is not trained on by any model
};

/// The scale at which induction heads of two and three layers form first, after six to ten million tokens
/// (docs/training.md): d_model 128, few kinds of tokens, a passage that comes again in every window. At a constant
/// rate, since one that falls would slow the phase change down while it goes on: what happens is the model's own.
Scale scale_of_early_induction();

/// An attention-only model with a name: "2l", "1l-smeared".
struct ModelKind {
  Index layers = 2;
  bool smeared = false;
  std::string name() const { return fmt::format("{}l{}", layers, smeared ? "-smeared" : ""); }
};

/// P1's kind of model at a chain's size (training_preset), with the course of its training.
train::TrainingConfig text_model(const Scale& scale, const ModelKind& kind, Index tokens, std::uint64_t seed);

/// Reads the documents of `data`, trains a tokenizer on those for training and writes corpus/corpus.tokens,
/// corpus/held-out.tokens and the tokenizer's files. Documents are held out whole, so that what is measured on them is
/// new to every model whatever its seed.
Stage corpus_stage(const std::vector<std::string>& data, const Scale& scale);
/// "corpus".
extern const char* const kCorpusStage;

/// Trains a model in runs/NAME; result: {"model", "directory", "layers", "parameters", "steps", "tokens", "seed",
/// "loss", "sha256"}. Named train/NAME.
Stage training_stage(const std::string& name, const train::TrainingConfig& config, double minutes);
std::string model_directory(const StageRun& run, const std::string& name);

/// A model as analyses want it.
struct Subject {
  Model model;
  std::shared_ptr<const text::Tokenizer> tokenizer;
  TokenNames names() const { return {tokenizer.get()}; }
};
Subject open_subject(const std::string& directory);

/// BOS and context - 1 tokens each, `count` windows spread evenly over the held-out text (all, if there are fewer).
std::vector<Tokens> held_out_windows(const StageRun& run, Index context, Index count);
/// All tokens of the training or the held-out text as one window.
TokenCorpus whole_text(const StageRun& run, bool held_out);
/// All token ids but BOS's: what random sequences are drawn from.
std::vector<TokenId> ordinary_tokens(Index vocabulary);

}  // namespace kirchhoff::reproduce
