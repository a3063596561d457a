#pragma once
#include <functional>  // for function

#include "kirchhoff/weights/parties.h"

/// What parties write and read as rows: W [n, d_model] of a writer, R^T [n, d_model] of a reader, so that the virtual
/// weights between them are W R.
namespace kirchhoff::stream_rows {

/// What a row stands for.
enum class Axis {
  token,      ///< of the input vocabulary
  out_token,  ///< of the output vocabulary
  position,
  neuron,
  stream,   ///< a direction of the stream where a head reads it
  written,  ///< a direction of the stream that a head writes
};

struct Rows {
  Axis axis = Axis::token;
  Index count = 0;
  /// Writes rows [begin, end), [end - begin, d_model], into `out`. In parallel inside.
  std::function<void(Index begin, Index end, float* out)> block;
  /// What is taken off each row: the mean of all, of a centred unembedding; else empty.
  std::vector<double> mean = {};
};

/// Of a writer; of a reader by one of its inputs. The model outlives the result.
Rows written_rows(const Model& model, const Party& party, const HeadForm& form);
Rows read_rows(const Model& model, const Party& party, StreamInput input, const HeadForm& form);

/// Sum over rows of row^T row, [d_model, d_model], each minus `mean`.
TensorF64 gram(const Rows& rows, Index d_model);

/// rows . direction, one value a row.
std::vector<float> along(const Rows& rows, std::span<const double> direction);

/// chance_sd of a PartyScore from |A|^2 and |B|^2 of Grams of trace 1.
double turned_spread(double a, double b, Index d_model);

/// Error{usage} if the model does not have it.
void check_party(const ModelConfig& config, const Party& party, bool writes);

}  // namespace kirchhoff::stream_rows
