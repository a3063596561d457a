#include "kirchhoff/text/bpe_trainer.h"

#include <algorithm>  // for sort, push_heap, pop_heap, find
#include <utility>    // for move

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/parallel.h"
#include "text/byte_level.h"
#include "text/pre_tokenizer.h"
#include "text/regex.h"
#include "text/utf8.h"

namespace kirchhoff::text {
namespace {

constexpr std::size_t kByteCount = 256;

using Pair = std::pair<TokenId, TokenId>;
struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    const std::uint64_t key = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(pair.first)) << 32U) ^
                              static_cast<std::uint32_t>(pair.second);
    return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15ULL) ^ (key >> 29U));
  }
};

struct Word {
  std::vector<TokenId> tokens;
  std::int64_t count;
};

/// A pair that waits to be merged, and the words it was found in. `count` is what it was when it was queued: others'
/// merges may have taken some away since.
struct Candidate {
  std::int64_t count;
  Pair pair;
  std::vector<std::uint32_t> words;

  /// Whether the other is merged first: more frequent, or smaller ids.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.count != b.count ? a.count < b.count : a.pair > b.pair;
  }
};

/// The loop of `tokenizers`' BpeTrainer::do_train. A pair arises only in the step that makes the newer of its two
/// tokens, and a token in one step alone (tokens whose ends stay apart are merged inside as if they stood alone, so a
/// string comes from one pair): hence each pair is queued once, with all its words.
class MergeLoop {
 public:
  MergeLoop(std::vector<Word> words, std::vector<std::string> pieces, Index special)
      : words_(std::move(words)), result_{std::move(pieces), {}, special} {
    for (std::size_t w = 0; w < words_.size(); ++w)
      for (std::size_t i = 0; i + 1 < words_[w].tokens.size(); ++i)
        change({words_[w].tokens[i], words_[w].tokens[i + 1]}, words_[w].count, w);
    queue_new();
  }

  TrainedBpe run(std::size_t vocabulary_size, std::int64_t min_frequency, const Progress& progress) {
    const auto size = static_cast<Index>(vocabulary_size);
    while (result_.pieces.size() < vocabulary_size && !queue_.empty()) {
      Candidate top = pop();
      if (const std::int64_t count = counts_.at(top.pair); count != top.count) {
        top.count = count;
        push(std::move(top));
        continue;
      }
      if (top.count < std::max<std::int64_t>(min_frequency, 1)) break;
      std::string piece = piece_of(top.pair.first) + piece_of(top.pair.second);
      if (is_special(piece)) continue;  // ordinary text must not become a special token
      const auto merged = static_cast<TokenId>(result_.pieces.size());
      result_.pieces.push_back(std::move(piece));
      result_.merges.push_back(top.pair);
      for (const std::uint32_t word : top.words) merge(top.pair, merged, word);
      queue_new();
      if (result_.merges.size() % 64 == 0) report(progress, "merges", merged, size);
    }
    report(progress, "merges", static_cast<Index>(result_.pieces.size()), size);
    return std::move(result_);
  }

 private:
  const std::string& piece_of(TokenId id) const { return result_.pieces[static_cast<std::size_t>(id)]; }
  bool is_special(const std::string& piece) const {
    const auto end = result_.pieces.begin() + static_cast<std::ptrdiff_t>(result_.special);
    return std::find(result_.pieces.begin(), end, piece) != end;
  }

  /// Merges from left to right; the pairs with the neighbours change.
  void merge(const Pair& pair, TokenId merged, std::uint32_t index) {
    Word& word = words_[index];
    std::vector<TokenId>& tokens = word.tokens;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i, ++kept) {
      if (i + 1 == tokens.size() || tokens[i] != pair.first || tokens[i + 1] != pair.second) {
        tokens[kept] = tokens[i];
        continue;
      }
      if (kept > 0) {
        change({tokens[kept - 1], pair.first}, -word.count, index);
        change({tokens[kept - 1], merged}, word.count, index);
      }
      if (i + 2 < tokens.size()) {
        change({pair.second, tokens[i + 2]}, -word.count, index);
        change({merged, tokens[i + 2]}, word.count, index);
      }
      tokens[kept] = merged;
      ++i;
    }
    tokens.resize(kept);
  }

  void change(const Pair& pair, std::int64_t count, std::size_t word) {
    counts_[pair] += count;
    if (count < 0) return;
    const auto [at, fresh] = new_.try_emplace(pair, found_.size());
    if (fresh) found_.push_back({pair, {}});
    std::vector<std::uint32_t>& words = found_[at->second].words;
    const auto index = static_cast<std::uint32_t>(word);
    if (words.empty() || words.back() != index) words.push_back(index);
  }

  void queue_new() {
    for (Found& found : found_)
      if (const std::int64_t count = counts_.at(found.pair); count > 0)
        push({count, found.pair, std::move(found.words)});
    found_.clear();
    new_.clear();
  }

  void push(Candidate candidate) {
    queue_.push_back(std::move(candidate));
    std::push_heap(queue_.begin(), queue_.end());
  }
  Candidate pop() {
    std::pop_heap(queue_.begin(), queue_.end());
    Candidate top = std::move(queue_.back());
    queue_.pop_back();
    return top;
  }

  struct Found {
    Pair pair;
    std::vector<std::uint32_t> words;
  };

  std::vector<Word> words_;
  TrainedBpe result_;
  std::unordered_map<Pair, std::int64_t, PairHash> counts_;
  std::vector<Candidate> queue_;  // a heap
  std::vector<Found> found_;      // pairs that arose since the last merge, and where
  std::unordered_map<Pair, std::size_t, PairHash> new_;
};

