// Edge attribution of tests/data/golden/tl-ln-mlp, computed with TransformerLens in double: every writer's change times
// the gradient at every reader's input.
#include <gtest/gtest.h>

#include "engine/support.h"
#include "kirchhoff/engine/pull.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/io/safetensors.h"
#include "kirchhoff/model/load.h"

namespace kirchhoff {
namespace {

/// "a2.h1.q", "m0", "embed", "logits": its values [pos, d_model] in a trace or in gradients.
struct Node {
  explicit Node(const std::string& name) : kind(name) {
    if (name[0] != 'a' && name[0] != 'm') return;
    layer = std::stoll(name.substr(1));
    kind = name[0] == 'm' ? "m" : "a";
    if (kind == "m") return;
    head = std::stoll(name.substr(name.find(".h") + 2));
    if (name.ends_with(".q") || name.ends_with(".k") || name.ends_with(".v")) kind = name.back();
  }

  std::string kind;
  Index layer = 0, head = -1;
};

/// Row `pos` of a node's part of a [1, pos, d_model] or [1, pos, head, d_model] tensor.
std::span<const double> row(const TensorF64& tensor, const Node& node, Index pos) {
  const Index d = tensor.dim(-1), heads = tensor.rank() == 4 ? tensor.dim(2) : 1;
  return tensor.values().subspan(static_cast<std::size_t>((pos * heads + std::max<Index>(0, node.head)) * d),
                                 static_cast<std::size_t>(d));
}

std::string writer_site(const Node& n) {
  if (n.kind == "embed") return site_name(Site::resid_pre, 0);
  return site_name(n.kind == "m" ? Site::mlp_out : Site::result, n.layer);
}

std::string reader_site(const Node& n, Index n_layers) {
  if (n.kind == "logits") return site_name(Site::resid_post, n_layers - 1);
  const Site site = n.kind == "q"   ? Site::q_input
                    : n.kind == "k" ? Site::k_input
                    : n.kind == "v" ? Site::v_input
                                    : Site::mlp_in;
  return site_name(site, n.layer);
}

TEST(EdgeAttribution, EveryScoreOfTransformerLens) {
  const std::string folder = KIRCHHOFF_TEST_DATA "/golden/tl-ln-mlp";
  const Model model = load_model(folder);
  const nlohmann::ordered_json json = io::read_json_file(folder + "/expected.json", {.object_at_top = true});
  const io::Checkpoint analysis = io::read_safetensors(folder + "/analysis.safetensors").checkpoint;
  const TensorF64 want = io::decode_f64(*analysis.find("eap/scores"));
  const TensorF64 exists = io::decode_f64(*analysis.find("eap/exists"));
  const auto clean = json["tokens"].get<Tokens>(), corrupt = json["corrupt_tokens"].get<Tokens>();

  const std::vector<std::string> writers{"blocks.0.hook_resid_pre", "blocks.*.attn.hook_result",
                                         "blocks.*.hook_mlp_out"};
  const TraceF64 of_corrupt = run_f64(model, corrupt, {.capture = writers});
  const Metric metric = Metric::logit_difference(
      {{.targets = {json["metric"]["a"].get<TokenId>()}, .foils = {json["metric"]["b"].get<TokenId>()}}});
  const GradientsF64 g = pull_f64(model, clean, metric,
                                  {.at = {"blocks.*.hook_q_input", "blocks.*.hook_k_input", "blocks.*.hook_v_input",
                                          "blocks.*.hook_mlp_in", "blocks.*.hook_resid_post"},
                                   .run = {.capture = writers}});
  EXPECT_NEAR(g.values[0], json["metric"]["value"].get<double>(), 1e-12);

  const auto writer_names = json["eap"]["writers"].get<std::vector<std::string>>();
  const auto reader_names = json["eap"]["readers"].get<std::vector<std::string>>();
  std::vector<double> got(static_cast<std::size_t>(want.size()));
  Index edges = 0;
  for (std::size_t w = 0; w < writer_names.size(); ++w)
    for (std::size_t r = 0; r < reader_names.size(); ++r) {
      const std::size_t at = w * reader_names.size() + r;
      if (exists[static_cast<Index>(at)] == 0.0) continue;
      ++edges;
      const Node writer(writer_names[w]), reader(reader_names[r]);
      const std::string from = writer_site(writer), to = reader_site(reader, model.config.n_layers);
      for (Index pos = 0; pos < static_cast<Index>(clean.size()); ++pos) {
        const auto a = row(of_corrupt.at(from), writer, pos), b = row(g.trace.at(from), writer, pos);
        const auto slope = row(g.at(to), reader, pos);
        for (std::size_t i = 0; i < slope.size(); ++i) got[at] += (a[i] - b[i]) * slope[i];
      }
    }
  EXPECT_EQ(edges, json["eap"]["n_edges"].get<Index>());
  EXPECT_LE(test::relative_error(got, want.values()), 1e-11);
}

}  // namespace
}  // namespace kirchhoff
