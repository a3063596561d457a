#include "kirchhoff/engine/graph.h"

#include <gtest/gtest.h>

#include <algorithm>   // for count_if
#include <cstdlib>     // for getenv
#include <filesystem>  // for exists, remove
#include <fstream>     // for ofstream

#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/graph_json.h"
#include "kirchhoff/io/json_file.h"

namespace kirchhoff {
namespace {

/// What a graph needs to know of a network.
ModelConfig network(Index layers, Index heads, Index kv_heads) {
  ModelConfig config;
  config.n_layers = layers;
  config.n_heads = heads;
  config.n_kv_heads = kv_heads;
  config.positions = Positions::rotary;
  return config;
}
ModelConfig gpt2_small() {
  ModelConfig config = network(12, 12, 12);
  config.positions = Positions::learned;
  return config;
}
ModelConfig attention_only(Index layers, Index heads) {
  ModelConfig config = network(layers, heads, heads);
  config.attn_only = true;
  return config;
}
ModelConfig parallel(Index layers, Index heads) {
  ModelConfig config = network(layers, heads, heads);
  config.parallel = true;
  return config;
}
Index edges(const ModelConfig& config, const GraphOptions& options = {}) { return Graph(config, options).n_edges(); }

std::string error(const Graph& graph, std::string_view text) {
  try {
    graph.edge(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::usage);
    return std::string(e.what()) + (e.help().empty() ? "" : " | " + e.help());
  }
  return "no error";
}

// Published counts, and the formula's: hannamw/EAP-IG, ArthurConmy/Automatic-Circuit-Discovery.
TEST(Graph, CountsOfKnownNetworks) {
  EXPECT_EQ(edges(gpt2_small()), 32491);
  EXPECT_EQ(edges(gpt2_small(), {.split_qkv = false}), 11611);
  EXPECT_EQ(edges(gpt2_small(), {.split_embed = true}), 32936);
  EXPECT_EQ(edges(attention_only(2, 8)), 257);
  EXPECT_EQ(edges(attention_only(4, 8)), 1281);
  EXPECT_EQ(edges(network(6, 4, 4)), 1108);
  EXPECT_EQ(edges(network(24, 14, 2)), 179749);   // Qwen2.5-0.5B
  EXPECT_EQ(edges(network(26, 8, 4)), 74218);     // Gemma-2-2B
  EXPECT_EQ(edges(network(32, 32, 8)), 1592881);  // Llama-3.1-8B
  EXPECT_EQ(edges(network(30, 9, 3)), 123211);    // SmolLM2-135M
  EXPECT_EQ(edges(network(30, 9, 3), {.native_kv_heads = true}), 70651);
  EXPECT_EQ(edges(network(18, 4, 1)), 10342);  // Gemma-3-270M
  EXPECT_EQ(edges(network(18, 4, 1), {.native_kv_heads = true}), 5644);
}

TEST(Graph, SizesOfGpt2Small) {
  const Graph graph(gpt2_small());
  EXPECT_EQ(graph.writers().size(), 157U);
  EXPECT_EQ(graph.readers().size(), 445U);
  EXPECT_EQ(graph.edges().size(), 32491U);
  EXPECT_EQ(graph.describe(), "32491 edges from 157 writers to 445 readers (one embedding, q, k and v apart)");
}

// Two layers of two heads, by hand. Sequential: layer 0: 6 q/k/v readers see 1, the MLP 3; layer 1: 6 see 4, the MLP 6;
// logits 7. Parallel: the MLPs see 1 and 4.
TEST(Graph, ParallelBlocksLackTheEdgesFromAttentionToTheirMlp) {
  EXPECT_EQ(edges(network(2, 2, 2)), 6 * 1 + 3 + 6 * 4 + 6 + 7);
  EXPECT_EQ(edges(parallel(2, 2)), 6 * 1 + 1 + 6 * 4 + 4 + 7);
  const Graph graph(parallel(2, 2));
  EXPECT_FALSE(graph.contains({{Writer::Kind::head, 1, 0}, {Reader::Kind::mlp, 1, 0}}));
  EXPECT_TRUE(graph.contains({{Writer::Kind::head, 0, 0}, {Reader::Kind::mlp, 1, 0}}));
  EXPECT_NE(error(graph, "a1.h0->m1").find("parallel"), std::string::npos);
}

TEST(Graph, ReadersOfALayerAreQueriesThenKeysThenValuesThenMlp) {
  const Graph copies(network(1, 4, 2)), native(network(1, 4, 2), {.native_kv_heads = true});
  std::string names;
  for (const Reader& reader : native.readers()) names += name(reader) + " ";
  EXPECT_EQ(names, "a0.h0.q a0.h1.q a0.h2.q a0.h3.q a0.g0.k a0.g1.k a0.g0.v a0.g1.v m0 logits ");
  EXPECT_EQ(copies.readers().size(), 14U);
  EXPECT_NE(native.describe().find("2 native key/value heads"), std::string::npos);
  EXPECT_NE(copies.describe().find("copied for each of 4 query heads"), std::string::npos);
}

TEST(Graph, NativeHeadsMeanNothingWhereNoneAreShared) {
  EXPECT_EQ(edges(gpt2_small(), {.native_kv_heads = true}), 32491);
  EXPECT_THROW(Graph(network(2, 4, 2), {.split_qkv = false, .native_kv_heads = true}), Error);
}

TEST(Graph, PositionsThatAreNotEmbeddedAreNoWriter) {
  EXPECT_EQ(edges(network(12, 12, 12), {.split_embed = true}), 32491);
  ModelConfig shortformer = gpt2_small();
  shortformer.positions = Positions::shortformer;
  EXPECT_EQ(edges(shortformer, {.split_embed = true}), 32491);
}

TEST(Graph, EveryNameIsReadAsWhatItNames) {
  for (const GraphOptions& options :
       {GraphOptions{}, {.split_embed = true}, {.split_qkv = false}, {.native_kv_heads = true}}) {
    ModelConfig config = network(3, 4, 2);
    config.positions = Positions::learned;
    const Graph graph(config, options);
    for (const Writer& writer : graph.writers()) EXPECT_EQ(graph.writer(name(writer)), writer);
    for (const Reader& reader : graph.readers()) EXPECT_EQ(graph.reader(name(reader)), reader);
    for (const Edge& edge : graph.edges()) {
      EXPECT_EQ(graph.edge(name(edge)), edge);
      EXPECT_TRUE(graph.contains(edge));
    }
  }
}

TEST(Graph, ErrorsSayWhatIsNear) {
  const Graph graph(gpt2_small());
  EXPECT_NE(error(graph, "m12->logits").find("writer 'm12'"), std::string::npos);
  EXPECT_NE(error(graph, "a9.9->a10.h0.q").find("nearest: a9.h9"), std::string::npos) << error(graph, "a9.9->a10.h0.q");
  EXPECT_NE(error(graph, "m3->a9.h9").find("a9.h9.q"), std::string::npos);
  EXPECT_NE(error(graph, "embed-a0.h0.q").find("embed->a0.h0.q"), std::string::npos);
  EXPECT_NE(error(graph, "m9->a3.h0.q").find("a3.h0.q is read before m9 is written"), std::string::npos);
  for (const char* text : {"", "->", "a->b", "a9999999999999999999.h0->logits", "a0.h0.q->logits", "a-1.h0->logits"})
    EXPECT_NE(error(graph, text), "no error") << text;
}

/// A file that goes away with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view text) { std::ofstream(path_, std::ios::binary) << text; }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = ::testing::TempDir() + "kirchhoff_graph_test.json";
};

std::string format_error(std::string_view text) {
  const TemporaryFile file(text);
  try {
    read_eap_graph(file.path());
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::format);
    return e.what();
  }
  return "no error";
}

