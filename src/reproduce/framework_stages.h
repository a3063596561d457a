#pragma once
#include "reproduce/materials.h"

// The analyses of "A Mathematical Framework for Transformer Circuits" on the models "0l", "1l" and "2l" of a chain.
// Each gives its stage's result.

namespace kirchhoff::reproduce {

struct FrameworkSizes {
  Index windows = 128;      ///< of held-out text, for losses and term importance
  Index text_windows = 32;  ///< for scores on text
  Index queries = 256;      ///< that an induction head's scores are taken apart at
  Index context = 256;
};

/// The direct path of the model without layers beside the text's bigrams.
Json zero_layer(const StageRun& run, const FrameworkSizes& sizes);
/// What each head of the one-layer model copies, and where it attends to by positions alone.
Json one_layer_heads(const StageRun& run, const FrameworkSizes& sizes);
/// The strongest skip-trigrams of the one-layer model, and its bugs.
Json skip_trigrams(const StageRun& run);
/// Losses by order of the path expansion of the two-layer model.
Json terms_by_order(const StageRun& run, const FrameworkSizes& sizes);
/// Heads of both models on random tokens that repeat, and the losses of the blocks.
Json random_repeats(const StageRun& run, const FrameworkSizes& sizes);
/// Composition of all pairs, true and as in the erratum.
Json composition_scores(const StageRun& run);
/// QK positivity through the previous-token head against OV positivity, of the second layer's heads; and the same of a
/// model that has learned nothing.
Json positivity_plane(const StageRun& run, const train::TrainingConfig& untrained);
/// From which token the keys of an induction head take what its queries match.
Json keys_by_token(const StageRun& run, const FrameworkSizes& sizes);

}  // namespace kirchhoff::reproduce
