#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/weights/head_chain.h"

namespace kirchhoff {

/// What writes into the residual stream or reads from it.
enum class PartyKind { embed, pos, head, mlp, unembed };

struct Party {
  PartyKind kind = PartyKind::embed;
  Index layer = 0;       ///< of an MLP
  HeadChain chain = {};  ///< of a head or virtual head
  friend bool operator==(const Party&, const Party&) = default;
};
/// "embed", "pos", "a1.h3" ("a1.h3*a0.h2"), "m3", "unembed".
std::string node(const Party& party);

/// By what a party reads.
enum class StreamInput {
  q,       ///< a head's queries: |W W_QK|
  k,       ///< its keys: |W W_QK^T|
  v,       ///< its values: |W W_OV|
  in,      ///< an MLP's W_in
  gate,    ///< a gated MLP's W_gate
  logits,  ///< the unembedding
};
std::string name(StreamInput input);
/// The inputs that a reader has in this model.
std::vector<StreamInput> inputs_of(const ModelConfig& config, const Party& party);

/// Writers (embed, pos where learned positions are added to the stream, heads, MLPs) and readers (heads, MLPs, unembed)
/// of a model, in the stream's order.
std::vector<Party> writers(const ModelConfig& config);
std::vector<Party> readers(const ModelConfig& config);
/// Whether the reader sees what the writer wrote. A virtual head writes where its last head does; its queries are read
/// there, its keys and values where its first head reads. An MLP beside the attention does not see its layer's heads.
bool sees(const ModelConfig& config, const Party& writer, const Party& reader, StreamInput input);

/// |W R| / (|W| |R|) of what one party writes, W [.., d_model], and another reads, R [d_model, ..]: rows of W_E as
/// heads read them (divided by their own norm), of W_pos, a head's W_OV, rows of W_out (a norm behind the MLP folded
/// in); W_QK, W_QK^T, W_OV, W_in and W_gate with the gain of the norm before, W_U with the final norm's, centred over
/// the vocabulary. `form.raw`: all as in the file. The measure and the baseline are those of composition of heads.
struct PartyScore {
  Party from, to;
  StreamInput input = StreamInput::q;
  double score = 0.0;
  /// What the score spreads by when one party is turned at random against the other, their spectra as they are:
  /// score^2 has variance 2 (|A|^2 - 1/d) (|B|^2 - 1/d) / ((d - 1) (d + 2)) exactly, A and B the Grams of trace 1, d =
  /// d_model; to first order the score's deviation is that of its square over twice the baseline. 0 where one of them
  /// reads or writes all directions alike: every score is the baseline then.
  double chance_sd = 0.0;
};
struct PartyComposition {
  std::vector<PartyScore> scores;
  double baseline = 0.0;  ///< 1 / sqrt(d_model)
};

struct PartyOptions {
  HeadForm form = {};
  std::vector<Party> from, to;  ///< empty: all writers, all readers
  Progress progress = {};       ///< stage "parties", counted in parties
};

/// All pairs of `from` and `to` that see each other, by reader, input, writer, but for those of two single heads, which
/// are composition()'s. Through Grams, never a V x V or V x d matrix: 2 n d_model^2 operations for a party of n rows, 2
/// d_head d_model^2 for a head and such a party; memory a Gram [d_model, d_model] in float for each party that is not a
/// head. Errors: usage (a party that the model does not have, no pair).
PartyComposition party_composition(const Model& model, const PartyOptions& options = {});

}  // namespace kirchhoff
