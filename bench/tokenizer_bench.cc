// Loading vocabularies and encoding text, bytes per second on one core. The files are not part of the repository; where
// they are absent, the benchmark says so and measures nothing.
#include <benchmark/benchmark.h>

#include <cstdlib>     // for getenv
#include <filesystem>  // for exists, path
#include <fstream>     // for ifstream
#include <iterator>    // for istreambuf_iterator
#include <optional>    // for optional
#include <string>      // for string

#include "kirchhoff/io/model_files.h"
#include "kirchhoff/model/tokenizer.h"
#include "kirchhoff/text/tokenizer.h"

namespace {

using kirchhoff::text::Tokenizer;

std::filesystem::path shared_data() {
  const char* folder = std::getenv("KIRCHHOFF_SHARED");
  return folder != nullptr ? folder : KIRCHHOFF_SOURCE_DIR "/../shared";
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<std::string> content(benchmark::State& state, const std::filesystem::path& path) {
  if (std::filesystem::exists(path)) return read_file(path);
  state.SkipWithError(("no " + path.string()).c_str());
  return std::nullopt;
}

const std::filesystem::path kGpt2 = "data/tokenizers/gpt2/gpt2_tokenizer.json";

void load_gpt2_json(benchmark::State& state) {
  const auto json = content(state, shared_data() / kGpt2);
  for (auto _ : state) benchmark::DoNotOptimize(kirchhoff::text::make_tokenizer(*json, "tokenizer.json"));
}
BENCHMARK(load_gpt2_json)->Unit(benchmark::kMillisecond);

void load_gguf(benchmark::State& state, const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return state.SkipWithError(("no " + path.string()).c_str());
  const kirchhoff::io::ModelFiles files = kirchhoff::io::open_model_files(path.string(), {.weights = false});
  for (auto _ : state) benchmark::DoNotOptimize(kirchhoff::make_tokenizer(files));
}
BENCHMARK_CAPTURE(load_gguf, smollm2, KIRCHHOFF_SOURCE_DIR "/models/smollm2-135m-instruct-q4_1.gguf")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load_gguf, gemma3, KIRCHHOFF_SOURCE_DIR "/models/gemma3-270m-q4_k_m.gguf")
    ->Unit(benchmark::kMillisecond);

void encode(benchmark::State& state, const Tokenizer& tokenizer, const std::string& text) {
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer.encode(text));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(text.size()));
}

void encode_prose(benchmark::State& state, const std::filesystem::path& vocabulary) {
  const std::filesystem::path path = shared_data() / vocabulary;
  const auto text = content(state, shared_data() / "data/corpora/wikitext-2.valid.txt");
  if (!text || !std::filesystem::exists(path)) return state.SkipWithError(("no " + path.string()).c_str());
  const bool is_json = path.extension() == ".json";
  const auto tokenizer =
      is_json ? kirchhoff::text::make_tokenizer(read_file(path), path.string())
              : kirchhoff::make_tokenizer(kirchhoff::io::open_model_files(path.string(), {.weights = false}));
  encode(state, *tokenizer, *text);
}
BENCHMARK_CAPTURE(encode_prose, gpt2, kGpt2)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode_prose, llama3, "golden-tokenizers/llama3/tokenizer.json")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode_prose, qwen2_nfc, "golden-tokenizers/qwen2/tokenizer.json")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode_prose, llama2, "golden-tokenizers/llama2/tokenizer.json")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode_prose, sentence_piece, "data/tokenizers/gguf-vocab/ggml-vocab-llama-spm.gguf")
    ->Unit(benchmark::kMillisecond);

/// The time of one word must grow in proportion to its length.
void encode_one_word(benchmark::State& state) {
  const auto json = content(state, shared_data() / kGpt2);
  if (!json) return;
  encode(state, *kirchhoff::text::make_tokenizer(*json, "tokenizer.json"),
         std::string(static_cast<std::size_t>(state.range(0)), 'a'));
}
BENCHMARK(encode_one_word)->Arg(1000)->Arg(100'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

}  // namespace
