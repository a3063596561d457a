#include <fmt/format.h>

#include <algorithm>  // for sort, unique, lower_bound
#include <cmath>      // for isnan
#include <utility>    // for move

#include "kirchhoff/base/error.h"
#include "kirchhoff/text/tokenizer.h"
#include "text/bpe_from_merges.h"
#include "text/bpe_from_scores.h"
#include "text/gguf_pre_types.h"
#include "text/pipeline.h"

namespace kirchhoff::text {
namespace {

constexpr char kSpaceMark[] = "▁";

/// llama.cpp's token types (llama_token_type).
enum TokenType : std::int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

void check_lengths(const GgufVocabulary& file) {
  check(!file.tokens.empty(), ErrorCode::format, "'{}': tokenizer.ggml.tokens is empty", file.path);
  check(file.token_types.empty() || file.token_types.size() == file.tokens.size(), ErrorCode::format,
        "'{}': tokenizer.ggml.token_type has {} values for {} tokens", file.path, file.token_types.size(),
        file.tokens.size());
  check(file.scores.empty() || file.scores.size() == file.tokens.size(), ErrorCode::format,
        "'{}': tokenizer.ggml.scores has {} values for {} tokens", file.path, file.scores.size(), file.tokens.size());
  const auto check_id = [&](std::optional<TokenId> id, std::string_view key) {
    check(!id || (*id >= 0 && static_cast<std::size_t>(*id) < file.tokens.size()), ErrorCode::format,
          "'{}': tokenizer.ggml.{} is {}, there are {} tokens", file.path, key, id.value_or(0), file.tokens.size());
  };
  check_id(file.bos, "bos_token_id");
  check_id(file.eos, "eos_token_id");
}

std::int64_t type_of(const GgufVocabulary& file, std::size_t id) {
  return file.token_types.empty() ? std::int64_t{kNormal} : file.token_types[id];
}

Vocabulary vocabulary_of(const GgufVocabulary& file, bool spaces_are_marks) {
  std::vector<std::pair<std::string, std::int64_t>> entries;
  entries.reserve(file.tokens.size());
  for (std::size_t id = 0; id < file.tokens.size(); ++id) {
    std::string piece = file.tokens[id];
    // Runs of the mark that are user-defined tokens stand in the file as plain spaces.
    if (spaces_are_marks && type_of(file, id) == kUserDefined)
      for (std::size_t at = piece.find(' '); at != std::string::npos; at = piece.find(' ', at))
        piece.replace(at, 1, kSpaceMark);
    if (piece.empty()) piece = fmt::format("[EMPTY_{}]", id);  // as llama.cpp names them
    entries.emplace_back(std::move(piece), static_cast<std::int64_t>(id));
  }
  return {std::move(entries), fmt::format("'{}': tokenizer.ggml.tokens", file.path)};
}

/// Phi-3's control tokens take the white space after them. The file has no flag for that; llama.cpp knows it by the
/// model's name, here it is the architecture, the kind of vocabulary (Phi-4's is another) and the tokens' names.
bool is_phi3(const GgufVocabulary& file, const Vocabulary& vocabulary) {
  return file.architecture == "phi3" && file.model == "llama" && vocabulary.find("<|assistant|>") &&
         vocabulary.find("<|user|>") && vocabulary.find("<|end|>");
}

std::vector<AddedToken> added_tokens_of(const GgufVocabulary& file, const Vocabulary& vocabulary) {
  const bool phi3 = is_phi3(file, vocabulary);
  std::vector<AddedToken> tokens;
  for (std::size_t id = 0; id < file.tokens.size(); ++id) {
    const std::int64_t type = type_of(file, id);
    if (type != kControl && type != kUnknown && type != kUserDefined) continue;
    AddedToken token;
    token.id = static_cast<TokenId>(id);
    token.content = vocabulary.piece(token.id);
    token.special = type != kUserDefined;
    // A run of marks stands for spaces of the text: it is looked for when those have become marks.
    token.normalized = type == kUserDefined && token.content.find(kSpaceMark) != std::string::npos;
    token.rstrip = phi3 && token.content != "<unk>" && token.content != "<s>" && token.content != "<|endoftext|>";
    tokens.push_back(std::move(token));
  }
  return tokens;
}

void set_common(const GgufVocabulary& file, bool default_add_bos, PipelineParts& parts) {
  parts.where = fmt::format("'{}'", file.path);
  parts.bos = file.bos;
  parts.eos = file.eos;
  parts.prepends_bos = file.add_bos;
  if (!parts.prepends_bos && default_add_bos) parts.prepends_bos = true;
  if (parts.prepends_bos.value_or(false) && parts.bos)
    parts.post_processor = PostProcessor({AddAround{{*parts.bos}, {}}});
}

std::shared_ptr<const Tokenizer> make_byte_level(const GgufVocabulary& file) {
  const std::string_view name = file.pre.empty() ? gguf_pre_type_of(file.architecture) : std::string_view(file.pre);
  check(!name.empty(), ErrorCode::unsupported,
        "'{}': tokenizer.ggml.pre is missing, and architecture '{}' does not decide how text is split", file.path,
        file.architecture);
  const GgufPreType* pre = find_gguf_pre_type(name);
  check(pre != nullptr, ErrorCode::unsupported, "'{}': tokenizer.ggml.pre '{}' is not supported", file.path, name);
  check(!file.merges.empty() || file.tokens.size() <= 256, ErrorCode::format,
        "'{}': tokenizer.ggml.merges is missing or empty", file.path);

  PipelineParts parts;
  set_common(file, pre->add_bos, parts);
  if (pre->nfc) parts.normalizer = Normalizer({NormalForm{}});
  std::vector<PreTokenizer::Step> steps;
  for (const std::string& pattern : pre->patterns) steps.emplace_back(SplitStep{Pattern::regex(pattern)});
  steps.emplace_back(ByteLevelStep{});
  parts.pre_tokenizer = PreTokenizer(std::move(steps));
  parts.decoder = Decoder({ByteLevelDecoding{}});

  Vocabulary vocabulary = vocabulary_of(file, false);
  parts.added_tokens = added_tokens_of(file, vocabulary);
  std::vector<std::pair<std::string, std::string>> merges;
  merges.reserve(file.merges.size());
  for (const std::string& merge : file.merges) {
    const std::size_t space = merge.find(' ', 1);
    check(space != std::string::npos, ErrorCode::format,
          "'{}': tokenizer.ggml.merges[{}] is '{}', expected two tokens with a space between them", file.path,
          merges.size(), merge);
    merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  BpeOptions options;
  options.symbols = Symbols::bytes;
  options.ignore_merges = pre->ignore_merges;
  parts.model =
      bpe_from_merges(std::move(vocabulary), merges, options, fmt::format("'{}': tokenizer.ggml.merges", file.path));
  parts.kind = "byte-level BPE";
  parts.source = fmt::format("GGUF, {}", name);
  return make_pipeline(std::move(parts));
}

std::shared_ptr<const Tokenizer> make_sentence_piece(const GgufVocabulary& file) {
  check(!file.scores.empty(), ErrorCode::format, "'{}': tokenizer.ggml.scores is missing", file.path);
  PipelineParts parts;
  set_common(file, true, parts);
  const bool prefix = file.add_space_prefix.value_or(true);
  std::vector<Normalizer::Step> normalizer;
  std::vector<Decoder::Step> decoder = {ReplaceDecoding{Pattern::literal(kSpaceMark), " "}, ByteFallbackDecoding{},
                                        FuseDecoding{}};
  if (prefix) {
    normalizer.emplace_back(PrependText{kSpaceMark});
    decoder.emplace_back(StripDecoding{" ", 1, 0});
  }
  normalizer.emplace_back(ReplaceText{Pattern::literal(" "), kSpaceMark});
  parts.normalizer = Normalizer(std::move(normalizer));
  parts.decoder = Decoder(std::move(decoder));

  Vocabulary vocabulary = vocabulary_of(file, true);
  parts.added_tokens = added_tokens_of(file, vocabulary);
  std::vector<bool> is_text(
      file.tokens.size());  // SentencePiece keeps control, unknown and byte tokens apart from text
  BpeOptions options;
  for (std::size_t id = 0; id < file.tokens.size(); ++id) {
    const std::int64_t type = type_of(file, id);
    is_text[id] = type != kControl && type != kUnknown && type != kByte;
    if (type == kUnknown && !options.unknown) options.unknown = static_cast<TokenId>(id);
  }
  parts.model = bpe_from_scores(std::move(vocabulary), file.scores, is_text, options,
                                fmt::format("'{}': tokenizer.ggml.scores", file.path));
  parts.kind = "SentencePiece BPE with byte fallback";
  parts.source = "GGUF";
  return make_pipeline(std::move(parts));
}

}  // namespace

std::shared_ptr<const Tokenizer> make_tokenizer(const GgufVocabulary& vocabulary) {
  check_lengths(vocabulary);
  if (vocabulary.model == "gpt2") return make_byte_level(vocabulary);
  if (vocabulary.model == "llama") return make_sentence_piece(vocabulary);
  fail(ErrorCode::unsupported, "'{}': tokenizer.ggml.model '{}' is not supported, 'gpt2' and 'llama' are",
       vocabulary.path, vocabulary.model);
}

}  // namespace kirchhoff::text