/// The bytes in the order of their stand-ins' code points.
std::vector<std::uint8_t> byte_order() {
  std::vector<std::uint8_t> bytes(kByteCount);
  for (std::size_t i = 0; i < kByteCount; ++i) bytes[i] = static_cast<std::uint8_t>(i);
  std::sort(bytes.begin(), bytes.end(),
            [](std::uint8_t a, std::uint8_t b) { return byte_level_character(a) < byte_level_character(b); });
  return bytes;
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == '\v'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

std::vector<std::string_view> split_documents(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> documents;
  const auto add = [&](std::string_view document) {
    if (document = trimmed(document); !document.empty()) documents.push_back(document);
  };
  std::size_t begin = 0;
  for (std::size_t at = text.find(separator); at != std::string_view::npos; at = text.find(separator, at + 1)) {
    const std::size_t end = at + separator.size();
    const bool own_line =
        (at == 0 || text[at - 1] == '\n') && (end == text.size() || text[end] == '\n' || text.substr(end, 2) == "\r\n");
    if (!own_line) continue;
    add(text.substr(begin, at - begin));
    begin = end;
  }
  add(text.substr(begin));
  return documents;
}

BpeTrainer::BpeTrainer(BpeTrainingOptions options) : options_(std::move(options)) {
  const auto least = static_cast<Index>(options_.special_tokens.size() + kByteCount);
  check(options_.vocabulary_size >= least, ErrorCode::usage,
        "a byte-level vocabulary has {} tokens at least ({} special, {} bytes), asked for are {}", least,
        options_.special_tokens.size(), kByteCount, options_.vocabulary_size);
  for (auto token = options_.special_tokens.begin(); token != options_.special_tokens.end(); ++token) {
    check(!token->empty(), ErrorCode::usage, "a special token is empty");
    check(std::find(options_.special_tokens.begin(), token, *token) == token, ErrorCode::usage,
          "the special token '{}' occurs twice", *token);
  }
}

void BpeTrainer::add(std::span<const std::string_view> documents, const Progress& progress) {
  static const Regex words(kGpt2Pattern);
  constexpr Index kBlock = 16, kBlocks = 64;  // at most so many blocks' counts are held at once
  using Counts = std::unordered_map<std::string_view, std::uint64_t>;
  const auto count = static_cast<Index>(documents.size());
  for (Index first = 0; first < count; first += kBlock * kBlocks) {
    report(progress, "words", first, count);
    const Index last = std::min(count, first + kBlock * kBlocks);
    std::vector<Counts> counts(kBlocks);
    parallel_for_blocks(last - first, kBlock, [&](Index begin, Index end) {
      Counts& mine = counts[static_cast<std::size_t>(begin / kBlock)];
      std::vector<Piece> pieces;
      for (Index i = begin; i < end; ++i) {
        const std::string_view document = documents[static_cast<std::size_t>(first + i)];
        pieces.clear();
        words.find_all(document, pieces);
        for (const Piece& piece : pieces) ++mine[document.substr(piece.begin, piece.end - piece.begin)];
      }
    });
    for (const Counts& block : counts)
      for (const auto& [word, times] : block) words_[std::string(word)] += times;
  }
  report(progress, "words", count, count);
}

TrainedBpe BpeTrainer::train(const Progress& progress) const {
  std::vector<std::string> pieces = options_.special_tokens;
  std::vector<TokenId> id_of(kByteCount);
  for (const std::uint8_t byte : byte_order()) {
    const char raw = static_cast<char>(byte);
    id_of[byte] = static_cast<TokenId>(pieces.size());
    pieces.push_back(to_byte_level({&raw, 1}));
  }
  std::vector<const std::pair<const std::string, std::uint64_t>*> sorted;
  for (const auto& word : words_) sorted.push_back(&word);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  std::vector<Word> words;
  words.reserve(sorted.size());
  for (const auto* word : sorted) {
    words.push_back({{}, static_cast<std::int64_t>(word->second)});
    for (const char byte : word->first) words.back().tokens.push_back(id_of[static_cast<std::uint8_t>(byte)]);
  }
  return MergeLoop(std::move(words), std::move(pieces), static_cast<Index>(options_.special_tokens.size()))
      .run(static_cast<std::size_t>(options_.vocabulary_size), static_cast<std::int64_t>(options_.min_frequency),
           progress);
}

}  // namespace kirchhoff::text