TEST(EapGraph, WhatIsWrittenIsRead) {
  ScoredGraph graph;
  graph.n_layers = 2;
  graph.n_heads = 2;
  graph.d_model = 8;
  graph.writers_in_graph = {{Writer::Kind::embed}, {Writer::Kind::head, 1, 0}, {Writer::Kind::mlp, 1}};
  graph.logits_in_graph = true;
  double score = 1.0 / 3.0;
  for (const Edge& edge : Graph(graph.network()).edges()) graph.edges.push_back({edge, score *= -1.1, score > 0});
  const TemporaryFile file(eap_graph_json(graph));
  const ScoredGraph read = read_eap_graph(file.path());
  EXPECT_EQ(read.writers_in_graph, graph.writers_in_graph);
  EXPECT_TRUE(read.logits_in_graph && !read.parallel && read.n_layers == 2 && read.n_heads == 2 && read.d_model == 8);
  ASSERT_EQ(read.edges.size(), graph.edges.size());
  for (std::size_t i = 0; i < read.edges.size(); ++i) {
    EXPECT_EQ(read.edges[i].edge, graph.edges[i].edge);
    EXPECT_EQ(read.edges[i].score, graph.edges[i].score);
    EXPECT_EQ(read.edges[i].in_graph, graph.edges[i].in_graph);
  }
  EXPECT_NE(eap_graph_json(graph).find("\"input->a0.h1<v>\": {"), std::string::npos) << eap_graph_json(graph);
}

