#pragma once
#include <optional>  // for optional
#include <vector>    // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/model/corpus.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff {

/// What follows a token in a text.
struct BigramRow {
  Index source = 0;
  Index count = 0;  ///< how often something follows it
  struct Next {
    Index token = 0, count = 0;
  };
  std::vector<Next> next;  ///< by token, rising
};

/// The rows of all tokens that something follows, by token, rising. What follows the BOS that was put before windows is
/// not counted, nor are pairs across windows. `d_vocab`, `d_vocab_out`: tokens beyond them are an Error{usage}.
std::vector<BigramRow> count_bigrams(const TokenCorpus& corpus, Index d_vocab, Index d_vocab_out);

struct BigramOptions {
  /// Embedding and unembedding as in the file. Otherwise the direct path is the model without its layers: embeddings
  /// through the final norm alone, its gain, its bias, b_U, the logits' scale and soft-cap; positions left out.
  bool raw = false;
  Index top = 5;           ///< outs to list for each source
  Progress progress = {};  ///< stage "bigrams", counted in sources
};

struct BigramSource {
  Index source = 0, count = 0, distinct = 0;  ///< how often it occurs, and followed by how many different tokens
  /// Spearman's rank correlation of the source's row of the direct path with the text's counts over all outputs; ties
  /// (all that never follow, above all) have their mean rank. Empty where either is constant.
  std::optional<double> correlation;
  double loss = 0.0;     ///< mean over what follows of -ln p, p = softmax of the row
  double entropy = 0.0;  ///< of the text's own distribution behind this token: the least that a loss could be
  std::vector<Index> in_text, in_path;  ///< the most frequent and the largest outs
};

/// The zero-layer view (framework-math, section 4): the direct path T = E U [source, out] approximates the bigrams'
/// log-likelihood; in a deeper model it only carries what other terms leave of them.
struct BigramComparison {
  std::vector<BigramSource> sources;  ///< by token, rising
  Index pairs = 0;                    ///< bigrams in the text
  /// Means over sources weighted by their counts: of the rank correlation, and of that of the text's unigram counts
  /// (the same order of outs whatever the source), which is what the direct path has to surpass to know bigrams.
  double correlation = 0.0, unigram_correlation = 0.0;
  /// Spearman over all different bigrams that occur: ln softmax(T) with ln n(a, b) / n(a), and the same of unigrams'
  /// ln n(b).
  double seen_correlation = 0.0, seen_unigram_correlation = 0.0;
  double loss = 0.0, unigram_loss = 0.0, entropy = 0.0;  ///< nats a bigram; the unigrams' and bigrams' own
};

/// Exact, streamed: rows of T for the sources that occur, 16 M entries at a time (64 MB); 2 V d_model operations a
/// source. Errors: usage (no bigram, top < 0).
BigramComparison compare_bigrams(const Model& model, const std::vector<BigramRow>& rows,
                                 const BigramOptions& options = {});

}  // namespace kirchhoff
