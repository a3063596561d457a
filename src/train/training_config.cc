#include "kirchhoff/train/training_config.h"

#include <algorithm>  // for find, min
#include <cmath>      // for cos, exp2, isfinite, log2, round
#include <numbers>    // for pi

#include "kirchhoff/base/error.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/model/config_reader.h"

namespace kirchhoff::train {
namespace {

constexpr Index kMaxSteps = Index{1} << 40;
constexpr Index kMaxTokens = Index{1} << 24;

Moments read_moments(ConfigReader& parent, std::string_view key) {
  Moments moments;
  if (!parent.has(key)) return moments;
  ConfigReader reader = parent.object(key);
  moments.every = reader.count_or("every", 0, kMaxSteps);
  moments.per_doubling = reader.count_or("per_doubling", 0, 64);
  if (reader.has("steps")) {
    const Json& steps = reader.value("steps");
    if (!steps.is_array()) reader.bad_value("steps", "a list of steps");
    for (const Json& step : steps) {
      if (!step.is_number_integer() || step.get<Index>() < 0) reader.bad_value("steps", "a list of steps from 0");
      moments.steps.push_back(step.get<Index>());
    }
  }
  reader.finish();
  return moments;
}

std::array<double, 2> read_betas(ConfigReader& reader, std::array<double, 2> fallback) {
  if (!reader.has("betas")) return fallback;
  const Json& betas = reader.value("betas");
  if (!betas.is_array() || betas.size() != 2 || !betas[0].is_number() || !betas[1].is_number())
    reader.bad_value("betas", "two numbers from 0 to below 1");
  return {betas[0].get<double>(), betas[1].get<double>()};
}

TrainingOptions read_options(ConfigReader& reader) {
  TrainingOptions o;
  o.steps = reader.count_or("steps", o.steps, kMaxSteps);
  o.batch = reader.count_or("batch", o.batch, kMaxTokens);
  o.context = reader.count_or("context", o.context, kMaxTokens);
  o.micro_batch = reader.count_or("micro_batch", o.micro_batch, kMaxTokens);
  const double seed = reader.number_or("seed", 0.0);
  if (seed < 0.0 || seed != std::floor(seed) || seed > 0x1p53) reader.bad_value("seed", "a whole number from 0");
  o.seed = static_cast<std::uint64_t>(seed);
  o.learning_rate = reader.positive_or("learning_rate", o.learning_rate);
  o.betas = read_betas(reader, o.betas);
  o.epsilon = reader.positive_or("epsilon", o.epsilon);
  o.weight_decay = reader.number_or("weight_decay", o.weight_decay);
  o.clip = reader.number_or("clip", o.clip);
  const std::string shape = reader.text_or("schedule", "cosine");
  if (shape != "cosine" && shape != "constant") reader.bad_value("schedule", "cosine or constant");
  o.shape = shape == "cosine" ? LearningRateShape::cosine : LearningRateShape::constant;
  if (reader.has("warmup") && reader.number("warmup") == 0.0)
    o.warmup = 0;
  else
    o.warmup = reader.count_or("warmup", o.warmup, kMaxSteps);
  o.final_fraction = reader.number_or("final_fraction", o.final_fraction);
  o.init_deviation = reader.number_or("init_deviation", o.init_deviation);
  o.embedding_deviation = reader.number_or("embedding_deviation", o.embedding_deviation);
  o.biases = reader.boolean_or("biases", o.biases);
  o.sinusoidal = reader.boolean_or("sinusoidal", o.sinusoidal);
  o.sinusoid_base = reader.positive_or("sinusoid_base", o.sinusoid_base);
  o.sinusoid_frequency = reader.positive_or("sinusoid_frequency", o.sinusoid_frequency);
  o.sinusoid_amplitude = reader.positive_or("sinusoid_amplitude", o.sinusoid_amplitude);
  o.sinusoid_features = reader.count_or("sinusoid_features", o.sinusoid_features, kMaxSteps);
  o.repeated_passages = reader.number_or("repeated_passages", o.repeated_passages);
  o.held_out_passages = reader.number_or("held_out_passages", o.held_out_passages);
  o.checkpoints = read_moments(reader, "checkpoints");
  o.evaluations = read_moments(reader, "evaluations");
  reader.finish();
  return o;
}

Json to_json(const Moments& moments) {
  Json json = Json::object();
  if (moments.every > 0) json["every"] = moments.every;
  if (moments.per_doubling > 0) json["per_doubling"] = moments.per_doubling;
  if (!moments.steps.empty()) json["steps"] = moments.steps;
  return json;
}

void in_range(const char* key, double value, double low, double high) {
  check(std::isfinite(value) && value >= low && value <= high, ErrorCode::usage,
        "training: {} is {}, expected between {} and {}", key, value, low, high);
}

}  // namespace

bool Moments::at(Index step) const {
  if (std::find(steps.begin(), steps.end(), step) != steps.end()) return true;
  if (step <= 0) return false;
  if (every > 0 && step % every == 0) return true;
  if (per_doubling <= 0) return false;
  const auto per = static_cast<double>(per_doubling);
  const double k = std::round(std::log2(static_cast<double>(step)) * per);
  return static_cast<Index>(std::round(std::exp2(k / per))) == step;
}

void TrainingOptions::validate() const {
  check(steps >= 1 && batch >= 1 && context >= 2 && micro_batch >= 0 && warmup >= 0, ErrorCode::usage,
        "training: steps {} and batch {} must be 1 or more, context {} 2 or more, micro_batch {} and warmup {} 0 or "
        "more",
        steps, batch, context, micro_batch, warmup);
  in_range("learning_rate", learning_rate, 1e-12, 100.0);
  for (const double beta : betas) in_range("betas", beta, 0.0, 1.0 - 1e-9);
  in_range("epsilon", epsilon, 1e-30, 1.0);
  in_range("weight_decay", weight_decay, 0.0, 10.0);
  in_range("clip", clip, 0.0, 1e9);
  in_range("final_fraction", final_fraction, 0.0, 1.0);
  in_range("sinusoid_base", sinusoid_base, 1.0, 1e12);
  in_range("sinusoid_frequency", sinusoid_frequency, 1e-6, 3.2);
  in_range("sinusoid_amplitude", sinusoid_amplitude, 1e-6, 1e6);
  in_range("repeated_passages", repeated_passages, 0.0, 1.0);
  in_range("held_out_passages", held_out_passages, 0.0, 1.0);
  in_range("init_deviation", init_deviation, 0.0, 10.0);
  in_range("embedding_deviation", embedding_deviation, 0.0, 100.0);
}

double TrainingOptions::learning_rate_at(Index step) const {
  if (step <= warmup) return learning_rate * static_cast<double>(step) / static_cast<double>(warmup);
  if (shape == LearningRateShape::constant || steps <= warmup) return learning_rate;
  const double done = std::min(1.0, static_cast<double>(step - warmup) / static_cast<double>(steps - warmup));
  return learning_rate * (final_fraction + (1.0 - final_fraction) * 0.5 * (1.0 + std::cos(std::numbers::pi * done)));
}

TrainingConfig parse_training_config(const Json& json, const std::string& path) {
  TrainingConfig config;
  config.path = path;
  ConfigReader reader(json, path);
  check(json.is_object() && json.contains("model") && json["model"].is_object(), ErrorCode::format,
        "'{}': key 'model' is missing: an object with n_layers, d_model, ... in TransformerLens's names", path);
  config.model = reader.value("model");
  if (reader.has("task")) {
    config.task = reader.value("task");
    check(config.task.is_object() && config.task.contains("name") && config.task["name"].is_string(), ErrorCode::format,
          "'{}': key 'task' has no name", path);
    check(!reader.has("tokenizer"), ErrorCode::format,
          "'{}': a task has its own vocabulary: no 'tokenizer' beside 'task'", path);
  }
  if (reader.has("tokenizer")) {
    ConfigReader tokenizer = reader.object("tokenizer");
    if (tokenizer.has("file")) config.tokenizer_file = tokenizer.text("file");
    if (tokenizer.has("vocabulary")) config.vocabulary = tokenizer.count("vocabulary", kMaxVocabulary);
    check(config.tokenizer_file.has_value() != config.vocabulary.has_value(), ErrorCode::format,
          "'{}': tokenizer: expected either 'vocabulary' (how many tokens to train) or 'file'", path);
    tokenizer.finish();
  }
  if (reader.has("training")) {
    ConfigReader training = reader.object("training");
    config.training = read_options(training);
  }
  reader.finish();
  config.training.validate();
  return config;
}

TrainingConfig read_training_config(const std::string& path) {
  return parse_training_config(io::read_json_file(path, {.object_at_top = true}), path);
}

Json to_json(const TrainingOptions& o) {
  Json json = {{"steps", o.steps},
               {"batch", o.batch},
               {"context", o.context},
               {"seed", o.seed},
               {"learning_rate", o.learning_rate},
               {"betas", o.betas},
               {"epsilon", o.epsilon},
               {"weight_decay", o.weight_decay},
               {"clip", o.clip},
               {"schedule", o.shape == LearningRateShape::cosine ? "cosine" : "constant"},
               {"warmup", o.warmup},
               {"final_fraction", o.final_fraction},
               {"init_deviation", o.init_deviation},
               {"embedding_deviation", o.embedding_deviation},
               {"biases", o.biases},
               {"sinusoidal", o.sinusoidal},
               {"sinusoid_base", o.sinusoid_base},
               {"sinusoid_frequency", o.sinusoid_frequency},
               {"sinusoid_amplitude", o.sinusoid_amplitude},
               {"repeated_passages", o.repeated_passages},
               {"checkpoints", to_json(o.checkpoints)},
               {"evaluations", to_json(o.evaluations)}};
  if (o.held_out_passages > 0.0) json["held_out_passages"] = o.held_out_passages;
  if (o.sinusoid_features > 0) json["sinusoid_features"] = o.sinusoid_features;
  if (o.micro_batch > 0) json["micro_batch"] = o.micro_batch;
  return json;
}

}  // namespace kirchhoff::train
