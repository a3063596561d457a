#include <algorithm>  // for transform
#include <charconv>   // for from_chars
#include <iterator>   // for back_inserter
#include <optional>   // for optional

#include "engine/near_names.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/graph.h"

namespace kirchhoff {
namespace {

using std::string_view;

/// Reads one name from left to right.
class NameParser {
 public:
  explicit NameParser(string_view text) : rest_(text) {}
  bool word(string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }
  /// `letter` and digits: "h12".
  std::optional<Index> number(char letter) {
    if (rest_.empty() || rest_[0] != letter) return {};
    Index value = 0;
    const char* const end = rest_.data() + rest_.size();
    const auto [after, status] = std::from_chars(rest_.data() + 1, end, value);
    if (status != std::errc() || value < 0) return {};
    rest_.remove_prefix(static_cast<std::size_t>(after - rest_.data()));
    return value;
  }
  bool done() const { return rest_.empty(); }

 private:
  string_view rest_;
};

std::optional<Writer> parse_writer(string_view text) {
  using Kind = Writer::Kind;
  if (text == "embed") return Writer{Kind::embed};
  if (text == "tok") return Writer{Kind::token};
  if (text == "pos") return Writer{Kind::position};
  NameParser parser(text);
  if (const auto layer = parser.number('m'))
    return parser.done() ? std::optional(Writer{Kind::mlp, *layer}) : std::nullopt;
  const auto layer = parser.number('a');
  if (!layer || !parser.word(".")) return {};
  const auto head = parser.number('h');
  return head && parser.done() ? std::optional(Writer{Kind::head, *layer, *head}) : std::nullopt;
}

std::optional<Reader> parse_reader(string_view text) {
  using Kind = Reader::Kind;
  if (text == "logits") return Reader{Kind::logits};
  NameParser parser(text);
  if (const auto layer = parser.number('m'))
    return parser.done() ? std::optional(Reader{Kind::mlp, *layer}) : std::nullopt;
  const auto layer = parser.number('a');
  if (!layer || !parser.word(".")) return {};
  if (const auto head = parser.number('h')) {
    if (parser.done()) return Reader{Kind::head, *layer, *head};
    for (const auto& [suffix, kind] : {std::pair(".q", Kind::q), {".k", Kind::k}, {".v", Kind::v}})
      if (parser.word(suffix) && parser.done()) return Reader{kind, *layer, *head};
  } else if (const auto group = parser.number('g')) {
    for (const auto& [suffix, kind] : {std::pair(".k", Kind::group_k), {".v", Kind::group_v}})
      if (parser.word(suffix) && parser.done()) return Reader{kind, *layer, *group};
  }
  return {};
}

template <class Node>
[[noreturn]] void fail_unknown_node(string_view role, string_view text, const std::vector<Node>& nodes,
                                    const std::string& options) {
  std::vector<std::string> names;
  std::transform(nodes.begin(), nodes.end(), std::back_inserter(names), [](const Node& n) { return name(n); });
  throw Error(ErrorCode::usage, fmt::format("the graph has no {} '{}' ({})", role, text, options),
              fmt::format("nearest: {}", fmt::join(engine::nearest_names(names, text, 3), ", ")));
}

}  // namespace

std::string name(const Writer& writer) {
  switch (writer.kind) {
    case Writer::Kind::embed:
      return "embed";
    case Writer::Kind::token:
      return "tok";
    case Writer::Kind::position:
      return "pos";
    case Writer::Kind::head:
      return fmt::format("a{}.h{}", writer.layer, writer.head);
    case Writer::Kind::mlp:
      return fmt::format("m{}", writer.layer);
  }
  return {};
}

std::string name(const Reader& reader) {
  switch (reader.kind) {
    case Reader::Kind::q:
      return fmt::format("a{}.h{}.q", reader.layer, reader.head);
    case Reader::Kind::k:
      return fmt::format("a{}.h{}.k", reader.layer, reader.head);
    case Reader::Kind::v:
      return fmt::format("a{}.h{}.v", reader.layer, reader.head);
    case Reader::Kind::group_k:
      return fmt::format("a{}.g{}.k", reader.layer, reader.head);
    case Reader::Kind::group_v:
      return fmt::format("a{}.g{}.v", reader.layer, reader.head);
    case Reader::Kind::head:
      return fmt::format("a{}.h{}", reader.layer, reader.head);
    case Reader::Kind::mlp:
      return fmt::format("m{}", reader.layer);
    case Reader::Kind::logits:
      return "logits";
  }
  return {};
}

std::string name(const Edge& edge) { return name(edge.writer) + "->" + name(edge.reader); }

Writer Graph::writer(string_view text) const {
  const std::optional<Writer> parsed = parse_writer(text);
  if (parsed && index_of(*parsed) >= 0) return *parsed;
  fail_unknown_node("writer", text, writers_, describe_options());
}

Reader Graph::reader(string_view text) const {
  const std::optional<Reader> parsed = parse_reader(text);
  if (parsed && index_of(*parsed) >= 0) return *parsed;
  fail_unknown_node("reader", text, readers_, describe_options());
}

Edge Graph::edge(string_view text) const {
  const std::size_t arrow = text.find("->");
  check(arrow != string_view::npos, ErrorCode::usage, "'{}' is no edge: expected WRITER->READER, as in 'embed->{}'",
        text, name(readers_.front()));
  const Edge edge{writer(text.substr(0, arrow)), reader(text.substr(arrow + 2))};
  if (contains(edge)) return edge;
  if (parallel_ && edge.writer.kind == Writer::Kind::head && edge.reader.kind == Reader::Kind::mlp &&
      edge.writer.layer == edge.reader.layer)
    fail(ErrorCode::usage, "there is no edge {}: the blocks are parallel, an MLP does not see the heads of its layer",
         text);
  fail(ErrorCode::usage, "there is no edge {}: {} is read before {} is written", text, name(edge.reader),
       name(edge.writer));
}

}  // namespace kirchhoff
