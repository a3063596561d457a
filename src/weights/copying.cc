#include "kirchhoff/weights/copying.h"

#include <algorithm>  // for clamp, min, move, partial_sort
#include <cmath>      // for sqrt
#include <iterator>   // for back_inserter

#include "kirchhoff/base/parallel.h"
#include "weights/token_vectors.h"

namespace kirchhoff {
namespace {

constexpr Index kEmbeddings = 1024, kTokensOfATask = 256;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char other_case(char c) { return static_cast<char>(c ^ 0x20); }

/// Without a leading space, in lower case.
std::string plain_form(const std::string& bytes) {
  std::string plain = bytes.starts_with(' ') ? bytes.substr(1) : bytes;
  for (char& c : plain)
    if (c >= 'A' && c <= 'Z') c = other_case(c);
  return plain;
}

const text::TokenInfo* ordinary(const text::Tokenizer& tokenizer, Index id) {
  const text::TokenInfo* info = tokenizer.find(static_cast<text::TokenId>(id));
  return info == nullptr || info->special || info->bytes.empty() ? nullptr : info;
}

/// How else a token's text may be written.
std::vector<std::string> other_spellings(const std::string& bytes) {
  const bool space = bytes.starts_with(' ');
  const std::string word = space ? bytes.substr(1) : bytes;
  if (word.empty() || text::valid_utf8_prefix(word) != word.size()) return {};
  std::vector<std::string> others = {space ? word : " " + word};
  if (is_letter(word.front())) {
    std::string turned = word;
    turned.front() = other_case(turned.front());
    others.push_back(turned);
    others.push_back(" " + turned);
  }
  return others;
}

/// The ids of a text alone; none where the vocabulary cannot spell it.
std::vector<text::TokenId> spelled(const text::Tokenizer& tokenizer, const std::string& text) {
  try {
    return tokenizer.encode(text, {.recognise_special = false}).ids;
  } catch (const Error&) {
    return {};
  }
}

std::vector<SplitToken> splits_of(const text::Tokenizer& tokenizer, Index whole, Index d_vocab) {
  const text::TokenInfo* info = ordinary(tokenizer, whole);
  if (info == nullptr) return {};
  std::vector<SplitToken> found;
  for (const std::string& spelling : other_spellings(info->bytes)) {
    const std::vector<text::TokenId> ids = spelled(tokenizer, spelling);
    if (ids.size() != 2) continue;
    const Index first = ids[0], second = ids[1];
    if (first >= d_vocab || second >= d_vocab) continue;
    const text::TokenInfo *a = ordinary(tokenizer, first), *b = ordinary(tokenizer, second);
    // Tokenizers that put a space before a text cut another text than this one; a space alone is no part of a word.
    if (a == nullptr || b == nullptr || a->bytes + b->bytes != spelling || a->bytes == " ") continue;
    found.push_back({.whole = whole, .first = first, .second = second, .text = spelling});
  }
  return found;
}

TrigramToken entry_of(const TokenCircuit& table, double mean, double sd, Index row, Index column) {
  const auto l = table.left.view<2>().row(row), r = table.right.view<2>().row(column);
  double sum = 0.0;
  for (std::size_t i = 0; i < l.size(); ++i) sum += static_cast<double>(l[i]) * static_cast<double>(r[i]);
  return {column, static_cast<float>(sum), sd > 0.0 ? (sum - mean) / sd : 0.0};
}

SplitCopy split_copy(const HeadTables& tables, Index whole, const SplitToken& parts) {
  SplitCopy copy{
      .token = parts,
      .destination = entry_of(tables.attention, tables.attention_mean, tables.attention_sd, whole, parts.first),
      .out = entry_of(tables.output, tables.output_mean, tables.output_sd, whole, parts.second)};
  copy.strength = std::min(copy.destination.deviation, copy.out.deviation);
  return copy;
}

}  // namespace

std::string name(Likeness likeness) {
  switch (likeness) {
    case Likeness::none:
      return "";
    case Likeness::same:
      return "same";
    case Likeness::variant:
      return "variant";
    case Likeness::similar:
      return "similar";
  }
  return "";
}

TokenLikeness::TokenLikeness(const Model& model, const text::Tokenizer* tokenizer)
    : model_(model), tokenizer_(tokenizer), mean_(static_cast<std::size_t>(model.config.d_model), 0.0) {
  const Index n = model.config.d_vocab, d = model.config.d_model;
  check(model.config.d_vocab_out == n, ErrorCode::usage,
        "the model reads {} tokens and predicts {} others: no output is like an input", n, model.config.d_vocab_out);
  Tensor rows = Tensor::uninitialised({std::min(kEmbeddings, n), d});
  for (Index begin = 0; begin < n; begin += kEmbeddings) {
    const Index count = std::min(kEmbeddings, n - begin);
    token_vectors::stream_rows(model, false, begin, begin + count, rows.data());
    for (Index i = 0; i < count * d; ++i)
      mean_[static_cast<std::size_t>(i % d)] += static_cast<double>(rows[i]) / static_cast<double>(n);
  }
}

double TokenLikeness::cosine(Index a, Index b) const {
  const Index d = model_.config.d_model;
  Tensor rows = Tensor::uninitialised({2, d});
  token_vectors::stream_rows(model_, false, a, a + 1, rows.data());
  token_vectors::stream_rows(model_, false, b, b + 1, rows.data() + d);
  double ab = 0.0, aa = 0.0, bb = 0.0;
  for (Index i = 0; i < d; ++i) {
    const double mean = mean_[static_cast<std::size_t>(i)], x = static_cast<double>(rows[i]) - mean,
                 y = static_cast<double>(rows[d + i]) - mean;
    ab += x * y;
    aa += x * x;
    bb += y * y;
  }
  return aa > 0.0 && bb > 0.0 ? ab / std::sqrt(aa * bb) : 0.0;
}

Likeness TokenLikeness::of(Index source, Index out) const {
  if (source == out) return Likeness::same;
  if (tokenizer_ != nullptr) {
    const text::TokenInfo *a = ordinary(*tokenizer_, source), *b = ordinary(*tokenizer_, out);
    if (a != nullptr && b != nullptr && plain_form(a->bytes) == plain_form(b->bytes)) return Likeness::variant;
  }
  return cosine(source, out) >= kSimilarCosine ? Likeness::similar : Likeness::none;
}

CopyingCounts copying_counts(const TokenLikeness& likeness, const std::vector<SourceTrigrams>& sources) {
  const auto n = static_cast<Index>(sources.size());
  std::vector<Likeness> of_source(sources.size());
  parallel_for_blocks(n, kTokensOfATask, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const SourceTrigrams& source = sources[static_cast<std::size_t>(i)];
      of_source[static_cast<std::size_t>(i)] = likeness.of(source.source, source.outs.front().token);
    }
  });
  CopyingCounts counts{.sources = n};
  for (const Likeness kind : of_source) {
    counts.same += kind == Likeness::same;
    counts.variant += kind == Likeness::variant;
    counts.similar += kind == Likeness::similar;
  }
  return counts;
}

