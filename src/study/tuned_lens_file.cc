#include "kirchhoff/study/tuned_lens_file.h"

#include <fmt/format.h>

#include "kirchhoff/io/directory.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/io/safetensors.h"
#include "kirchhoff/io/tensor_writer.h"
#include "kirchhoff/io/torch_file.h"
#include "kirchhoff/io/whole_file.h"

namespace kirchhoff {
namespace {

constexpr const char* kLensType = "linear_tuned_lens";

Index positive_of(const Json& config, const char* key, const std::string& path) {
  check(config.is_object() && config.contains(key) && config[key].is_number_integer() && config[key].get<Index>() > 0,
        ErrorCode::format, "'{}': key '{}' is missing or no positive number", path, key);
  return config[key].get<Index>();
}

/// A translator's tensor, which must have this shape.
Tensor tensor_of(const io::Checkpoint& checkpoint, const std::string& name, const Shape& shape) {
  const io::StoredTensor* stored = checkpoint.find(name);
  if (stored == nullptr) stored = checkpoint.find("layer_translators." + name);
  check(stored != nullptr, ErrorCode::format, "'{}' lacks the tensor '{}'", checkpoint.path, name);
  check(stored->shape == shape, ErrorCode::format, "'{}': tensor '{}' has shape {}, expected {}", checkpoint.path, name,
        bracketed(stored->shape), bracketed(shape));
  return io::decode(*stored);
}

/// Translators of `layers` layers; names begin with `prefix`.
TunedLens translators(const io::Checkpoint& checkpoint, const std::string& prefix, Index layers, Index d_model,
                      bool bias) {
  TunedLens lens;
  for (Index layer = 0; layer < layers; ++layer) {
    lens.W.push_back(tensor_of(checkpoint, fmt::format("{}{}.weight", prefix, layer), {d_model, d_model}));
    lens.b.push_back(bias ? tensor_of(checkpoint, fmt::format("{}{}.bias", prefix, layer), {d_model})
                          : Tensor(Shape{d_model}));
  }
  return lens;
}

void borrow(std::vector<io::StoredTensor>& tensors, const std::string& prefix, const TunedLens& lens) {
  for (std::size_t layer = 0; layer < lens.W.size(); ++layer) {
    tensors.push_back(io::borrowed(fmt::format("{}{}.weight", prefix, layer), lens.W[layer]));
    tensors.push_back(io::borrowed(fmt::format("{}{}.bias", prefix, layer), lens.b[layer]));
  }
}

Json run_json(const TunedLensRun& run) {
  const TunedLensTraining& options = run.options;
  return {{"steps", options.steps},
          {"step_tokens", options.step_tokens},
          {"learning_rate", options.learning_rate},
          {"momentum", options.momentum},
          {"weight_decay", options.weight_decay},
          {"clip", options.clip},
          {"seed", options.seed},
          {"model", run.model},
          {"windows", fmt::format("{:016x}", run.windows)}};
}

std::string state_path(const std::string& directory) { return directory + "/training.safetensors"; }

}  // namespace

TunedLens read_tuned_lens(const std::string& directory) {
  const std::string config_path = directory + "/config.json";
  const Json config = io::read_json_file(config_path);
  const Index d_model = positive_of(config, "d_model", config_path);
  const Index layers = positive_of(config, "num_hidden_layers", config_path);
  const std::string type = config.contains("lens_type") && config["lens_type"].is_string()
                               ? config["lens_type"].get<std::string>()
                               : std::string(kLensType);
  check(type == kLensType, ErrorCode::unsupported, "'{}': a lens of type '{}' (this reads '{}')", config_path, type,
        kLensType);
  const bool bias = !config.contains("bias") || config["bias"] != Json(false);
  const std::string torch = directory + "/params.pt", plain = directory + "/params.safetensors";
  TunedLens lens = io::exists(plain) || !io::exists(torch)
                       ? translators(io::read_safetensors(plain).checkpoint, "", layers, d_model, bias)
                       : translators(io::read_torch(torch).checkpoint, "", layers, d_model, bias);
  if (config.contains("base_model_name_or_path") && config["base_model_name_or_path"].is_string())
    lens.model = config["base_model_name_or_path"].get<std::string>();
  return lens;
}

void write_tuned_lens(const std::string& directory, const TunedLens& lens) {
  io::make_directories(directory);
  std::vector<io::StoredTensor> tensors;
  borrow(tensors, "", lens);
  io::write_safetensors(directory + "/params.safetensors", tensors);
  const Json config = {{"base_model_name_or_path", lens.model},
                       {"d_model", lens.b.empty() ? 0 : lens.b.front().dim(0)},
                       {"num_hidden_layers", lens.W.size()},
                       {"bias", true},
                       {"base_model_revision", nullptr},
                       {"unembed_hash", nullptr},
                       {"lens_type", kLensType}};
  io::write_whole_file(directory + "/config.json", config.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::uint64_t hash_windows(std::span<const Tokens> windows) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a over 64-bit words
  const auto add = [&hash](std::uint64_t word) { hash = (hash ^ word) * 0x100000001b3U; };
  for (const Tokens& window : windows) {
    add(window.size());
    for (const TokenId token : window) add(static_cast<std::uint32_t>(token));
  }
  return hash;
}

void write_training_state(const std::string& directory, const TunedLensTrainer& trainer, const TunedLensRun& run) {
  io::make_directories(directory);
  std::vector<io::StoredTensor> tensors;
  borrow(tensors, "", trainer.lens());
  borrow(tensors, "velocity.", trainer.velocity());
  io::write_safetensors(state_path(directory), tensors,
                        {{"run", run_json(run).dump()}, {"step", fmt::format("{}", trainer.step())}});
}

bool read_training_state(const std::string& directory, TunedLensTrainer& trainer, const TunedLensRun& run) {
  const std::string path = state_path(directory);
  if (!io::exists(path)) return false;
  const io::SafetensorsFile file = io::read_safetensors(path);
  const auto text = [&](const char* key) {
    const auto found = file.metadata.find(key);
    check(found != file.metadata.end(), ErrorCode::format, "'{}' has no '{}' among its metadata", path, key);
    return found->second;
  };
  const Json stored = io::parse_json(text("run"), path), own = run_json(run);
  for (const auto& [key, value] : own.items()) {
    check(stored.is_object() && stored.contains(key), ErrorCode::format, "'{}' does not say '{}'", path, key);
    check(stored[key] == value, ErrorCode::usage, "'{}' was trained with {} = {}, not {}: it cannot be continued so",
          path, key, stored[key].dump(), value.dump());
  }
  const Json step = io::parse_json(text("step"), path);
  check(step.is_number_integer() && step.get<Index>() >= 0 && step.get<Index>() <= run.options.steps, ErrorCode::format,
        "'{}': step {} of {}", path, step.dump(), run.options.steps);
  const auto layers = static_cast<Index>(trainer.lens().W.size());
  const Index d_model = trainer.lens().b.front().dim(0);
  trainer.restore(translators(file.checkpoint, "", layers, d_model, true),
                  translators(file.checkpoint, "velocity.", layers, d_model, true), step.get<Index>());
  return true;
}

}  // namespace kirchhoff
