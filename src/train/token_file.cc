#include "kirchhoff/train/token_file.h"

#include <algorithm>    // for min
#include <array>        // for array
#include <cstring>      // for memcpy
#include <filesystem>   // for path
#include <limits>       // for numeric_limits
#include <type_traits>  // for conditional_t

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/parallel.h"
#include "kirchhoff/io/atomic_file.h"
#include "kirchhoff/io/sha256.h"
#include "kirchhoff/text/bpe_trainer.h"
#include "train/token_file_header.h"

namespace kirchhoff::train {
namespace {

using text::TokenId;

constexpr Index kLargestOfTwoBytes = 65536;

template <class Id>
std::string packed(const std::vector<TokenId>& ids) {
  std::string bytes(ids.size() * sizeof(Id), '\0');
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Id id = static_cast<Id>(ids[i]);
    std::memcpy(bytes.data() + i * sizeof(Id), &id, sizeof(Id));
  }
  return bytes;
}

TokenId separator_of(const text::Tokenizer& tokenizer, const TokenFileOptions& options) {
  if (options.separator) {
    check(tokenizer.find(*options.separator) != nullptr, ErrorCode::usage,
          "the separator of documents is token {}, which the tokenizer ({}) lacks", *options.separator,
          tokenizer.description());
    return *options.separator;
  }
  if (const auto id = tokenizer.id_of(options.separator_text); id && tokenizer.find(*id)->special) return *id;
  check(tokenizer.eos().has_value(), ErrorCode::usage,
        "the tokenizer ({}) has no special token '{}' and no EOS to put between documents", tokenizer.description(),
        options.separator_text);
  return *tokenizer.eos();
}

/// Writes documents one after the other.
class Writer {
 public:
  Writer(const std::string& path, TokenFileInfo info, const text::Tokenizer& tokenizer, const Progress& progress)
      : file_(path), info_(std::move(info)), tokenizer_(tokenizer), progress_(progress) {
    for (const TokenFileInfo::Source& source : info_.sources) total_ += static_cast<Index>(source.bytes);
    file_.write(write_header(info_));
  }

  /// All documents of a text, some MiB at a time.
  void add(const std::vector<std::string_view>& documents, const std::string& source) {
    constexpr std::size_t kBatch = std::size_t{8} << 20;
    for (std::size_t begin = 0, end = 0; begin < documents.size(); begin = end) {
      std::size_t bytes = 0;
      while (end < documents.size() && (end == begin || bytes + documents[end].size() <= kBatch))
        bytes += documents[end++].size();
      add_batch(std::span(documents).subspan(begin, end - begin), source);
      report(progress_, "tokens", done_ += static_cast<Index>(bytes), total_);
    }
  }

  TokenFileInfo finish() {
    report(progress_, "tokens", total_, total_);
    const std::string header = write_header(info_);
    file_.overwrite(0, std::as_bytes(std::span(header)));
    file_.commit();
    return info_;
  }

 private:
  void add_batch(std::span<const std::string_view> documents, const std::string& source) {
    std::vector<std::vector<TokenId>> encoded(documents.size());
    parallel_for(static_cast<Index>(documents.size()), [&](Index i) {
      const auto at = static_cast<std::size_t>(i);
      encoded[at] = encode(documents[at], source);
    });
    for (const std::vector<TokenId>& ids : encoded) {
      if (ids.empty()) continue;
      if (info_.documents > 0) write({info_.separator});
      write(ids);
      ++info_.documents;
    }
  }
  std::vector<TokenId> encode(std::string_view document, const std::string& source) const {
    try {
      return tokenizer_.encode(document, {.recognise_special = false}).ids;
    } catch (const Error& e) {
      throw Error(ErrorCode::format, fmt::format("'{}': {}", source, e.what()), e.help());
    }
  }
  void write(const std::vector<TokenId>& ids) {
    file_.write(info_.token_bytes == 2 ? packed<std::uint16_t>(ids) : packed<std::uint32_t>(ids));
    info_.tokens += static_cast<Index>(ids.size());
  }

  io::AtomicFile file_;
  TokenFileInfo info_;
  const text::Tokenizer& tokenizer_;
  const Progress& progress_;
  Index done_ = 0, total_ = 0;  // bytes of text
};

std::string hash_of(io::Bytes bytes) {
  io::Sha256 hash;
  hash.add(bytes);
  return hash.finish();
}

}  // namespace

