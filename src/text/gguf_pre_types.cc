#include "text/gguf_pre_types.h"

#include <algorithm>  // for find

#include "text/pre_tokenizer.h"

namespace kirchhoff::text {
namespace {

// Patterns that several types share, as the models' own tokenizer.json have them.
constexpr char kLlama3[] =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr char kQwen2[] =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr char kO200k[] =
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr char kTekken[] =
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr char kDeepSeekV3[] =
    R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr char kCjk[] = R"re([一-龥぀-ゟ゠-ヿ]+)re";
constexpr char kBloom[] = R"re( ?[^(\s|.,!?…。，、।۔،)]+)re";

// After ggml-org/llama.cpp, src/llama-vocab.cpp (llm_tokenizer_bpe and llama_vocab::impl::load). Where its patterns are
// approximations for std::regex, the original is here. NFC is of the models' own files; GGUF does not say it.
const std::vector<GgufPreType>& table() {
  static const std::vector<GgufPreType> types = {
      {.names = {"gpt-2", "phi-2", "jina-es", "jina-de", "jina-v1-en", "jina-v2-es", "jina-v2-de", "jina-v2-code",
                 "roberta-bpe", "gigachat", "a.x-4.0", "mellum", "modern-bert", "exaone4", "jais", "trillion",
                 "granite-docling"},
       .patterns = {kGpt2Pattern}},
      {.names = {"olmo", "mpt"}, .patterns = {kGpt2Pattern}, .nfc = true},
      {.names = {"starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
       .patterns = {R"re(\p{N})re", kGpt2Pattern}},
      {.names = {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
                 "jina-v5-nano"},
       .patterns = {kLlama3},
       .ignore_merges = true,
       .add_bos = true},
      {.names = {"dbrx", "smaug-bpe", "chatglm-bpe"}, .patterns = {kLlama3}},
      {.names = {"glm4", "glm5"}, .patterns = {kLlama3}, .ignore_merges = true},
      {.names = {"qwen2", "deepseek-r1-qwen"}, .patterns = {kQwen2}, .nfc = true},
      {.names = {"stablelm2", "kormo", "f2llmv2", "megrez", "hunyuan", "solar-open", "grok-2"}, .patterns = {kQwen2}},
      {.names = {"qwen35"},
       .patterns =
           {R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"},
       .nfc = true},
      {.names = {"ufakzeka"},
       .patterns = {R"re([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"}},
      {.names = {"laguna"}, .patterns = {R"re([^\n]+|[\n]+)re", kQwen2}},
      {.names = {"minicpm5"},
       .patterns =
           {R"re(\p{N}{1,3})re",
            R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"},
       .ignore_merges = true},
      {.names = {"jais-2"},
       .patterns =
           {R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})re"}},
      {.names = {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, .patterns = {kO200k}},
      {.names = {"granite-embed-multi-97m"},
       .patterns =
           {R"re([^\r\n\p{L}\p{N}]?((?=[\p{L}\p{M}])([^a-z]))*((?=[\p{L}\p{M}])([^A-Z]))+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?((?=[\p{L}\p{M}])([^a-z]))+((?=[\p{L}\p{M}])([^A-Z]))*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"},
       .ignore_merges = true},
      {.names = {"tiny_aya", "cohere2moe"}, .patterns = {R"re(\d{1,3}(?=(?:\d{3})*\b))re", kO200k}},
      {.names = {"tekken"}, .patterns = {kTekken}, .ignore_merges = true, .add_bos = true},
      {.names = {"youtu"},
       .patterns =
           {R"re([가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+)re",
            R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re"},
       .ignore_merges = true},
      {.names = {"deepseek-llm"},
       .patterns =
           {R"re([\r\n])re",
            R"re(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)re",
            R"re(\s?[!-/:-~！-／：-～‘-‟　-。]+)re", R"re(\s+$)re", R"re([一-龥ࠀ-一가-퟿]+)re",
            R"re(\p{N}+)re"}},
      {.names = {"deepseek-coder"},
       .patterns = {R"re([\r\n])re", R"re(\s?\p{L}+)re", R"re(\s?\p{P}+)re", R"re([一-龥ࠀ-一가-퟿]+)re",
                    R"re(\p{N})re"}},
      {.names = {"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
       .patterns = {R"re(\p{N}{1,3})re", kCjk, kDeepSeekV3}},
      {.names = {"spark2_5"},
       .patterns =
           {R"re(\p{N}{1,3})re", kCjk,
            R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)re",
            R"re(\p{N})re"}},
      {.names = {"falcon"}, .patterns = {R"re([\p{P}\$\+<=>\^~\|`]+)re", kGpt2Pattern, R"re([0-9][0-9][0-9])re"}},
      {.names = {"bloom", "poro-chat", "gpt3-finnish"}, .patterns = {kBloom}},
      {.names = {"viking"}, .patterns = {kBloom, R"re(\p{N})re"}},
      {.names = {"chameleon"},
       .patterns = {R"re(<sentinel:[0-9]+>)re", R"re((IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z)re", R"re(([\t\n]|    |  ))re",
                    R"re(\p{N})re", R"re([\p{P}!-/:-@\[-`{-~])re", kGpt2Pattern},
       .add_bos = true},
      {.names = {"superbpe"}, .patterns = {R"re(\p{N}+)re", R"re((?=(\d{3})+(?!\d)))re"}},
      {.names = {"bailingmoe", "bailingmoe2", "llada-moe"},
       .patterns =
           {R"re('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)re"}},
      {.names = {"seed-coder"},
       .patterns =
           {R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)re"}},
      {.names = {"exaone-moe"},
       .patterns =
           {R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)re"}},
      {.names = {"default"},
       .patterns = {R"re([\p{P}\$\+<=>\^~\|]+)re", kGpt2Pattern, R"re(\p{N}+)re", R"re([0-9][0-9][0-9])re"}},
  };
  return types;
}

}  // namespace

const GgufPreType* find_gguf_pre_type(std::string_view name) {
  for (const GgufPreType& type : table())
    if (std::find(type.names.begin(), type.names.end(), name) != type.names.end()) return &type;
  return nullptr;
}

std::string_view gguf_pre_type_of(std::string_view architecture) {
  static constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {"gpt2", "gpt-2"},    {"gptj", "gpt-2"},          {"phi2", "gpt-2"},    {"gptneox", "olmo"}, {"mpt", "mpt"},
      {"falcon", "falcon"}, {"starcoder", "starcoder"}, {"refact", "refact"}, {"bloom", "bloom"},  {"qwen2", "qwen2"},
  };
  for (const auto& [name, type] : kTypes)
    if (name == architecture) return type;
  return {};
}

}  // namespace kirchhoff::text
