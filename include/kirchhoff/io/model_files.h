#pragma once
#include <nlohmann/json.hpp>

#include <functional>  // for function
#include <optional>    // for optional
#include <string>      // for string

#include "kirchhoff/io/checkpoint.h"
#include "kirchhoff/io/gguf.h"

namespace kirchhoff::io {

/// What a model argument turned out to be, found from content, not from names' endings.
enum class ModelKind {
  hugging_face,      ///< a directory (or a snapshot in the Hub cache) with config.json and weights
  gguf,              ///< one GGUF file
  transformer_lens,  ///< a state dict with a TransformerLens config (tl_config.json, or a config with TL's keys)
  plain,             ///< bare tensors (.pt, .npz, safetensors, JSON, llama2.c) for which a layout description exists
};

/// Everything on disk that belongs to one model: parsed, checked, not interpreted.
struct ModelFiles {
  ModelKind kind{};
  std::string argument;                      ///< what the user typed
  std::string path;                          ///< the directory or file it resolved to
  nlohmann::ordered_json config;             ///< config.json / tl_config.json / a sidecar JSON; null for gguf
  std::string config_path;                   ///< for messages; empty if there is none
  nlohmann::ordered_json generation_config;  ///< null if absent
  nlohmann::ordered_json tokenizer_config;   ///< null if absent
  std::string tokenizer_path;                ///< tokenizer.json, or tok512.bin-like file; empty if there is none
  std::optional<GgufMetadata> gguf;          ///< for kind gguf
  Checkpoint checkpoint;
};

struct OpenOptions {
  bool weights = true;  ///< false: find and read everything but the tensors (for `tokens`, which needs none)
};

/// Opens a path (directory or file of any supported kind) or a Hub name ("openai-community/gpt2", resolved offline in
/// HF_HUB_CACHE, HF_HOME/hub or ~/.cache/huggingface/hub). Errors: not_found (with the one command that downloads a
/// missing Hub model), format, unsupported, io; each names the file and the tensor, key or offset.
ModelFiles open_model_files(const std::string& argument, const OpenOptions& options = {});

/// sha256 over the weights' files (in order of their names), hex; `progress`-free because it is fast (>= 1 GB/s with
/// SHA extensions is not assumed: call it only where provenance is asked for).
std::string content_hash(const ModelFiles& files);

/// A cheap stand-in for content_hash that every result can carry: sha256 over each weight file's size and 256 blocks of
/// 4 KiB spread evenly over it (all of it, if it is smaller than those). It tells files apart; it does not prove that
/// two files are equal.
std::string fingerprint(const ModelFiles& files);

}  // namespace kirchhoff::io
