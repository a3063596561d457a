#include "kirchhoff/engine/graph_json.h"

#include "kirchhoff/base/error.h"
#include "kirchhoff/io/json_file.h"

namespace kirchhoff {
namespace {

using Json = nlohmann::ordered_json;

/// "a9.h3.q" <-> "a9.h3<q>", "embed" <-> "input".
std::string eap_name(const Writer& writer) { return writer.kind == Writer::Kind::embed ? "input" : name(writer); }
std::string eap_name(const Edge& edge) {
  std::string reader = name(edge.reader);
  if (const std::size_t dot = reader.rfind('.'); edge.reader.kind < Reader::Kind::group_k)
    reader = fmt::format("{}<{}>", reader.substr(0, dot), reader.substr(dot + 1));
  return fmt::format("{}->{}", eap_name(edge.writer), reader);
}
std::string own_name(std::string text) {
  if (text.starts_with("input")) text.replace(0, 5, "embed");
  if (text.ends_with(">") && text.size() > 3 && text[text.size() - 3] == '<')
    text.replace(text.size() - 3, 3, {'.', text[text.size() - 2]});
  return text;
}

const Json& member_of(const Json& object, const char* key, const std::string& path) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  check(found != object.end(), ErrorCode::format, "'{}': key '{}' is missing", path, key);
  return *found;
}

Index size_of(const Json& cfg, const char* key, const std::string& path) {
  const Json& value = member_of(cfg, key, path);
  check(value.is_number_integer() && value >= 1 && value <= 1'000'000, ErrorCode::format,
        "'{}': cfg.{} is {}, expected a size", path, key, value.dump());
  return value.get<Index>();
}

bool flag_of(const Json& object, const char* key, const std::string& where, const std::string& path) {
  const Json& value = member_of(object, key, path);
  check(value.is_boolean(), ErrorCode::format, "'{}': {}: '{}' is {}, expected true or false", path, where, key,
        value.dump());
  return value.get<bool>();
}

/// What `parse` makes of a name; a name that the network lacks is the file's fault.
template <class Parse>
auto named(const Parse& parse, const std::string& text, const std::string& path) {
  try {
    return parse(own_name(text));
  } catch (const Error& error) {
    fail(ErrorCode::format, "'{}': '{}': {}", path, text, error.what());
  }
}

}  // namespace

ModelConfig ScoredGraph::network() const {
  ModelConfig config;
  config.n_layers = n_layers;
  config.n_heads = config.n_kv_heads = n_heads;
  config.d_model = d_model;
  config.parallel = parallel;
  return config;
}

ScoredGraph read_eap_graph(const std::string& path) {
  const Json json = io::read_json_file(path, {.max_bytes = Index{1} << 30, .object_at_top = true});
  ScoredGraph result;
  const Json& cfg = member_of(json, "cfg", path);
  result.n_layers = size_of(cfg, "n_layers", path);
  result.n_heads = size_of(cfg, "n_heads", path);
  result.d_model = size_of(cfg, "d_model", path);
  result.parallel = flag_of(cfg, "parallel_attn_mlp", "cfg", path);

  const Graph graph(result.network());
  for (const auto& [text, node] : member_of(json, "nodes", path).items()) {
    const bool in_graph = flag_of(node, "in_graph", text, path);
    if (text == "logits") {
      result.logits_in_graph = in_graph;
      continue;
    }
    const Writer writer = named([&](const std::string& own) { return graph.writer(own); }, text, path);
    if (in_graph) result.writers_in_graph.push_back(writer);
  }
  for (const auto& [text, facts] : member_of(json, "edges", path).items()) {
    const Edge edge = named([&](const std::string& own) { return graph.edge(own); }, text, path);
    const Json& score = member_of(facts, "score", path);
    check(score.is_number(), ErrorCode::format, "'{}': the score of {} is {}, expected a number", path, text,
          score.dump());
    result.edges.push_back({edge, score.get<double>(), flag_of(facts, "in_graph", text, path)});
  }
  return result;
}

std::string eap_graph_json(const ScoredGraph& graph) {
  Json json;
  json["cfg"] = {{"n_layers", graph.n_layers},
                 {"n_heads", graph.n_heads},
                 {"parallel_attn_mlp", graph.parallel},
                 {"d_model", graph.d_model}};
  const Graph all(graph.network());
  std::vector<bool> chosen(all.writers().size(), false);
  for (const Writer& writer : graph.writers_in_graph)
    if (const Index at = all.index_of(writer); at >= 0) chosen[static_cast<std::size_t>(at)] = true;
  Json& nodes = json["nodes"];
  for (std::size_t i = 0; i < chosen.size(); ++i) nodes[eap_name(all.writers()[i])] = {{"in_graph", bool{chosen[i]}}};
  nodes["logits"] = {{"in_graph", graph.logits_in_graph}};
  // An ordered object looks every new key up from its beginning: too slow for all edges of a network.
  std::string edges;
  for (const ScoredGraph::ScoredEdge& e : graph.edges)
    edges += fmt::format("{}{}: {}", edges.empty() ? "" : ", ", Json(eap_name(e.edge)).dump(),
                         Json{{"score", e.score}, {"in_graph", e.in_graph}}.dump());
  std::string text = json.dump();
  text.pop_back();
  return text + ", \"edges\": {" + edges + "}}\n";
}

}  // namespace kirchhoff
