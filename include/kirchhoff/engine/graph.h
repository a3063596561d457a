#pragma once
#include <cstdint>      // for uint8_t
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "kirchhoff/model/config.h"

namespace kirchhoff {

/// What adds to the residual stream. Biases of attention and MLP outputs belong to no writer: they cancel when a
/// contribution is exchanged for that of another run, and stay when it is removed.
struct Writer {
  enum class Kind : std::uint8_t {
    embed,     ///< everything that the stream begins with: "embed"
    token,     ///< the token embedding alone: "tok"
    position,  ///< the position embedding alone: "pos"
    head,      ///< z_h W_O^h: "a9.h3"
    mlp,       ///< the MLP's output without b_out: "m9"
  };
  Kind kind = Kind::embed;
  Index layer = 0, head = 0;  ///< 0 where the kind has none
  friend bool operator==(const Writer&, const Writer&) = default;
};

/// What reads the residual stream, before its norm.
struct Reader {
  enum class Kind : std::uint8_t {
    q,        ///< queries of a head: "a9.h3.q"
    k,        ///< keys that one query head sees (its own copy, where heads share them): "a9.h3.k"
    v,        ///< values that one query head sees: "a9.h3.v"
    group_k,  ///< keys of a key/value head, for all query heads that share it: "a9.g1.k"
    group_v,  ///< values of a key/value head: "a9.g1.v"
    head,     ///< q, k and v of a head at once: "a9.h3"
    mlp,      ///< "m9"
    logits,   ///< the final norm and the unembedding: "logits"
  };
  Kind kind = Kind::logits;
  Index layer = 0, head = 0;  ///< head: of group_k and group_v the key/value head; 0 where the kind has none
  friend bool operator==(const Reader&, const Reader&) = default;
};

/// What a reader sees of a writer.
struct Edge {
  Writer writer;
  Reader reader;
  friend bool operator==(const Edge&, const Edge&) = default;
};

/// "embed", "tok", "pos", "a9.h3", "m9"; "a9.h3.q", "a9.g1.k", "logits"; "m3->a9.h3.q".
std::string name(const Writer& writer);
std::string name(const Reader& reader);
std::string name(const Edge& edge);

/// Error{usage} unless a network has this writer and this reader (of whatever graph options), written before read.
void check_edge(const ModelConfig& config, const Edge& edge);

/// Which components count as one.
struct GraphOptions {
  bool split_embed = false;      ///< "tok" and "pos" instead of "embed", where positions are embedded into the stream
  bool split_qkv = true;         ///< false: one reader a head, "a9.h3"
  bool native_kv_heads = false;  ///< heads that share keys and values: readers "a9.g1.k", instead of one copy a head
};

/// The writers and readers of a network and the edges between them. An edge u -> v exists iff u is written before v is
/// read, so a reader sees the first `writers_before(v)` writers, in the order of `writers()`. Heads of one layer do not
/// see each other; the MLP sees the heads of its layer unless the blocks are parallel.
///
/// Edges, with w_l writers before layer l, H heads, r readers of an attention (3 H; H unsplit; H + 2 G native):
///   sum over l of (r w_l + [MLP] (w_l + [sequential] H)) + w_L
class Graph {
 public:
  explicit Graph(const ModelConfig& config, const GraphOptions& options = {});

  const GraphOptions& options() const { return options_; }
  /// embed (or tok, pos); then by layer its heads and its MLP.
  const std::vector<Writer>& writers() const { return writers_; }
  /// By layer all q, all k, all v (or all heads), the MLP; at the end logits.
  const std::vector<Reader>& readers() const { return readers_; }
  /// Error{usage} if the graph has no such reader.
  Index writers_before(const Reader& reader) const;
  Index n_edges() const { return n_edges_; }
  /// All edges, by reader, each reader's in the order of its writers.
  std::vector<Edge> edges() const;

  /// Position in `writers()` or `readers()`; -1 if the graph has none such.
  Index index_of(const Writer& writer) const;
  Index index_of(const Reader& reader) const;
  bool contains(const Edge& edge) const;

  /// What `name` prints, read again. Error{usage} if the graph has no such thing, saying why, or which names are
  /// nearest.
  Writer writer(std::string_view text) const;
  Reader reader(std::string_view text) const;
  Edge edge(std::string_view text) const;

  /// "32491 edges from 157 writers to 445 readers (one embedding, q, k and v apart)": what to print with every count.
  std::string describe() const;

 private:
  std::string describe_options() const;
  Index prefix(const Reader& reader) const;

  GraphOptions options_;
  Index n_layers_, n_heads_, n_kv_heads_;
  bool parallel_, has_mlp_;
  Index n_embed_ = 1;  // writers before layer 0
  std::vector<Writer> writers_;
  std::vector<Reader> readers_;
  Index n_edges_ = 0;
};

}  // namespace kirchhoff
