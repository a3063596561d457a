#pragma once
#include <vector>  // for vector

#include "kirchhoff/weights/token_circuit.h"

namespace kirchhoff {

/// The two circuits that a head's skip-trigrams "[source] .. [destination] -> [out]" are read from (framework-math,
/// section 5), by source: where it is attended to from, and what it then does to the logits.
struct HeadTables {
  TokenCircuit attention;  ///< [source, destination]: C_QK with its axes swapped; centred over the keys of each query
  TokenCircuit output;     ///< [source, out]: C_OV, centred over the vocabulary
  /// Mean and standard deviation over all entries of each, exact (from sums and Grams of the thin factors).
  double attention_mean = 0.0, attention_sd = 0.0, output_mean = 0.0, output_sd = 0.0;
};

/// Four thin matrices [V, d_head] in float. `head` may be a virtual one.
HeadTables head_tables(const Model& model, const HeadMatrices& head, const CircuitOptions& options = {});

/// An entry of one of the two tables, in its row.
struct TrigramToken {
  Index token = 0;
  float value = 0.0F;
  double deviation = 0.0;  ///< (value - mean) / sd of the table: how far out of the common
};

/// What one source takes part in. The two lists have nothing but the source in common: a head raises every out behind
/// every destination, in proportion to exp(attention) of one and output of the other. Their values are never
/// multiplied: attention entries lie inside of a softmax.
struct SourceTrigrams {
  Index source = 0;
  std::vector<TrigramToken> destinations, outs;  ///< the largest, falling
  /// The smaller of the two deviations of destinations[0] and outs[0]: both are at least so far out.
  double strength = 0.0;
};

SourceTrigrams source_trigrams(const HeadTables& tables, Index source, Index k);

/// The same of every source, streamed over both tables: 4 V^2 d_head operations, memory 48 k V bytes. `progress`: stage
/// "stream", counted in sources, once for each table.
std::vector<SourceTrigrams> all_source_trigrams(const HeadTables& tables, Index k, const Progress& progress = {});

/// What says which sources are the strongest.
enum class TrigramRanking {
  both,       ///< strength: strong in attention and in output
  attention,  ///< the largest attention entry
  output,     ///< the largest output entry
};
/// Indices of the `count` strongest, strongest first; of equal ones the lower token.
std::vector<Index> strongest_sources(const std::vector<SourceTrigrams>& sources, TrigramRanking ranking, Index count);

/// Four tokens that show what a head cannot: f(source, destination, out) = f1(source, destination) f2(source, out). If
/// it raises out 0 behind destination 0 and out 1 behind destination 1 ("keep .. in mind", "keep .. at bay"), it raises
/// the crossed pairs too ("keep .. in bay", "keep .. at mind").
struct TrigramBug {
  Index source = 0;
  TrigramToken destination[2], out[2];
  double strength = 0.0;  ///< the smallest deviation of the four
  /// T(b0, c0) + T(b1, c1) - T(b0, c1) - T(b1, c0) in logits of the direct path, destinations b, outs c: how much more
  /// the bigrams that the model knows without the head believe in the pairs than in the crossed pairs. What a token
  /// has in common with all others drops out.
  double contrast = 0.0;
};

struct TrigramBugOptions {
  bool raw = false;         ///< the direct path's form
  double deviation = 4.0;   ///< all four entries are at least so far out
  Index candidates = 5000;  ///< sources that are looked at, strongest first
  Index count = 20;         ///< bugs to return
  Progress progress = {};   ///< stage "bugs", counted in sources
};

/// For each candidate the two pairs of its listed destinations and outs with the largest contrast; of these the `count`
/// with the largest, largest first, none without a positive one. No pair is a token and itself. A pair of outs and a
/// pair of destinations is listed once, with its strongest source.
std::vector<TrigramBug> trigram_bugs(const Model& model, const std::vector<SourceTrigrams>& sources,
                                     const TrigramBugOptions& options = {});

}  // namespace kirchhoff
