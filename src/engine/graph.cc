#include "kirchhoff/engine/graph.h"

#include <algorithm>  // for find

#include "kirchhoff/base/error.h"

namespace kirchhoff {

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
  const auto found = std::find(writers_.begin(), writers_.end(), writer);
  return found == writers_.end() ? -1 : found - writers_.begin();
}

Index Graph::index_of(const Reader& reader) const {
  const auto found = std::find(readers_.begin(), readers_.end(), reader);
  return found == readers_.end() ? -1 : found - readers_.begin();
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

}  // namespace kirchhoff
