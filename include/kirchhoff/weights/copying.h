#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/text/tokenizer.h"
#include "kirchhoff/weights/skip_trigrams.h"

namespace kirchhoff {

/// How an out stands to the source that raises it: [b] .. [a] -> [b] and [b] .. [a] -> [b'] (Elhage et al. 2021).
enum class Likeness {
  none,
  same,     ///< the source itself
  variant,  ///< the same text but for a leading space and upper or lower case (of ASCII)
  similar,  ///< cosine of the embeddings, the vocabulary's mean taken off, at least kSimilarCosine
};
/// "same", "variant", "similar"; "" for none.
std::string name(Likeness likeness);

constexpr double kSimilarCosine = 0.5;

/// Compares tokens of a model whose outputs are its inputs. Keeps the mean embedding, reads rows on demand.
class TokenLikeness {
 public:
  /// `tokenizer` may be null: no variants then. Error{usage} if the model's output vocabulary is another. Both outlive
  /// this.
  TokenLikeness(const Model& model, const text::Tokenizer* tokenizer);
  Likeness of(Index source, Index out) const;
  /// Of embeddings as the stream holds them, minus their mean.
  double cosine(Index a, Index b) const;

 private:
  const Model& model_;
  const text::Tokenizer* tokenizer_;
  std::vector<double> mean_;
};

/// Which outs a head raises most, over all sources.
struct CopyingCounts {
  Index sources = 0;
  Index same = 0, variant = 0, similar = 0;  ///< sources whose largest out is that
};
CopyingCounts copying_counts(const TokenLikeness& likeness, const std::vector<SourceTrigrams>& sources);

/// A token whose text, written a little otherwise, takes two: " Ralph", but "R" + "alph" without the space.
struct SplitToken {
  Index whole = 0, first = 0, second = 0;
  std::string text;  ///< what was tokenized
};
/// All of them: each ordinary token without its leading space, with one, and with its first letter's case changed
/// (ASCII), as the tokenizer cuts that text. `progress`: stage "splits", counted in tokens.
std::vector<SplitToken> split_tokens(const text::Tokenizer& tokenizer, Index d_vocab, const Progress& progress = {});

/// [ab] .. [a] -> [b]: the entries of a token that splits, with its first part as destination and its second as out.
struct SplitCopy {
  SplitToken token;
  TrigramToken destination, out;
  double strength = 0.0;  ///< the smaller deviation
};
struct SplitCopying {
  std::vector<SplitCopy> strongest;  ///< by strength, falling
  Index tokens = 0;                  ///< that split
  double far_out = 0.0;              ///< share of these with both deviations above 1
  double chance = 0.0;               ///< the same with each token given the parts of the one half a list on
};
SplitCopying split_copying(const HeadTables& tables, const std::vector<SplitToken>& splits, Index count);

}  // namespace kirchhoff