std::string vocabulary_hash(const text::Tokenizer& tokenizer) {
  io::Sha256 hash;
  const auto add = [&hash](std::string_view text) { hash.add(std::as_bytes(std::span(text))); };
  for (Index id = 0; id < tokenizer.size(); ++id) {
    const text::TokenInfo* token = tokenizer.find(static_cast<TokenId>(id));
    if (token == nullptr) continue;
    add(fmt::format("{} {} {} ", id, token->special ? "special" : "plain", token->piece.size()));
    add(token->piece);
  }
  return hash.finish();
}

TokenFileInfo write_token_file(const std::string& path, const std::vector<std::string>& texts,
                               const text::Tokenizer& tokenizer, const TokenFileOptions& options,
                               const Progress& progress) {
  check(!texts.empty(), ErrorCode::usage, "no text to make tokens of");
  TokenFileInfo info;
  info.vocabulary = tokenizer.size();
  info.token_bytes = info.vocabulary > kLargestOfTwoBytes ? 4 : 2;
  info.separator = separator_of(tokenizer, options);
  info.tokenizer = vocabulary_hash(tokenizer);
  std::vector<io::FileBytes> files;
  for (const std::string& text : texts) {
    files.push_back(io::map_file(text));
    info.sources.push_back(
        {std::filesystem::path(text).filename().string(), files.back().size(), hash_of(files.back().bytes)});
  }
  Writer writer(path, std::move(info), tokenizer, progress);
  for (const io::FileBytes& file : files) {
    const std::vector<std::string_view> documents = text::split_documents(file.text(), options.separator_text);
    check(!documents.empty(), ErrorCode::usage, "'{}' holds no text", file.path);
    writer.add(documents, file.path);
  }
  return writer.finish();
}

bool is_token_file(const std::string& path) {
  try {
    return has_magic(io::map_file(path).text());
  } catch (const Error&) {
    return false;
  }
}

TokenFile::TokenFile(const std::string& path) : file_(io::map_file(path)) {
  const ParsedHeader header = parse_header(file_.text(), path);
  info_ = header.info;
  ids_ = file_.bytes.subspan(header.end);
  const auto expected = static_cast<std::uint64_t>(info_.tokens) * static_cast<std::uint64_t>(info_.token_bytes);
  check(ids_.size() == expected, ErrorCode::format, "'{}' holds {} bytes of ids, expected {}: {} tokens of {} bytes",
        path, ids_.size(), expected, info_.tokens, info_.token_bytes);
}

template <class Id>
void TokenFile::read_ids(Index begin, std::span<TokenId> out) const {
  const std::byte* at = ids_.data() + static_cast<std::size_t>(begin) * sizeof(Id);
  for (std::size_t i = 0; i < out.size(); ++i, at += sizeof(Id)) {
    Id id = 0;
    std::memcpy(&id, at, sizeof id);
    check(static_cast<Index>(id) < info_.vocabulary, ErrorCode::format,
          "'{}': token {} has the id {}, expected one below {}", path(), static_cast<std::size_t>(begin) + i, id,
          info_.vocabulary);
    out[i] = static_cast<TokenId>(id);
  }
}

void TokenFile::read(Index begin, std::span<TokenId> out) const {
  const auto count = static_cast<Index>(out.size());
  check(begin >= 0 && begin <= size() && count <= size() - begin, ErrorCode::usage,
        "'{}': tokens {} to {} of {} are asked for", path(), begin, begin + count, size());
  if (info_.token_bytes == 2)
    read_ids<std::uint16_t>(begin, out);
  else
    read_ids<std::uint32_t>(begin, out);
}

std::vector<TokenId> TokenFile::tokens(Index begin, Index count) const {
  std::vector<TokenId> ids(static_cast<std::size_t>(std::max<Index>(count, 0)));
  read(begin, ids);
  return ids;
}

void TokenFile::check_tokenizer(const text::Tokenizer& tokenizer, const std::string& tokenizer_path) const {
  check(vocabulary_hash(tokenizer) == info_.tokenizer, ErrorCode::mismatch,
        "'{}' was made with another tokenizer than '{}': {} tokens in its vocabulary, {} in this one", path(),
        tokenizer_path, info_.vocabulary, tokenizer.size());
}

}  // namespace kirchhoff::train
