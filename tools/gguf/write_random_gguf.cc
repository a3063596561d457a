// write_random_gguf OUT.gguf [--layers 26] [--d-model 3200] [--heads 32] [--kv-heads 32] [--d-mlp 8640] [--vocab 32000]
//                   [--context 2048] [--type Q4_0|Q8_0] [--seed 1]
//
// A Llama with random weights (standard deviation about 0.02) and a byte vocabulary. It is written as it is made up, in
// pieces of a megabyte, so that its size costs disk, not memory. The defaults give 3.4 billion parameters.
#include <algorithm>  // for find_if, min
#include <array>      // for array
#include <cmath>      // for frexp, lround
#include <cstdio>     // for fprintf
#include <cstdlib>    // for strtoul
#include <cstring>    // for memcpy
#include <map>        // for map

#include "gguf_writer.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/base/random.h"
#include "kirchhoff/io/gguf.h"

namespace kirchhoff::tools {
namespace {

using Options = std::map<std::string, std::string, std::less<>>;

Options parse(int argc, char** argv) {
  Options options{{"layers", "26"},   {"d-model", "3200"}, {"heads", "32"},  {"kv-heads", "32"}, {"d-mlp", "8640"},
                  {"vocab", "32000"}, {"context", "2048"}, {"type", "Q4_0"}, {"seed", "1"}};
  check(argc >= 2, ErrorCode::usage, "the name of the file to write is missing");
  for (int i = 2; i < argc; i += 2) {
    const std::string_view name = argv[i];
    const auto found = name.starts_with("--") ? options.find(name.substr(2)) : options.end();
    check(found != options.end() && i + 1 < argc, ErrorCode::usage, "unknown option, or one without a value: '{}'",
          name);
    found->second = argv[i + 1];
  }
  return options;
}

std::uint32_t number(const Options& options, std::string_view name) {
  const std::string& text = options.find(name)->second;
  char* end = nullptr;
  const unsigned long value = std::strtoul(text.c_str(), &end, 10);
  check(*end == '\0' && value > 0 && value <= 100'000'000, ErrorCode::usage, "--{} is '{}', expected a positive number",
        name, text);
  return static_cast<std::uint32_t>(value);
}

/// A block type of 32 values: a scale and random codes.
struct BlockType {
  std::string_view name;
  DType dtype;
  std::uint32_t ggml_type;
  double code_deviation;  ///< of uniform codes
};
constexpr std::array<BlockType, 2> kBlockTypes{{{"Q4_0", DType::q4_0, 2, 4.61}, {"Q8_0", DType::q8_0, 8, 73.9}}};
constexpr std::uint32_t kF32 = 0;

/// The binary16 of a normal positive number.
std::uint16_t half(double value) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);  // in [0.5, 1)
  return static_cast<std::uint16_t>(((exponent + 14) << 10) + std::lround((fraction * 2 - 1) * 1024));
}

/// A tensor to be written; `ones`: the gain of a norm, in F32.
struct Part {
  std::string name;
  std::vector<std::uint64_t> ggml_dims;
  bool ones = false;
  Index count() const {
    Index n = 1;
    for (const std::uint64_t size : ggml_dims) n *= static_cast<Index>(size);
    return n;
  }
};

std::vector<Part> parts_of(const Options& o) {
  const std::uint64_t d = number(o, "d-model"), mlp = number(o, "d-mlp"), vocab = number(o, "vocab"),
                      heads = number(o, "heads");
  check(d % 32 == 0 && mlp % 32 == 0 && d % (2 * heads) == 0 && heads % number(o, "kv-heads") == 0, ErrorCode::usage,
        "--d-model and --d-mlp must be multiples of 32, the heads of an even size, --heads a multiple of --kv-heads");
  const std::uint64_t kv = d / heads * number(o, "kv-heads");
  std::vector<Part> parts{
      {"token_embd.weight", {d, vocab}}, {"output_norm.weight", {d}, true}, {"output.weight", {d, vocab}}};
  for (std::uint32_t layer = 0; layer < number(o, "layers"); ++layer) {
    const auto add = [&](std::string_view name, std::vector<std::uint64_t> dims, bool ones = false) {
      parts.push_back({fmt::format("blk.{}.{}.weight", layer, name), std::move(dims), ones});
    };
    add("attn_norm", {d}, true);
    add("attn_q", {d, d});
    add("attn_k", {d, kv});
    add("attn_v", {d, kv});
    add("attn_output", {d, d});
    add("ffn_norm", {d}, true);
    add("ffn_gate", {d, mlp});
    add("ffn_up", {d, mlp});
    add("ffn_down", {mlp, d});
  }
  return parts;
}

