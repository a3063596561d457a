#pragma once
#include "kirchhoff/model/model.h"

namespace kirchhoff::token_vectors {

/// Rows [begin, end) of the embedding as heads read them, [end - begin, d_model] in `out`: scaled, normalised where the
/// model does that to embeddings, then divided as the norm before a head divides a stream that holds nothing else
/// (framework-math, section 5), gains left to the head's weights. Raw: as in the file. In parallel.
void source_rows(const Model& model, bool raw, Index begin, Index end, float* out);
/// The same before that division: as the stream holds them.
void stream_rows(const Model& model, bool raw, Index begin, Index end, float* out);
/// The same as the unembedding reads them: divided as the final norm divides a stream that holds nothing else. These
/// rows times logit_rows are the logits of the model without its layers, but for constants of each output.
void direct_rows(const Model& model, bool raw, Index begin, Index end, float* out);
/// Rows of W_pos, which shortformer adds behind the norm and others to the stream: as they are.
void position_rows(const Model& model, Index begin, Index end, float* out);
/// Directions that the logits [begin, end) read: columns of W_U with the final norm's gain, centred over d_model if it
/// subtracts a mean, times the logits' scale. Raw: as in the file. In parallel.
void logit_rows(const Model& model, bool raw, Index begin, Index end, float* out);

}  // namespace kirchhoff::token_vectors
