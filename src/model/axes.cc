#include "model/axes.h"

#include <cctype>  // for isspace, isalnum, isdigit

namespace kirchhoff {
namespace {

/// A parsed axis: a name or number, a product of items, or a concatenation of products.
struct Node {
  enum class Kind { atom, product, concatenation } kind = Kind::product;
  std::string name;         ///< atom
  std::vector<Node> items;  ///< product: factors; concatenation: parts
  std::size_t taken = 0;    ///< concatenation: the starred part
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  /// Everything up to `closing` (0: the end): a list of items.
  std::vector<Node> list(char closing) {
    std::vector<Node> items;
    while (peek() != closing) items.push_back(item());
    if (closing) ++at_;
    return items;
  }

 private:
  char peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  Node item() {
    const char c = peek();
    if (c == '(') {
      ++at_;
      return {Node::Kind::product, {}, list(')')};
    }
    if (c == '[') {
      ++at_;
      return concatenation();
    }
    Node atom{Node::Kind::atom, {}, {}};
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
      atom.name += text_[at_++];
    check(!atom.name.empty(), ErrorCode::internal, "axes '{}': unexpected character at {}", text_, at_);
    return atom;
  }

  Node concatenation() {
    Node node{Node::Kind::concatenation, {}, {}};
    int stars = 0;
    for (bool more = true; more;) {
      if (peek() == '*') {
        ++at_;
        ++stars;
        node.taken = node.items.size();
      }
      Node part;
      while (peek() != '|' && peek() != ']') part.items.push_back(item());
      more = text_[at_++] == '|';
      node.items.push_back(std::move(part));
    }
    check(stars == 1, ErrorCode::internal, "axes '{}': a concatenation needs one starred part", text_);
    return node;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// An axis of the source with its place in memory.
struct Placed {
  std::string name;
  Gather::Axis axis;
  bool used = false;
};

class Compiler {
 public:
  Compiler(std::string_view pattern, const Dimensions& dimensions) : pattern_(pattern), dimensions_(dimensions) {}

  Gather compile(std::string_view source_text, std::string_view target_text) {
    const std::vector<Node> source = Parser(source_text).list('\0');
    const std::vector<Node> target = Parser(target_text).list('\0');
    check(target.size() == 1 || target.size() == 2, ErrorCode::internal, "axes '{}': the target needs 1 or 2 axes",
          pattern_);

    Index stride = 1;
    for (auto node = source.rbegin(); node != source.rend(); ++node) {
      place(*node, stride);
      stride *= size(*node);
    }
    Gather gather;
    for (const Node& node : source) gather.source.push_back(size(node));
    gather.offset = offset_;
    order(target[0], gather.rows, gather.d_out);
    if (target.size() == 2) order(target[1], gather.cols, gather.d_in);
    for (const Placed& placed : placed_)
      check(placed.used, ErrorCode::internal, "axes '{}': '{}' is not in the target", pattern_, placed.name);
    return gather;
  }

 private:
  Index size(const Node& node) const {
    if (node.kind == Node::Kind::atom) {
      if (std::isdigit(static_cast<unsigned char>(node.name[0]))) return std::stoll(node.name);
      const auto it = dimensions_.find(node.name);
      check(it != dimensions_.end(), ErrorCode::internal, "axes '{}': '{}' has no size", pattern_, node.name);
      return it->second;
    }
    const bool product = node.kind == Node::Kind::product;
    Index n = product ? 1 : 0;
    for (const Node& item : node.items) n = product ? n * size(item) : n + size(item);
    return n;
  }

  void place(const Node& node, Index stride) {
    switch (node.kind) {
      case Node::Kind::atom:
        placed_.push_back({node.name, {size(node), stride}});
        break;
      case Node::Kind::product:
        for (auto item = node.items.rbegin(); item != node.items.rend(); ++item) {
          place(*item, stride);
          stride *= size(*item);
        }
        break;
      case Node::Kind::concatenation:
        for (std::size_t i = 0; i < node.taken; ++i) offset_ += size(node.items[i]) * stride;
        place(node.items[node.taken], stride);
        break;
    }
  }

  /// Appends the axes that a target entry names, merging those that lie in memory as one.
  void order(const Node& node, std::vector<Gather::Axis>& axes, Index& total) {
    check(node.kind != Node::Kind::concatenation, ErrorCode::internal, "axes '{}': no brackets in a target", pattern_);
    if (node.kind == Node::Kind::product) {
      for (const Node& item : node.items) order(item, axes, total);
      return;
    }
    for (Placed& placed : placed_) {
      if (placed.name != node.name || placed.used) continue;
      placed.used = true;
      total *= placed.axis.size;
      if (placed.axis.size == 1) return;
      if (!axes.empty() && axes.back().stride == placed.axis.stride * placed.axis.size) {
        axes.back() = {axes.back().size * placed.axis.size, placed.axis.stride};
      } else {
        axes.push_back(placed.axis);
      }
      return;
    }
    fail(ErrorCode::internal, "axes '{}': '{}' is not in the source", pattern_, node.name);
  }

  std::string_view pattern_;
  const Dimensions& dimensions_;
  std::vector<Placed> placed_;
  Index offset_ = 0;
};

Index offset_of(const std::vector<Gather::Axis>& axes, Index index) {
  Index offset = 0;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    offset += index % axis->size * axis->stride;
    index /= axis->size;
  }
  return offset;
}

}  // namespace

Dimensions dimensions(const ModelConfig& c) {
  return {{"v", c.d_vocab},
          {"u", c.d_vocab_out},
          {"p", c.n_ctx},
          {"m", c.d_model},
          {"f", c.d_mlp},
          {"h", c.n_heads},
          {"d", c.d_head},
          {"g", c.n_kv_heads},
          {"t", 2},
          {"e", c.d_head / 2},
          {"r", c.n_kv_heads > 0 ? c.n_heads / c.n_kv_heads : 0}};
}

Gather compile_axes(std::string_view pattern, std::string_view target, const Dimensions& dimensions) {
  const auto arrow = pattern.find("->");
  const std::string_view source = pattern.substr(0, arrow);
  if (arrow != std::string_view::npos) target = pattern.substr(arrow + 2);
  return Compiler(pattern, dimensions).compile(source, target);
}

Index Gather::row_offset(Index row) const { return offset + offset_of(rows, row); }
Index Gather::column_offset(Index column) const { return offset_of(cols, column); }

bool Gather::contiguous_rows() const { return cols.empty() || (cols.size() == 1 && cols[0].stride == 1); }

bool Gather::identity() const {
  return contiguous_rows() && offset == 0 && element_count(source) == d_out * d_in &&
         (rows.empty() || (rows.size() == 1 && rows[0].stride == d_in));
}

}  // namespace kirchhoff
