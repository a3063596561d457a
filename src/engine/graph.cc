#include "kirchhoff/engine/graph.h"

#include "kirchhoff/base/error.h"

namespace kirchhoff {
namespace {

/// `index`, if `node` is there; otherwise -1.
template <class Node>
Index at(const std::vector<Node>& nodes, Index index, const Node& node) {
  const bool there = index >= 0 && index < static_cast<Index>(nodes.size());
  return there && nodes[static_cast<std::size_t>(index)] == node ? index : -1;
}

}  // namespace

Graph::Graph(const ModelConfig& config, const GraphOptions& options)
    : options_(options),
      n_layers_(config.n_layers),
      n_heads_(config.n_heads),
      n_kv_heads_(config.n_kv_heads),
      parallel_(config.parallel),
      has_mlp_(!config.attn_only) {
  // Where each head has its own keys and values, its copies are the native ones.
  options_.native_kv_heads = options.native_kv_heads && n_kv_heads_ != n_heads_;
  check(!options_.native_kv_heads || options_.split_qkv, ErrorCode::usage,
        "a graph with native key/value heads splits q, k and v: {} query heads share {}", n_heads_, n_kv_heads_);

  // Shortformer's positions never enter the stream.
  options_.split_embed = options.split_embed && config.positions == Positions::learned;
  if (options_.split_embed)
    writers_ = {{Writer::Kind::token}, {Writer::Kind::position}};
  else
    writers_ = {{Writer::Kind::embed}};
  n_embed_ = static_cast<Index>(writers_.size());

  const auto append = [this](Reader::Kind kind, Index layer, Index heads) {
    for (Index h = 0; h < heads; ++h) readers_.push_back({kind, layer, h});
  };
  for (Index layer = 0; layer < n_layers_; ++layer) {
    for (Index h = 0; h < n_heads_; ++h) writers_.push_back({Writer::Kind::head, layer, h});
    if (has_mlp_) writers_.push_back({Writer::Kind::mlp, layer});
    if (!options_.split_qkv) {
      append(Reader::Kind::head, layer, n_heads_);
    } else {
      append(Reader::Kind::q, layer, n_heads_);
      append(options_.native_kv_heads ? Reader::Kind::group_k : Reader::Kind::k, layer,
             options_.native_kv_heads ? n_kv_heads_ : n_heads_);
      append(options_.native_kv_heads ? Reader::Kind::group_v : Reader::Kind::v, layer,
             options_.native_kv_heads ? n_kv_heads_ : n_heads_);
    }
    if (has_mlp_) append(Reader::Kind::mlp, layer, 1);
  }
  readers_.push_back({Reader::Kind::logits});
  for (const Reader& reader : readers_) n_edges_ += prefix(reader);
}

Index Graph::writers_before(const Reader& reader) const {
  check(index_of(reader) >= 0, ErrorCode::usage, "the graph has no reader {}", name(reader));
  return prefix(reader);
}

Index Graph::prefix(const Reader& reader) const {
  if (reader.kind == Reader::Kind::logits) return static_cast<Index>(writers_.size());
  const Index before_layer = n_embed_ + reader.layer * (n_heads_ + (has_mlp_ ? 1 : 0));
  return reader.kind == Reader::Kind::mlp && !parallel_ ? before_layer + n_heads_ : before_layer;
}

std::vector<Edge> Graph::edges() const {
  std::vector<Edge> edges;
  edges.reserve(static_cast<std::size_t>(n_edges_));
  for (const Reader& reader : readers_)
    for (Index w = 0; w < prefix(reader); ++w) edges.push_back({writers_[static_cast<std::size_t>(w)], reader});
  return edges;
}

Index Graph::index_of(const Writer& writer) const {
  Index index = 0;
  switch (writer.kind) {
    case Writer::Kind::embed:
    case Writer::Kind::token:
      break;
    case Writer::Kind::position:
      index = 1;
      break;
    case Writer::Kind::head:
      index = n_embed_ + writer.layer * (n_heads_ + (has_mlp_ ? 1 : 0)) + writer.head;
      break;
    case Writer::Kind::mlp:
      index = n_embed_ + writer.layer * (n_heads_ + 1) + n_heads_;
      break;
  }
  return at(writers_, index, writer);
}

Index Graph::index_of(const Reader& reader) const {
  const Index kv = options_.native_kv_heads ? n_kv_heads_ : n_heads_;
  const Index attention = options_.split_qkv ? n_heads_ + 2 * kv : n_heads_;
  Index index = reader.layer * (attention + (has_mlp_ ? 1 : 0)) + reader.head;
  switch (reader.kind) {
    case Reader::Kind::q:
    case Reader::Kind::head:
      break;
    case Reader::Kind::k:
    case Reader::Kind::group_k:
      index += n_heads_;
      break;
    case Reader::Kind::v:
    case Reader::Kind::group_v:
      index += n_heads_ + kv;
      break;
    case Reader::Kind::mlp:
      index += attention;
      break;
    case Reader::Kind::logits:
      index = static_cast<Index>(readers_.size()) - 1;
      break;
  }
  return at(readers_, index, reader);
}

bool Graph::contains(const Edge& edge) const {
  const Index writer = index_of(edge.writer);
  return writer >= 0 && index_of(edge.reader) >= 0 && writer < writers_before(edge.reader);
}

std::string Graph::describe_options() const {
  std::string text = options_.split_embed ? "token and position embedding apart, " : "one embedding, ";
  text += options_.split_qkv ? "q, k and v apart" : "one input a head";
  if (n_kv_heads_ == n_heads_ || !options_.split_qkv) return text;
  if (options_.native_kv_heads) return text + fmt::format(", {} native key/value heads", n_kv_heads_);
  return text + fmt::format(", keys and values copied for each of {} query heads", n_heads_);
}

std::string Graph::describe() const {
  return fmt::format("{} edges from {} writers to {} readers ({})", n_edges_, writers_.size(), readers_.size(),
                     describe_options());
}

void check_edge(const ModelConfig& c, const Edge& edge) {
  const Writer& w = edge.writer;
  const Reader& r = edge.reader;
  const auto within = [](Index i, Index size) { return i >= 0 && i < size; };
  const bool of_layer = w.kind == Writer::Kind::head || w.kind == Writer::Kind::mlp;
  const bool writes =
      of_layer ? within(w.layer, c.n_layers) &&
                     (w.kind == Writer::Kind::mlp ? !c.attn_only && w.head == 0 : within(w.head, c.n_heads))
               : w.layer == 0 && w.head == 0 && (w.kind != Writer::Kind::position || c.positions == Positions::learned);
  check(writes, ErrorCode::usage, "edge {}: the model has no writer {}", name(edge), name(w));

  const bool of_group = r.kind == Reader::Kind::group_k || r.kind == Reader::Kind::group_v;
  const bool one_a_layer = r.kind == Reader::Kind::mlp;
  const bool reads =
      r.kind == Reader::Kind::logits
          ? r.layer == 0 && r.head == 0
          : within(r.layer, c.n_layers) &&
                (one_a_layer ? !c.attn_only && r.head == 0 : within(r.head, of_group ? c.n_kv_heads : c.n_heads));
  check(reads, ErrorCode::usage, "edge {}: the model has no reader {}", name(edge), name(r));

  // Half-layers: attention of layer l reads at 2 l and has written at 2 l + 1, the MLP has at 2 l + 2.
  const Index written = !of_layer ? 0 : 2 * w.layer + (w.kind == Writer::Kind::head ? 1 : 2);
  const Index read = r.kind == Reader::Kind::logits
                         ? 2 * c.n_layers
                         : 2 * r.layer + (r.kind == Reader::Kind::mlp && !c.parallel ? 1 : 0);
  check(written <= read, ErrorCode::usage, "there is no edge {}: {} is read before {} is written", name(edge), name(r),
        name(w));
}

}  // namespace kirchhoff
