// What readers see of writers, replaced: against TransformerLens's numbers and against whole runs.
#include <gtest/gtest.h>

#include <numeric>  // for iota

#include "engine/support.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/graph.h"
#include "kirchhoff/engine/intervention.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/io/safetensors.h"
#include "kirchhoff/model/load.h"

namespace kirchhoff {
namespace {

using Json = nlohmann::ordered_json;
using test::relative_error;
using test::same_bits;

/// tl-ln-mlp: clean and corrupt sequences, the logit difference m, patching grids and exact edge effects.
class GoldenPatches : public ::testing::Test {
 protected:
  GoldenPatches()
      : folder_(KIRCHHOFF_TEST_DATA "/golden/tl-ln-mlp"),
        model_(load_model(folder_)),
        expected_(io::read_json_file(folder_ + "/expected.json")),
        analysis_(io::read_safetensors(folder_ + "/analysis.safetensors").checkpoint),
        clean_(tokens("tokens")),
        corrupt_(tokens("corrupt_tokens")) {}

  Tokens tokens(const char* key) const { return expected_[key].get<Tokens>(); }
  std::vector<double> grid(const std::string& name) const {
    const io::StoredTensor* stored = analysis_.find("patch/" + name);
    EXPECT_NE(stored, nullptr) << name;
    const TensorF64 values = io::decode_f64(*stored);
    return {values.values().begin(), values.values().end()};
  }
  template <class Real>
  double metric(const BasicTrace<Real>& trace, Index sequence = 0) const {
    const View<const Real, 2> logits = trace.logits_of(sequence);
    const Json& m = expected_["metric"];
    return static_cast<double>(logits(logits.dim[0] - 1, m["a"].get<Index>())) -
           static_cast<double>(logits(logits.dim[0] - 1, m["b"].get<Index>()));
  }
  /// The grid [layer, head, pos]: one sequence of a batch for each head and position of a layer.
  template <class Run, class Edited>
  std::vector<double> node_grid(const Run& run_batch, const Tokens& base, const Edited& edited) const {
    const ModelConfig& c = model_.config;
    const auto length = static_cast<Index>(base.size());
    std::vector<double> values;
    for (Index layer = 0; layer < c.n_layers; ++layer) {
      RunOptions options;
      const std::vector<Tokens> batch(static_cast<std::size_t>(c.n_heads * length), base);
      for (Index h = 0; h < c.n_heads; ++h)
        for (Index p = 0; p < length; ++p) {
          Intervention e = edited();
          e.site = site_name(Site::z, layer);
          e.where = {.sequences = {h * length + p}, .positions = {p}, .heads = {h}};
          if (!e.source.trace.empty() && e.edit == Edit::resample) e.source.sequences.assign(batch.size(), 0);
          options.interventions.sites.push_back(e);
        }
      const auto trace = run_batch(batch, options);
      for (std::size_t s = 0; s < batch.size(); ++s) values.push_back(metric(trace, static_cast<Index>(s)));
    }
    return values;
  }

