#pragma once
#include <array>   // for array
#include <map>     // for map
#include <vector>  // for vector

#include "engine/editor.h"
#include "engine/selected_rows.h"
#include "engine/value_source.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff::engine {

/// Changes what readers see of writers. When a writer has written, what its contribution is to be replaced by, less the
/// contribution itself, is kept for the edges that leave it; each reader adds up those of its edges:
///
///   input(v) = stream + sum over edges u -> v of (replacement_u - contribution_u)
///
/// Memory: d_model numbers for each writer and each token that an edge intervention names.
template <class Real>
class EdgeEditor {
 public:
  /// Error{usage} for edges that do not exist, that are replaced twice, or whose reader's input is replaced as a whole.
  EdgeEditor(const Model& model, const BatchLayout& layout, const Interventions& interventions,
             const Editor<Real>& editor);

  /// What writers have written, row i the token of row map(i). Of tokens that the buffer lacks, what was said of them
  /// before stays.
  /// Of the embedding: [rows, d_model].
  void wrote(Writer::Kind kind, View<const Real, 2> x, RowMap map = {});
  bool wants_heads(Index layer) const { return writes(Writer::Kind::head, layer); }
  /// z: [rows, H dh]; scale: the divisor of the norm behind attention, [rows], or null without one.
  void wrote_heads(Index layer, View<const Real, 2> z, ConstMatrix W_O, const Real* scale, RowMap map = {});
  bool wants_mlp(Index layer) const { return writes(Writer::Kind::mlp, layer); }
  /// What the MLP has added to the stream, [rows, d_model].
  void wrote_mlp(Index layer, View<const Real, 2> out, RowMap map = {});

  bool empty() const { return sets_.empty(); }
  /// What readers are told apart by; a group of one head is that head.
  using Key = std::array<Index, 3>;
  static Key key(const ModelConfig& config, const Reader& reader);
  /// The readers that edges lead into.
  std::vector<Key> readers() const;
  bool writes(Writer::Kind kind, Index layer = 0) const;
  /// Whether edges lead into attention, into the MLP of a layer, into the logits.
  bool reads_attention(Index layer) const;
  bool reads(const Reader& reader) const { return links_.contains(key(reader)); }
  /// The rows of the batch at which edges lead into a reader, sorted.
  std::vector<Index> rows(const Reader& reader) const;
  /// Adds to a reader's input, values[i] = the token of row map(i).
  void add(const Reader& reader, View<Real, 2> values, RowMap map = {}) const;

  // edge_pull.cc: what a backward of the whole batch asks of the forward's editor, readers before writers.
  /// What differences owe to the gradient of a reader's input, d: [N, d_model].
  void pull(const Reader& reader, View<const Real, 2> d);
  /// d, of what a writer has written, less the gradient of its differences: [N, d_model].
  void pull_writer(Writer::Kind kind, Index layer, View<Real, 2> d) const;
  /// The same for the heads of a layer: dz [N, H dh] and dscale [N], the divisor's, each unless it has no data.
  void pull_heads(Index layer, ConstMatrix W_O, View<const Real, 2> z, const Real* scale, Real* dscale,
                  View<Real, 2> dz) const;

 private:
  /// The replacement of one writer.
  struct Replaced {
    Writer writer;
    ValueSource source{};          // in z of a head, else in the stream
    BasicTensor<Real> difference;  // [rows, d_model], when it is known
    BasicTensor<Real> gradient{};  // of the difference, in a backward
  };
  /// One edge intervention.
  struct Set {
    std::string what;
    Edit edit = Edit::resample;
    std::vector<TokenRow> rows;
    std::vector<Replaced> writers;
    ValueSource given{};  // of `set`, in the stream
  };
  struct Link {
    std::size_t set, writer;
  };
  Key key(const Reader& reader) const { return key(config_, reader); }
  void add_set(const EdgeIntervention& edges, std::string what);
  ValueSource source_of(const EdgeIntervention& edges, const Writer& writer, const std::string& what) const;
  void check_conflicts(const std::vector<EdgeIntervention>& edges, const Editor<Real>& editor) const;
  /// One token of a set that a buffer has.
  struct Written {
    Index index;  // in the set's rows
    Index row;    // of the buffer
  };
  std::vector<Written> written(const Set& set, Index rows, RowMap map) const;
  View<Real, 2> differences(const Set& set, Replaced& writer) const;
  /// Calls f(set, writer, its tokens in the buffer) for each writer that is replaced.
  template <class F>
  void for_each_writer(Writer::Kind kind, Index layer, Index rows, RowMap map, const F& f);
  /// The replacement of a contribution to the stream.
  void read_replacement(const Set& set, const Replaced& writer, const TokenRow& token, std::span<Real> out) const;

  const Model& model_;
  const ModelConfig& config_;
  const BatchLayout& layout_;
  std::vector<Set> sets_;
  std::map<Key, std::vector<Link>> links_;  // by reader
};

}  // namespace kirchhoff::engine
