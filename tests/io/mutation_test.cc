// Seeded mutations of small files through every parser: each must end in a value or an Error, without allocating by
// what a file only claims. The libFuzzer programs in fuzz/ call the same parsers.
#include <gtest/gtest.h>

#include <algorithm>  // for max
#include <atomic>     // for atomic
#include <new>        // for bad_alloc

#include "io/json_tensors.h"
#include "io/llama2c.h"
#include "io_test_support.h"
#include "kirchhoff/base/random.h"
#include "kirchhoff/io/gguf.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/io/numpy_file.h"
#include "kirchhoff/io/safetensors.h"
#include "kirchhoff/io/torch_file.h"

namespace {
std::atomic<std::size_t> g_largest_allocation{0};  // since it was last reset

void* allocate(std::size_t size) {
  std::size_t largest = g_largest_allocation;
  while (size > largest && !g_largest_allocation.compare_exchange_weak(largest, size)) {
  }
  void* memory = std::malloc(std::max<std::size_t>(1, size));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace kirchhoff::io {
namespace {

namespace fs = std::filesystem;

using Parse = void (*)(const FileBytes&);

void decode_all(const Checkpoint& checkpoint) {
  for (const StoredTensor& tensor : checkpoint.tensors) decode(tensor);
}

struct Target {
  const char* name;
  std::vector<const char*> folders;  // below tests/data
  std::vector<const char*> endings;
  Parse parse;
};

void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

/// A file of llama2.c: dim 4, hidden 6, 2 layers, 2 heads, 1 key-value head, 5 tokens, 3 positions.
std::string llama2c_seed() {
  constexpr std::array<std::int32_t, 7> kHeader{4, 6, 2, 2, 1, 5, 3};
  constexpr std::size_t kValues = 5 * 4 + 2 * (4 + 16 + 8 + 8 + 16 + 4 + 24 + 24 + 24) + 4 + 3 * 2;
  std::string text(reinterpret_cast<const char*>(kHeader.data()), sizeof kHeader);
  return text + std::string(kValues * sizeof(float), 'x');
}

const std::vector<Target>& targets() {
  static const std::vector<Target> all{
      {"safetensors",
       {"hostile/safetensors"},
       {".safetensors"},
       [](const FileBytes& f) { decode_all(parse_safetensors(f).checkpoint); }},
      {"gguf",
       {"hostile/gguf", "golden-gguf"},
       {".gguf"},
       [](const FileBytes& f) { decode_all(parse_gguf(f).checkpoint); }},
      {"torch", {"hostile/torch"}, {".pt"}, [](const FileBytes& f) { decode_all(parse_torch(f).checkpoint); }},
      {"npz", {"hostile/numpy"}, {".npz"}, [](const FileBytes& f) { decode_all(parse_npz(f)); }},
      {"npy",
       {"hostile/numpy", "golden-gguf"},
       {".npy"},
       [](const FileBytes& f) {
         decode_all({f.path, "npy", {parse_npy(f, "a")}});
       }},
      {"json",
       {"hostile/config", "hostile/tokenizer"},
       {".json"},
       [](const FileBytes& f) { parse_json(f.text(), f.path); }},
      {"json_tensors",
       {"hostile/config"},
       {".json"},
       [](const FileBytes& f) { decode_all(parse_json_tensors(f).checkpoint); }},
      {"llama2c",
       {"hostile/safetensors"},
       {".safetensors"},
       [](const FileBytes& f) { decode_all(parse_llama2c(f).checkpoint); }},
  };
  return all;
}

std::vector<std::string> seeds_of(const Target& target) {
  std::vector<std::string> seeds;
  for (const char* folder : target.folders)
    for (const auto& entry : fs::directory_iterator(test_data(folder)))
      for (const char* ending : target.endings)
        if (entry.path().extension() == ending) seeds.emplace_back(map_file(entry.path().string()).text());
  std::sort(seeds.begin(), seeds.end());  // the directory's order is the machine's
  if (std::string_view(target.name) == "llama2c") seeds.push_back(llama2c_seed());
  if (std::string_view(target.name) == "json_tensors")
    seeds.push_back(
        R"({"config": {"n": 1}, "w": {"shape": [3], "dtype": "torch.float32", "data": "AACAPwAAAEAAAEBA"}})");
  return seeds;
}

/// Flips bits, overwrites bytes and numbers with telling values, cuts, repeats, and splices in a piece of another file.
std::string mutated(std::string text, const std::string& other, Random& random) {
  const Index changes = 1 + random.below(1 + random.below(4));
  for (Index i = 0; i < changes && !text.empty(); ++i) {
    const auto size = static_cast<Index>(text.size());
    const auto at = static_cast<std::size_t>(random.below(size));
    switch (random.below(6)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
        break;
      case 1:
        text[at] = static_cast<char>(random.below(256));
        break;
      case 2: {
        constexpr std::array<std::uint64_t, 8> kTelling{
            0, 1, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 0x100000000};
        const std::uint64_t value = kTelling[static_cast<std::size_t>(random.below(8))];
        text.replace(at, std::min<std::size_t>(8, text.size() - at), reinterpret_cast<const char*>(&value),
                     std::min<std::size_t>(8, text.size() - at));
        break;
      }
      case 3:
        text.resize(at);
        break;
      case 4:
        text.insert(at, text.substr(at, static_cast<std::size_t>(random.below(64))));
        break;
      default:
        if (!other.empty()) {
          const auto from = static_cast<std::size_t>(random.below(static_cast<Index>(other.size())));
          text.replace(at, 16, other.substr(from, static_cast<std::size_t>(random.below(128))));
        }
    }
  }
  return text;
}

/// Parses `text` as the target; true if it was accepted.
bool survives(const Target& target, const std::string& text, const std::string& what) {
  // Room for decoded values (8 bytes a byte at most, IQ1 20) and containers; a claim in a file of some KB would exceed
  // it.
  const std::size_t allowed = 64 * text.size() + (std::size_t{64} << 10);
  const FileBytes file = in_memory(text, "mutant");
  g_largest_allocation = 0;
  bool accepted = false;
  try {
    target.parse(file);
    accepted = true;
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::internal) << what << ": " << error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << what << ": " << error.what();
  }
  EXPECT_LE(g_largest_allocation, allowed) << what << ": " << text.size() << " bytes";
  return accepted;
}

class Mutation : public testing::TestWithParam<Target> {};

TEST_P(Mutation, EndsInAValueOrAnError) {
  const Target& target = GetParam();
  const std::vector<std::string> seeds = seeds_of(target);
  ASSERT_GE(seeds.size(), 2u);
  Random random(20240607);
  constexpr Index kMutants = 25000;
  Index accepted = 0;
  for (Index i = 0; i < kMutants && !testing::Test::HasFailure(); ++i) {
    const auto pick = [&]() -> const std::string& {
      return seeds[static_cast<std::size_t>(random.below(static_cast<Index>(seeds.size())))];
    };
    const std::string mutant = mutated(pick(), pick(), random);
    accepted += survives(target, mutant, fmt::format("{} mutant {}", target.name, i)) ? 1 : 0;
  }
  // A loop in which nothing is accepted would only test the first check of each parser.
  EXPECT_GT(accepted, 50);
}

TEST_P(Mutation, EveryTruncationEndsInAValueOrAnError) {
  const Target& target = GetParam();
  for (const std::string& seed : seeds_of(target)) {
    const std::size_t step = std::max<std::size_t>(1, seed.size() / 300);
    for (std::size_t size = 0; size < seed.size(); size += step)
      survives(target, seed.substr(0, size), fmt::format("{} cut to {} bytes", target.name, size));
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Mutation, testing::ValuesIn(targets()),
                         [](const testing::TestParamInfo<Target>& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace kirchhoff::io