  const std::string folder_;
  const Model model_;
  const Json expected_;
  const io::Checkpoint analysis_;
  const Tokens clean_, corrupt_;
};

TEST_F(GoldenPatches, NodeGrids) {
  const RunOptions everything{.capture = {"**"}};
  const Trace clean = run(model_, clean_, everything), corrupt = run(model_, corrupt_, everything);
  std::vector<Tokens> references;
  for (const Json& t : expected_["reference_tokens"]) references.push_back(t.get<Tokens>());
  const Trace reference = run(model_, references, everything);

  const auto from = [](Edit edit, TraceRef trace) {
    return [edit, trace] {
      Intervention e;
      e.edit = edit;
      e.source.trace = trace;
      return e;
    };
  };
  struct Case {
    const char* name;
    const Tokens& base;
    Edit edit;
    TraceRef trace;
  };
  for (const Case& c : {Case{"zero", clean_, Edit::zero, {}},
                        {"mean", clean_, Edit::mean, reference},
                        {"resample", clean_, Edit::resample, corrupt},
                        {"restore", corrupt_, Edit::resample, clean}}) {
    const auto single = [this](std::span<const Tokens> b, const RunOptions& o) { return run(model_, b, o); };
    const auto twice = [this](std::span<const Tokens> b, const RunOptions& o) { return run_f64(model_, b, o); };
    EXPECT_LE(relative_error(node_grid(single, c.base, from(c.edit, c.trace)), grid(c.name)), 2e-5) << c.name;
    EXPECT_LE(relative_error(node_grid(twice, c.base, from(c.edit, c.trace)), grid(c.name)), 2e-6) << c.name;
  }
}

TEST_F(GoldenPatches, NodeGridsAreExactInDouble) {
  const TraceF64 corrupt = run_f64(model_, corrupt_, {.capture = {"blocks.*.attn.hook_z"}});
  const auto twice = [this](std::span<const Tokens> b, const RunOptions& o) { return run_f64(model_, b, o); };
  const auto resampled = [&] {
    Intervention e;
    e.edit = Edit::resample;
    e.source.trace = corrupt;
    return e;
  };
  EXPECT_LE(relative_error(node_grid(twice, clean_, resampled), grid("resample")), 1e-12);
}

TEST_F(GoldenPatches, SingleEdges) {
  const Graph graph(model_.config);
  const std::vector<std::string> capture = edge_sites(model_.config, graph.edges());
  const Trace corrupt = run(model_, corrupt_, {.capture = capture});
  const TraceF64 corrupt64 = run_f64(model_, corrupt_, {.capture = capture});
  ASSERT_EQ(expected_["eap"]["n_edges"].get<Index>(), graph.n_edges());
  ASSERT_EQ(expected_["eap"]["edges"].size(), 40U);
  const double clean = metric(run(model_, clean_)), clean64 = metric(run_f64(model_, clean_));
  std::vector<double> got, got64, want;
  for (const Json& e : expected_["eap"]["edges"]) {
    const Edge edge = graph.edge(e["writer"].get<std::string>() + "->" + e["reader"].get<std::string>());
    RunOptions options;
    options.interventions.edges = {{.edges = {edge}, .source = {corrupt}}};
    got.push_back(metric(run(model_, clean_, options)) - clean);
    options.interventions.edges[0].source.trace = corrupt64;
    got64.push_back(metric(run_f64(model_, clean_, options)) - clean64);
    want.push_back(e["true_effect"].get<double>());
  }
  EXPECT_LE(relative_error(got, want), 2e-5);
  EXPECT_LE(relative_error(got64, want), 1e-11);
}

// A head at one position, and everything that reads it there.
TEST_F(GoldenPatches, AllEdgesOfAHeadAreTheHead) {
  const Graph graph(model_.config);
  const TraceF64 corrupt = run_f64(model_, corrupt_, {.capture = edge_sites(model_.config, graph.edges())});
  const std::vector<double> want = grid("resample");
  const auto length = static_cast<Index>(clean_.size());
  std::size_t i = 0;
  for (Index layer = 0; layer < model_.config.n_layers; ++layer)
    for (Index head = 0; head < model_.config.n_heads; ++head) {
      EdgeIntervention edges{.source = {corrupt}};
      for (const Edge& edge : graph.edges())
        if (edge.writer == Writer{Writer::Kind::head, layer, head}) edges.edges.push_back(edge);
      for (Index p = 0; p < length; ++p, ++i) {
        if (p % 3 != 2) continue;
        edges.positions = {p};
        RunOptions options;
        options.interventions.edges = {edges};
        EXPECT_NEAR(metric(run_f64(model_, clean_, options)), want[i], 1e-10) << layer << "." << head << " at " << p;
      }
    }
}

class Edges : public test::EveryFamily {
 protected:
  // A norm behind the sublayers divides their biases by a scale of the run's own, and biases belong to no writer.
  Edges()
      : model_(random_model(config(), 1, {.biases = !config().post_norm})),
        batch_{tokens(6, 3), tokens(4, 4)},
        others_{tokens(6, 5), tokens(4, 6)} {}

  std::vector<Graph> graphs() const {
    return {Graph(config()), Graph(config(), {.split_embed = true}), Graph(config(), {.split_qkv = false}),
            Graph(config(), {.native_kv_heads = true})};
  }
  RunOptions with(EdgeIntervention edges) const {
    RunOptions options;
    options.interventions.edges = {std::move(edges)};
    return options;
  }

