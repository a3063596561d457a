#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/weights/head_matrices.h"

namespace kirchhoff {

enum class CircuitKind {
  ov,  ///< what a token that is attended to does to the logits: [source, out]
  qk,  ///< how much a token attends to another: [query, key]
};

/// What a side of a QK circuit stands for.
enum class CircuitInput {
  token,
  position,  ///< rows of W_pos: shortformer's (behind the norm, so that no gain touches them) and learned ones
};

struct CircuitOptions {
  HeadForm form = {};
  CircuitInput query = CircuitInput::token, key = CircuitInput::token;  ///< of QK
  /// Subtract from each row its mean over the columns: OV rows are then logits that leave the softmax's constant out,
  /// QK rows compare keys of one query (section 5). Never if the form is raw.
  bool centre = true;
  Progress progress = {};  ///< stage "expand", counted in tokens
};

/// A head's circuit from token to token, as two thin float matrices: entry (i, j) = left[i] . right[j]. The whole
/// matrix (vocabulary x vocabulary) is computed tile by tile where it is asked about, never kept.
struct TokenCircuit {
  CircuitKind kind = CircuitKind::ov;
  Tensor left;   ///< [rows, d_head]
  Tensor right;  ///< [columns, d_head]
  bool centred = false;

  Index rows() const { return left.dim(0); }
  Index columns() const { return right.dim(0); }
  /// In double, for spectra and norms.
  FactoredMatrix factored() const;
};

/// OV: E W_V W_O U; QK: E W_Q W_K^T E^T * score_scale, with E the embedding as heads read it (divided by the norm's
/// divisor of a stream that holds this embedding alone) and U the unembedding with the final norm's gain; a norm of q
/// and k per head is applied token by token. In the first layer of a model without biases or added positions QK entries
/// are its scores. `head` may be one of keys_through or virtual_head; it was made with `options.form`.
/// Errors: usage (positions where the model has no W_pos).
TokenCircuit token_circuit(const Model& model, const HeadMatrices& head, CircuitKind kind,
                           const CircuitOptions& options = {});

/// Sentences about what the entries are, for results.
std::vector<std::string> circuit_notes(const Model& model, CircuitKind kind, const CircuitOptions& options);

/// Row i [columns], column j [rows], and the diagonal of a square circuit.
std::vector<float> circuit_row(const TokenCircuit& circuit, Index row);
std::vector<float> circuit_column(const TokenCircuit& circuit, Index column);
/// The whole of it. Error{usage} above `limit` entries.
Tensor circuit_matrix(const TokenCircuit& circuit, Index limit = Index{1} << 28);

struct CircuitEntry {
  Index row = 0, column = 0;
  float value = 0.0F;
};
/// The k largest, falling, and the k smallest, rising.
struct CircuitExtremes {
  std::vector<CircuitEntry> top, bottom;
};
CircuitExtremes extremes(std::span<const float> values, Index k);

/// Of the whole matrix, streamed. `progress`: stage "stream", counted in rows.
CircuitExtremes circuit_extremes(const TokenCircuit& circuit, Index k, const Progress& progress = {});
/// The k largest of every row, streamed: [rows][k], of equal ones the lower column.
std::vector<std::vector<CircuitEntry>> circuit_row_tops(const TokenCircuit& circuit, Index k,
                                                        const Progress& progress = {});

/// How tokens stand to themselves. A token's rank is that of its own column in its row (of the output for a source, of
/// the key for a query): never of its row in a column.
struct DiagonalStatistics {
  double trace = 0.0, mean = 0.0, sd = 0.0;
  double mean_of_all = 0.0;     ///< of all entries of the matrix
  double positive_share = 0.0;  ///< of the diagonal's entries that are above 0
  double top_1 = 0.0, top_k = 0.0;
  Index k = 0;
  std::vector<float> values;  ///< the diagonal
  std::vector<Index> ranks;   ///< 1 where a token's own entry is the largest of its row
};
/// Streamed. Error{usage} unless square.
DiagonalStatistics diagonal_statistics(const TokenCircuit& circuit, Index k = 5, const Progress& progress = {});

}  // namespace kirchhoff
