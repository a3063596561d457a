#pragma once
#include <iterator>  // for ssize
#include <utility>   // for move

#include "engine/support.h"
#include "kirchhoff/engine/rerun.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff::test {

/// Tokens of the prompts whose runs are varied.
constexpr Index kLength = 9;

/// The logits of all variants, one after the other.
template <class Real>
std::vector<double> rerun_logits(const Model& model, const BasicRerunBase<Real>& base,
                                 std::span<const Interventions> variants, const RerunOptions& options,
                                 RerunCost* cost = nullptr) {
  std::vector<double> all;
  Index expected = 0;
  const auto receive = [&](const BasicVariant<Real>& variant) {
    EXPECT_EQ(variant.number, expected++);
    for (Index s = 0; s < variant.logits.dim[0]; ++s)
      for (Index p = 0; p < variant.logits.dim[1]; ++p)
        for (Index c = 0; c < variant.logits.dim[2]; ++c) all.push_back(static_cast<double>(variant.logits(s, p, c)));
  };
  const RerunCost total = rerun(model, base, each_of(variants), options, receive);
  EXPECT_EQ(total.variants, static_cast<Index>(variants.size()));
  if (cost != nullptr) *cost = total;
  return all;
}

/// Interventions at random, of every kind.
class Draw {
 public:
  Draw(const ModelConfig& config, const Trace& other, Index sequences, std::uint64_t seed)
      : config_(config), other_(other), sequences_(sequences), sites_(sites_of(config)), random_(seed) {}

  Intervention intervention(SiteRef ref) {
    const bool by_key = ref.site == Site::attn_scores || ref.site == Site::pattern;
    Intervention e;
    e.site = site_name(ref);
    e.where = {.sequences = some(sequences_), .positions = some(kLength)};
    for (const Axis axis : info(ref.site).axes) {
      if (axis == Axis::head) e.where.heads = some(config_.n_heads);
      if (axis == Axis::kv_head) e.where.heads = some(config_.n_kv_heads);
    }
    const BasicTensor<float>& tensor = other_.at(e.site);
    if (!by_key) e.where.units = some(tensor.dim(-1));
    if (by_key) e.where.keys = some(kLength);
    const bool divisor = e.site.ends_with("scale");  // a norm divides by it
    switch (random_.below(by_key || divisor ? 4 : 8)) {
      case 0:
        e.edit = Edit::resample;
        e.source.trace = other_;
        break;
      case 1:
        e.edit = Edit::scale;
        e.factor = 0.7;
        break;
      case 2:
        e.edit = ref.site == Site::attn_scores || divisor ? Edit::scale : Edit::zero;
        e.factor = e.edit == Edit::scale ? 0.5 : 1.0;
        break;
      case 3:
        e.edit = Edit::set;
        e.values = Values(0.4);
        break;
      case 4:
        e.edit = Edit::add;
        e.values = direction(tensor.dim(-1));
        e.factor = 0.5;
        break;
      case 5:
        e.edit = Edit::mean;
        e.source.trace = other_;
        break;
      case 6:
        e.edit = Edit::mean_all;
        e.source.trace = other_;
        break;
      default:
        e.edit = Edit::project_out;
        e.where.units = {};
        e.values = direction(tensor.dim(-1));
        break;
    }
    return e;
  }
  Intervention intervention() { return intervention(sites_[static_cast<std::size_t>(below(std::ssize(sites_)))]); }

  Freeze freeze() {
    const auto coin = [this] { return random_.uniform() < 0.4; };
    return {.source = {.trace = other_},
            .layers = some(config_.n_layers),
            .sequences = some(sequences_),
            .patterns = coin(),
            .attention_scales = coin(),
            .mlp_scales = coin(),
            .post_scales = coin(),
            .inner_scales = coin(),
            .final_scale = coin(),
            .mlp_gates = coin(),
            .mlp_activations = coin()};
  }

  EdgeIntervention edges() {
    if (edges_.empty())
      for (const bool native : {false, true})
        for (const bool split : {false, true}) {
          const Graph graph(config_, {.split_embed = split, .split_qkv = native || split, .native_kv_heads = native});
          const std::vector<Edge> all = graph.edges();
          edges_.insert(edges_.end(), all.begin(), all.end());
        }
    EdgeIntervention e;
    for (Index i = 1 + below(3); i > 0; --i)
      e.edges.push_back(edges_[static_cast<std::size_t>(below(std::ssize(edges_)))]);
    e.sequences = some(sequences_);
    e.positions = some(kLength);
    const Edit edits[] = {Edit::resample, Edit::resample, Edit::mean, Edit::zero, Edit::set};
    e.edit = edits[below(5)];
    if (e.edit == Edit::set)
      e.values = Values(0.3);
    else if (e.edit != Edit::zero)
      e.source.trace = other_;
    return e;
  }

  /// One or more of them, at most one of which replaces the same number.
  Interventions variant() {
    Interventions all;
    for (Index i = 1 + below(2); i > 0; --i) all.sites.push_back(intervention());
    if (random_.uniform() < 0.2) all.freezes.push_back(freeze());
    return all;
  }

  Index below(Index n) { return static_cast<Index>(random_.below(n)); }

 private:
  /// All entries of an axis, or a few.
  Selection some(Index size) {
    if (random_.uniform() < 0.4) return {};
    std::vector<Index> entries{below(size)};
    if (random_.uniform() < 0.5) entries.push_back(below(size) - size);
    return Selection(std::move(entries));
  }
  Values direction(Index width) {
    std::vector<double> values;
    for (Index i = 0; i < width; ++i) values.push_back(random_.normal());
    return Values::row(std::span<const double>(values));
  }

  const ModelConfig& config_;
  const Trace& other_;
  Index sequences_;
  std::vector<SiteRef> sites_;
  std::vector<Edge> edges_;
  Random random_;
};

}  // namespace kirchhoff::test