/// GPT-2's printable characters for the 256 bytes, "th" with its merge, an end of text, and unused tokens up to the
/// size.
void add_vocabulary(GgufWriter& writer, std::uint32_t size) {
  check(size >= 258, ErrorCode::usage, "--vocab is {}, expected at least 258", size);
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types(size, 5);  // unused
  unsigned next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    const unsigned code = itself ? byte : next++;
    std::string text;
    if (code >= 128) text += static_cast<char>(0xC0 | code >> 6);
    text += static_cast<char>(code >= 128 ? 0x80 | (code & 63) : code);
    tokens.push_back(std::move(text));
    types[byte] = 1;  // normal
  }
  tokens.emplace_back("th");
  types[256] = 1;
  tokens.emplace_back("<|endoftext|>");
  types[257] = 3;  // control
  while (tokens.size() < size) tokens.push_back(fmt::format("<unused{}>", tokens.size()));
  writer.add_text("tokenizer.ggml.model", "gpt2");
  writer.add_text("tokenizer.ggml.pre", "gpt-2");
  writer.add_texts("tokenizer.ggml.tokens", tokens);
  writer.add_integers("tokenizer.ggml.token_type", types);
  writer.add_texts("tokenizer.ggml.merges", {"t h"});
  writer.add_integer("tokenizer.ggml.bos_token_id", 257);
  writer.add_integer("tokenizer.ggml.eos_token_id", 257);
}

void add_config(GgufWriter& writer, const Options& o) {
  writer.add_text("general.architecture", "llama");
  writer.add_text("general.name", "random");
  writer.add_integer("llama.block_count", number(o, "layers"));
  writer.add_integer("llama.context_length", number(o, "context"));
  writer.add_integer("llama.embedding_length", number(o, "d-model"));
  writer.add_integer("llama.feed_forward_length", number(o, "d-mlp"));
  writer.add_integer("llama.attention.head_count", number(o, "heads"));
  writer.add_integer("llama.attention.head_count_kv", number(o, "kv-heads"));
  writer.add_number("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  writer.add_integer("llama.rope.dimension_count", number(o, "d-model") / number(o, "heads"));
  writer.add_number("llama.rope.freq_base", 10000);
  writer.add_integer("llama.vocab_size", number(o, "vocab"));
}

void write_random(io::AtomicFile& file, const BlockType& type, Index blocks, Random& random) {
  const auto block_bytes = static_cast<std::size_t>(info(type.dtype).block_bytes);
  const Index at_once = (Index{1} << 20) / static_cast<Index>(block_bytes);
  std::vector<std::byte> buffer;
  for (Index done = 0; done < blocks; done += at_once) {
    buffer.resize(static_cast<std::size_t>(std::min(at_once, blocks - done)) * block_bytes);
    for (std::size_t i = 0; i < buffer.size(); i += block_bytes) {
      const std::uint16_t scale = half(0.02 / type.code_deviation * (0.5 + random.uniform()));
      std::memcpy(buffer.data() + i, &scale, sizeof scale);
      for (std::size_t k = sizeof scale; k < block_bytes; k += sizeof(std::uint64_t)) {
        const std::uint64_t bits = random.bits();
        std::memcpy(buffer.data() + i + k, &bits, sizeof bits);
      }
    }
    file.write(buffer);
  }
}

void write(const std::string& path, const Options& options) {
  const std::string& type_name = options.find("type")->second;
  const auto type =
      std::find_if(kBlockTypes.begin(), kBlockTypes.end(), [&](const BlockType& t) { return t.name == type_name; });
  check(type != kBlockTypes.end(), ErrorCode::usage, "--type is '{}', expected Q4_0 or Q8_0", type_name);
  const std::vector<Part> parts = parts_of(options);
  GgufWriter writer;
  add_config(writer, options);
  add_vocabulary(writer, number(options, "vocab"));
  for (const Part& part : parts)
    writer.add_tensor(part.name, part.ggml_dims, part.ones ? kF32 : type->ggml_type,
                      static_cast<std::uint64_t>(stored_bytes(part.ones ? DType::f32 : type->dtype, part.count())));
  io::AtomicFile file(path);
  writer.write_header(file);
  Random random(number(options, "seed"));
  for (const Part& part : parts) {
    if (part.ones) {
      const std::vector<float> gain(static_cast<std::size_t>(part.count()), 1.f);
      file.write(std::as_bytes(std::span(gain)));
    } else {
      write_random(file, *type, part.count() / info(type->dtype).block, random);
    }
    GgufWriter::align(file);
  }
  file.commit();
  Index parameters = 0;
  for (const io::StoredTensor& tensor : io::read_gguf(path).checkpoint.tensors)
    parameters += element_count(tensor.shape);
  std::printf("%s: %.3f billion parameters, %s\n", path.c_str(), static_cast<double>(parameters) * 1e-9,
              type_name.c_str());
}

}  // namespace
}  // namespace kirchhoff::tools

int main(int argc, char** argv) {
  try {
    const auto options = kirchhoff::tools::parse(argc, argv);
    kirchhoff::tools::write(argv[1], options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
