#pragma once
#include <optional>  // for optional
#include <span>      // for span
#include <string>    // for string

#include "kirchhoff/observe/tuned_lens.h"
#include "kirchhoff/study/result_json.h"

namespace kirchhoff {

/// Reads the public format: a directory with config.json (base_model_name_or_path, d_model, num_hidden_layers, bias,
/// lens_type "linear_tuned_lens") and params.pt, or params.safetensors with the same names: "L.weight" [d_model,
/// d_model] and "L.bias" [d_model] of every layer L, as torch's Linear has them. Errors: not_found, io; format and
/// unsupported, naming the file and the key or tensor.
TunedLens read_tuned_lens(const std::string& directory);

/// Writes config.json and params.safetensors, each whole or not at all, into a directory that is made if need be.
/// Errors: io.
void write_tuned_lens(const std::string& directory, const TunedLens& lens);

/// What a training has to have in common with the one that it continues: the options and these.
struct TunedLensRun {
  TunedLensTraining options;
  std::string model;          ///< the weights' fingerprint
  std::uint64_t windows = 0;  ///< hash_windows of the text
};
std::uint64_t hash_windows(std::span<const Tokens> windows);

/// training.safetensors beside the lens: translators, their velocities and the step, whole or not at all.
void write_training_state(const std::string& directory, const TunedLensTrainer& trainer, const TunedLensRun& run);
/// Restores a trainer to it. Returns false if there is none. Errors: usage, naming what differs from `run`; as
/// read_tuned_lens.
bool read_training_state(const std::string& directory, TunedLensTrainer& trainer, const TunedLensRun& run);

}  // namespace kirchhoff