TEST(EapGraph, ErrorsNameWhatIsWrong) {
  const auto with = [](const std::string& nodes, const std::string& edges) {
    return R"({"cfg": {"n_layers": 1, "n_heads": 2, "d_model": 8, "parallel_attn_mlp": true}, "nodes": {)" + nodes +
           R"(}, "edges": {)" + edges + "}}";
  };
  EXPECT_EQ(format_error(with("", "")), "no error");
  EXPECT_NE(format_error(with(R"("a1.h0": {"in_graph": true})", "")).find("a1.h0"), std::string::npos);
  EXPECT_NE(format_error(with(R"("a0.h0": {"in_graph": 1})", "")).find("true or false"), std::string::npos);
  EXPECT_NE(format_error(with("", R"("a0.h0->m0": {"score": 1, "in_graph": true})")).find("parallel"),
            std::string::npos);
  EXPECT_NE(format_error(with("", R"("input->m0": {"score": "1", "in_graph": true})")).find("expected a number"),
            std::string::npos);
  EXPECT_NE(format_error(R"({"cfg": {"n_layers": -1}})").find("n_layers"), std::string::npos);
  EXPECT_NE(format_error(R"({"nodes": {}})").find("cfg"), std::string::npos);
}

// The leader board's file: all edges of GPT-2 small in the library's order, 756 of them chosen.
TEST(EapGraph, ReadsThePublishedFile) {
  const char* shared = std::getenv("KIRCHHOFF_SHARED");
  const std::string path = std::string(shared != nullptr ? shared : KIRCHHOFF_SOURCE_DIR "/../shared") +
                           "/data/circuits/mib_ioi-eap-ig_gpt2.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "'" << path << "' is not there";
  const ScoredGraph graph = read_eap_graph(path);
  EXPECT_EQ(graph.n_layers, 12);
  EXPECT_EQ(graph.d_model, 768);
  ASSERT_EQ(graph.edges.size(), 32491U);
  EXPECT_EQ(name(graph.edges[1].edge), "embed->a0.h0.k");
  EXPECT_EQ(graph.edges[1].score, -3.661245955299819e-06);
  EXPECT_EQ(std::count_if(graph.edges.begin(), graph.edges.end(), [](const auto& e) { return e.in_graph; }), 756);
  EXPECT_TRUE(graph.logits_in_graph);
  const TemporaryFile copy(eap_graph_json(graph));
  EXPECT_EQ(io::read_json_file(copy.path()), io::read_json_file(path));
}

}  // namespace
}  // namespace kirchhoff