std::vector<SplitToken> split_tokens(const text::Tokenizer& tokenizer, Index d_vocab, const Progress& progress) {
  const Index n = std::min(d_vocab, tokenizer.size());
  std::vector<SplitToken> all;
  constexpr Index kReported = 16 * kTokensOfATask;
  for (Index first = 0; first < n; first += kReported) {
    report(progress, "splits", first, n);
    const Index count = std::min(kReported, n - first), tasks = (count + kTokensOfATask - 1) / kTokensOfATask;
    std::vector<std::vector<SplitToken>> found(static_cast<std::size_t>(tasks));
    parallel_for(tasks, [&](Index task) {
      const Index begin = first + task * kTokensOfATask, end = std::min(begin + kTokensOfATask, first + count);
      for (Index id = begin; id < end; ++id)
        for (SplitToken& split : splits_of(tokenizer, id, d_vocab))
          found[static_cast<std::size_t>(task)].push_back(std::move(split));
    });
    for (auto& part : found) std::move(part.begin(), part.end(), std::back_inserter(all));
  }
  report(progress, "splits", n, n);
  return all;
}

SplitCopying split_copying(const HeadTables& tables, const std::vector<SplitToken>& splits, Index count) {
  const auto n = static_cast<Index>(splits.size());
  SplitCopying result{.strongest = std::vector<SplitCopy>(splits.size()), .tokens = n};
  std::vector<double> strengths_by_chance(splits.size());
  parallel_for_blocks(n, kTokensOfATask, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const SplitToken& own = splits[static_cast<std::size_t>(i)];
      const SplitToken& other = splits[static_cast<std::size_t>((i + n / 2) % n)];
      result.strongest[static_cast<std::size_t>(i)] = split_copy(tables, own.whole, own);
      strengths_by_chance[static_cast<std::size_t>(i)] = split_copy(tables, own.whole, other).strength;
    }
  });
  for (const SplitCopy& copy : result.strongest) result.far_out += copy.strength > 1.0;
  for (const double strength : strengths_by_chance) result.chance += strength > 1.0;
  if (n > 0) {
    result.far_out /= static_cast<double>(n);
    result.chance /= static_cast<double>(n);
  }
  const auto kept = static_cast<std::size_t>(std::clamp<Index>(count, 0, n));
  std::partial_sort(result.strongest.begin(), result.strongest.begin() + static_cast<std::ptrdiff_t>(kept),
                    result.strongest.end(), [](const SplitCopy& a, const SplitCopy& b) {
                      return a.strength > b.strength || (a.strength == b.strength && a.token.whole < b.token.whole);
                    });
  result.strongest.resize(kept);
  return result;
}

}  // namespace kirchhoff
