#pragma once
#include "kirchhoff/model/model.h"
#include "kirchhoff/weights/head_matrices.h"

namespace kirchhoff::folding {

/// Rows (directions that are read) times a norm's gain, then centred if the norm subtracts a mean. In this order:
/// x -> (x - mean x) / s * w is x M diag(w) / s.
void fold_reader(NormKind kind, const NormWeights& norm, View<double, 2> rows);
void scale_columns(const WeightVector& gain, View<double, 2> rows);
/// Each row minus its mean.
void centre_rows(View<double, 2> rows);
/// Whether everything that reads the stream subtracts its mean, so that nobody sees the mean of what is written.
bool readers_subtract_mean(const ModelConfig& config);

/// head_matrices with the gains of a q/k norm left out if not `qk_gains`: what the norm's divisor is computed from.
HeadMatrices head_matrices(const Model& model, Index layer, Index head, const HeadForm& form, bool qk_gains);

}  // namespace kirchhoff::folding