  const Model model_;
  const std::vector<Tokens> batch_, others_;
};

TEST_P(Edges, AllReplacedAreTheOtherRun) {
  for (const Graph& graph : graphs()) {
    const std::vector<std::string> capture = edge_sites(config(), graph.edges());
    const Trace other = run(model_, others_, {.capture = capture});
    const TraceF64 other64 = run_f64(model_, others_, {.capture = capture});
    const EdgeIntervention all{.edges = graph.edges(), .source = {other}};
    EdgeIntervention all64 = all;
    all64.source.trace = other64;
    EXPECT_LE(relative_error(run(model_, batch_, with(all)).logits.values(), other.logits.values()), 1e-5)
        << graph.describe();
    EXPECT_LE(relative_error(run_f64(model_, batch_, with(all64)).logits.values(), other64.logits.values()), 1e-12)
        << graph.describe();
    // Of a single missing edge only the embedding's into the logits shows: every other writer, all of whose inputs are
    // the other run's, writes what it wrote there anyway.
    EdgeIntervention but_one = all64;
    std::erase(but_one.edges, Edge{graph.writers()[0], {Reader::Kind::logits}});
    EXPECT_GE(relative_error(run_f64(model_, batch_, with(but_one)).logits.values(), other64.logits.values()), 1e-9);
  }
}

TEST_P(Edges, PatchWithSelfChangesNoBit) {
  for (const Graph& graph : graphs()) {
    const std::vector<std::string> capture = edge_sites(config(), graph.edges());
    const Trace clean = run(model_, batch_, {.capture = capture});
    const TraceF64 clean64 = run_f64(model_, batch_, {.capture = capture});
    const EdgeIntervention all{.edges = graph.edges(), .source = {clean}};
    EXPECT_TRUE(same_bits(run(model_, batch_, with(all)).logits, clean.logits)) << graph.describe();
    EdgeIntervention all64 = all;
    all64.source.trace = clean64;
    EXPECT_TRUE(same_bits(run_f64(model_, batch_, with(all64)).logits, clean64.logits)) << graph.describe();
    EdgeIntervention none = all;
    none.sequences = Selection(std::vector<Index>{});
    EXPECT_TRUE(same_bits(run(model_, batch_, with(none)).logits, clean.logits));
  }
}

// Random subsets at random positions: float and double, a batch and its sequences, other ways to say the same.
TEST_P(Edges, RandomSubsets) {
  Random random(9);
  const Graph graph(config()), unsplit(config(), {.split_qkv = false}), native(config(), {.native_kv_heads = true});
  const std::vector<std::string> capture = edge_sites(config(), graph.edges());
  const Trace other = run(model_, others_, {.capture = capture});
  const TraceF64 other64 = run_f64(model_, others_, {.capture = capture});
  for (const Edit edit : {Edit::resample, Edit::zero, Edit::mean, Edit::mean_all})
    for (const Graph* g : {&graph, &unsplit, &native}) {
      EdgeIntervention some{.edit = edit, .positions = {random.below(4), -1}};
      for (const Edge& edge : g->edges())
        if (random.below(3) == 0) some.edges.push_back(edge);
      EdgeIntervention some64 = some;
      // All sequences of a mean's source have the position.
      const Trace means = run(model_, std::vector<Tokens>{others_[0], batch_[0]}, {.capture = capture});
      if (edit == Edit::resample) {
        some.source.trace = other;
        some64.source.trace = other64;
      } else if (edit != Edit::zero) {
        some.source.trace = some64.source.trace = means;
      }
      const Trace got = run(model_, batch_, with(some));
      const TraceF64 want = run_f64(model_, batch_, with(some64));
      EXPECT_LE(relative_error(got.logits.values(), want.logits.values()), 3e-5) << name(edit);
      EXPECT_GE(relative_error(want.logits.values(), run_f64(model_, batch_).logits.values()), 1e-6) << name(edit);
      for (Index s = 0; s < 2; ++s) {
        if (edit == Edit::resample) some64.source.sequences = {s};
        const TraceF64 alone = run_f64(model_, batch_[static_cast<std::size_t>(s)], with(some64));
        const View<const double, 2> rows = want.logits_of(s);
        EXPECT_LE(relative_error(std::span(rows.data, static_cast<std::size_t>(rows.size())), alone.logits.values()),
                  1e-12)
            << name(edit) << ", sequence " << s;
      }
      // Whole heads are their q, k and v; groups are the copies of their heads.
      if (g == &graph) continue;
      EdgeIntervention parts = edit == Edit::resample ? some : some64;
      parts.source.sequences.clear();
      parts.edges.clear();
      const Index heads_of_group = config().n_heads / config().n_kv_heads;
      for (const Edge& edge : some.edges) {
        const Reader& r = edge.reader;
        if (r.kind == Reader::Kind::head)
          for (const Reader::Kind kind : {Reader::Kind::q, Reader::Kind::k, Reader::Kind::v})
            parts.edges.push_back({edge.writer, {kind, r.layer, r.head}});
        else if (r.kind == Reader::Kind::group_k || r.kind == Reader::Kind::group_v)
          for (Index h = 0; h < heads_of_group; ++h)
            parts.edges.push_back({edge.writer,
                                   {r.kind == Reader::Kind::group_k ? Reader::Kind::k : Reader::Kind::v, r.layer,
                                    r.head * heads_of_group + h}});
        else
          parts.edges.push_back(edge);
      }
      const TraceF64 same = run_f64(model_, batch_, with(parts));
      EXPECT_LE(relative_error(same.logits.values(), want.logits.values()), edit == Edit::resample ? 1e-5 : 1e-12);
    }
}

// m3's edges into everything are an intervention at what it adds, but for its bias.
TEST_P(Edges, AllEdgesOfAnMlpAreTheMlp) {
  if (config().attn_only) GTEST_SKIP() << "attention-only";
  const Graph graph(config());
  const TraceF64 other = run_f64(model_, others_, {.capture = edge_sites(config(), graph.edges())});
  EdgeIntervention edges{.source = {other}};
  for (const Edge& edge : graph.edges())
    if (edge.writer == Writer{Writer::Kind::mlp, 1}) edges.edges.push_back(edge);
  Intervention node;
  node.site = site_name(Site::mlp_out, 1);
  node.edit = Edit::resample;
  node.source.trace = other;
  RunOptions options;
  options.interventions.sites = {node};
  EXPECT_LE(relative_error(run_f64(model_, batch_, with(edges)).logits.values(),
                           run_f64(model_, batch_, options).logits.values()),
            1e-12);
}

TEST_P(Edges, ConflictsAreErrors) {
  const Graph graph(config());
  const Trace other = run(model_, others_, {.capture = {"**"}});
  const auto error = [&](Interventions interventions) -> std::string {
    RunOptions options;
    options.interventions = std::move(interventions);
    try {
      run(model_, batch_, options);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  const EdgeIntervention one{.edges = {graph.edge("embed->a1.h0.q")}, .edit = Edit::zero, .positions = {1}};
  EdgeIntervention whole = one, elsewhere = one;
  whole.edges = {{{Writer::Kind::token}, {Reader::Kind::head, 1, 0}}};
  elsewhere.positions = {2};
  EXPECT_NE(error({.edges = {one, one}}).find("a1.h0.q sees of tok"), std::string::npos)
      << error({.edges = {one, one}});
  EXPECT_NE(error({.edges = {one, whole}}).find("does already"), std::string::npos);
  EXPECT_EQ(error({.edges = {one, elsewhere}}), "no error");
  Intervention input;
  input.site = site_name(Site::q_input, 1);
  input.where.positions = {1};
  EXPECT_NE(error({.sites = {input}, .edges = {one}}).find("hook_q_input"), std::string::npos);
  EXPECT_EQ(error({.sites = {input}, .edges = {elsewhere}}), "no error");
  EdgeIntervention backwards = one;
  backwards.edges = {{{Writer::Kind::head, 1, 0}, {Reader::Kind::q, 1, 1}}};
  EXPECT_NE(error({.edges = {backwards}}).find("is read before a1.h0 is written"), std::string::npos);
}

KIRCHHOFF_EVERY_FAMILY(Edges);

}  // namespace
}  // namespace kirchhoff
