#include <algorithm>  // for find, minmax_element
#include <cmath>      // for sqrt

#include "reproduce/page.h"

namespace kirchhoff::reproduce {
namespace {

constexpr const char* kInductionPaper =
    "P2 is Olsson et al. 2022, [In-context Learning and Induction Heads]"
    "(https://transformer-circuits.pub/2022/in-context-learning-and-induction-heads/index.html) "
    "([arXiv:2209.11895](https://arxiv.org/abs/2209.11895)).";

/// The runs of each kind of model, in the order of the chain.
struct Kind {
  std::string name, title;
  std::vector<std::string> runs;
};
std::vector<Kind> kinds_of(const Json& curves) {
  std::vector<Kind> kinds;
  for (const auto& [run, of] : curves.at("runs").items()) {
    const std::string kind = of.at("kind").get<std::string>();
    auto found = std::find_if(kinds.begin(), kinds.end(), [&](const Kind& known) { return known.name == kind; });
    if (found == kinds.end()) {
      std::string title = fmt::format("{} layer{}", kind.substr(0, 1), kind[0] == '1' ? "" : "s");
      if (kind.ends_with("smeared")) title += ", smeared keys";
      found = kinds.insert(kinds.end(), {kind, std::move(title), {}});
    }
    found->runs.push_back(run);
  }
  return kinds;
}

/// A mean over seeds and how far they lie apart.
class Spread {
 public:
  void add(const Json& value) {
    if (value.is_number()) values_.push_back(value.get<double>());
  }
  std::string text(int digits) const {
    if (values_.empty()) return "–";
    double mean = 0.0;
    for (const double value : values_) mean += value / static_cast<double>(values_.size());
    if (values_.size() == 1) return fixed(mean, digits);
    const auto [low, high] = std::minmax_element(values_.begin(), values_.end());
    return fmt::format("{} ({} to {})", fixed(mean, digits), fixed(*low, digits), fixed(*high, digits));
  }
  std::size_t count() const { return values_.size(); }

 private:
  std::vector<double> values_;
};

/// One curve a kind, the mean over its seeds.
draw::Figure mean_curves(draw::Caption caption, const Json& curves, const char* key, const std::string& axis) {
  draw::Curves figure{.x_axis = "tokens of training", .y_axis = axis, .log_x = true};
  for (const Kind& kind : kinds_of(curves)) {
    draw::Curves::Curve curve{.name = kind.title, .x = {}, .y = {}};
    const Json& first = curves.at("runs").at(kind.runs.front());
    for (std::size_t i = 0; i < first.at("tokens").size(); ++i) {
      double sum = 0.0;
      Index count = 0;
      for (const std::string& run : kind.runs) {
        const Json& value = curves.at("runs").at(run).at(key).at(i);
        if (value.is_null()) continue;
        sum += value.get<double>();
        ++count;
      }
      if (count == 0) continue;
      curve.x.push_back(first.at("tokens").at(i).get<double>());
      curve.y.push_back(sum / static_cast<double>(count));
    }
    figure.curves.push_back(std::move(curve));
  }
  return {std::move(caption), std::move(figure)};
}

/// One curve a seed, of one kind.
draw::Figure seed_curves(draw::Caption caption, const Json& curves, const Kind& kind) {
  draw::Curves figure{
      .x_axis = "tokens of training", .y_axis = "ICL score (lower) and prefix matching (upper)", .log_x = true};
  for (const char* key : {"icl", "prefix_matching"})
    for (const std::string& run : kind.runs) {
      const Json& of = curves.at("runs").at(run);
      draw::Curves::Curve curve{
          .name = fmt::format("{}, seed {}", std::string(key) == "icl" ? "ICL score" : "prefix matching",
                              of.at("seed").get<std::uint64_t>()),
          .x = {},
          .y = {}};
      for (std::size_t i = 0; i < of.at("tokens").size(); ++i) {
        if (of.at(key).at(i).is_null()) continue;
        curve.x.push_back(of.at("tokens").at(i).get<double>());
        curve.y.push_back(of.at(key).at(i).get<double>());
      }
      figure.curves.push_back(std::move(curve));
    }
  return {std::move(caption), std::move(figure)};
}

void phase_section(Page& page, const Chain& chain, const Records& records) {
  const Json& curves = result_of(records, "curves");
  page.heading("The phase change");
  page.paragraph(
      "ICL score: mean loss of the last eighth of a window less that of its second sixteenth, negative where a model "
      "learns "
      "in context (P2's tokens 500 and 50, as bands that shorter windows have; P2's sign). Prefix matching: of a "
      "model's "
      "best head on repeated random tokens. The phase change is the time in which prefix matching goes from a tenth to "
      "nine "
      "tenths of its final value, where that is at least 0.4.");
  std::vector<std::vector<std::string>> rows;
  for (const Kind& kind : kinds_of(curves)) {
    Spread loss, icl, matching, from, to, share;
    for (const std::string& run : kind.runs) {
      const Json& of = curves.at("runs").at(run);
      loss.add(of.at("loss").back());
      icl.add(of.at("icl").back());
      matching.add(of.at("final_prefix_matching"));
      if (of.at("phase").is_null()) continue;
      const Json& phase = of.at("phase");
      const double per_step = of.at("tokens").back().get<double>() / of.at("steps").back().get<double>() / 1e6;
      from.add(phase.at("from").get<double>() * per_step);
      to.add(phase.at("to").get<double>() * per_step);
      if (phase.at("share_of_icl").is_number()) share.add(100.0 * phase.at("share_of_icl").get<double>());
    }
    rows.push_back({kind.title, loss.text(3), icl.text(3), matching.text(2),
                    fmt::format("{} of {}", from.count(), kind.runs.size()), from.text(2), to.text(2), share.text(0)});
  }
  page.table({"model", ">final loss", ">final ICL score", ">prefix matching", ">seeds with a phase change",
              ">begins, million tokens", ">ends", ">% of the final ICL score in it"},
             rows);
  page.paragraph(
      "Means over seeds, in brackets the least and the largest. P2: the ICL score goes from above -0.15 to about -0.4 "
      "in the phase change, more than 75 % of it there, in all models of two layers and more; models of one layer "
      "never have it, unless their keys are smeared; it lies at 2.5 to 5 billion tokens of its training.");
  page.figure("loss",
              mean_curves(caption_of(chain, "Held-out loss", {"means over seeds"}), curves, "loss", "nats a token"));
  page.figure("icl", mean_curves(caption_of(chain, "In-context-learning score",
                                            {"means over seeds; negative: the model learns in context"}),
                                 curves, "icl", "late loss − early loss, nats"));
  page.figure("prefix-matching",
              mean_curves(caption_of(chain, "Prefix matching of the best head", {"means over seeds"}), curves,
                          "prefix_matching", "attention to what followed"));
  page.figure("previous-token",
              mean_curves(caption_of(chain, "Attention to the previous token of the best head", {"means over seeds"}),
                          curves, "previous_token", "attention"));
  if (kinds_of(curves).front().runs.size() > 1)
    for (const Kind& kind : kinds_of(curves))
      page.figure("seeds-" + kind.name,
                  seed_curves(caption_of(chain, fmt::format("Seeds apart: {}", kind.title)), curves, kind));
}

void trajectory_section(Page& page, const Chain& chain, const Records& records) {
  const Json& plane = result_of(records, "loss-plane");
  const Json& curves = result_of(records, "curves");
  page.heading("Losses of single tokens: trajectories");
  page.paragraph(
      fmt::format("The losses of {} tokens, one of each held-out window, at every checkpoint, as a vector; all vectors "
                  "of all runs in the "
                  "plane of their first two principal components, which hold {:.0f} % and {:.0f} % of the variance "
                  "(P2, per-token loss "
                  "analysis: 10,000 tokens). Models are drawn apart, with one pair of axes. P2: trajectories turn at "
                  "the phase change, "
                  "where induction heads form; the model of one layer does not.",
                  plane.at("tokens").get<Index>(), 100.0 * plane.at("share").at(0).get<double>(),
                  100.0 * plane.at("share").at(1).get<double>()));
  for (const Kind& kind : kinds_of(curves)) {
    draw::Curves figure{.x_axis = "first principal component", .y_axis = "second principal component"};
    for (const std::string& run : kind.runs) {
      const Json& of = plane.at("runs").at(run);
      const Json& phase = curves.at("runs").at(run).at("phase");
      const std::string seed = fmt::format("seed {}", curves.at("runs").at(run).at("seed").get<std::uint64_t>());
      draw::Curves::Curve all{.name = seed, .x = {}, .y = {}},
          changing{.name = seed + ", phase change", .x = {}, .y = {}};
      for (std::size_t i = 0; i < of.at("points").size(); ++i) {
        const double x = of.at("points").at(i).at(0).get<double>(), y = of.at("points").at(i).at(1).get<double>();
        all.x.push_back(x);
        all.y.push_back(y);
        const Index step = of.at("steps").at(i).get<Index>();
        if (phase.is_null() || step < phase.at("from").get<Index>() || step > phase.at("to").get<Index>()) continue;
        changing.x.push_back(x);
        changing.y.push_back(y);
      }
      figure.curves.push_back(std::move(all));
      if (!changing.x.empty()) figure.curves.push_back(std::move(changing));
    }
    page.figure("trajectory-" + kind.name,
                {caption_of(chain, fmt::format("Losses of single tokens: {}", kind.title),
                            {"dots are checkpoints; training begins where the curves of all models meet"}),
                 std::move(figure)});
  }
}

void ablation_section(Page& page, const Chain& chain, const Records& records) {
  const Json& curves = result_of(records, "curves");
  page.heading("Ablations");
  page.paragraph(
      "Each head's z set to zero at all positions, all patterns kept (P2's ablation), on held-out windows. By how much "
      "that "
      "raises the ICL score (less in-context learning) and how far it takes the losses of single tokens along the "
      "phase "
      "change's own direction (negative: it undoes the change; where a model has none, along that of the two-layer "
      "model of "
      "the same seed, or along the whole training where that has none either).");
  std::vector<std::vector<std::string>> rows, heads;
  draw::Plane plane{.x_axis = "prefix matching", .y_axis = "change of the ICL score"};
  for (const Kind& kind : kinds_of(curves)) {
    draw::Plane::Series series{.name = kind.title, .points = {}};
    for (const std::string& run : kind.runs) {
      const Json& result = result_of(records, "ablations/" + run);
      if (!result.at("groups").is_null())
        for (const auto& [key, name] : {std::pair{"induction", "all induction heads"}, {"others", "as many others"}}) {
          const Json& group = result.at("groups").at(key);
          rows.push_back({run, name, group.at("node").get<std::string>(), signed_number(result.at("icl"), 3),
                          fmt::format("{} ± {}", signed_number(group.at("icl_change"), 3),
                                      number(group.at("icl_change_error"), 3)),
                          signed_number(group.at("loss_change"), 3), signed_number(group.at("along_change"), 2)});
        }
      const Json* strongest = nullptr;
      for (const Json& head : result.at("ablations")) {
        if (head.at("prefix_matching").is_null() || head.at("icl_change").is_null()) continue;
        series.points.push_back({head.at("prefix_matching").get<double>(), head.at("icl_change").get<double>(), ""});
        if (strongest == nullptr || head.at("icl_change").get<double>() > strongest->at("icl_change").get<double>())
          strongest = &head;
      }
      if (strongest != nullptr)
        heads.push_back({run, strongest->at("node").get<std::string>(), number(strongest->at("prefix_matching"), 2),
                         fmt::format("{} ± {}", signed_number(strongest->at("icl_change"), 3),
                                     number(strongest->at("icl_change_error"), 3)),
                         signed_number(strongest->at("along_change"), 2)});
    }
    if (!series.points.empty()) plane.series.push_back(std::move(series));
  }
  if (!rows.empty())
    page.table({"run", "ablated", "heads", ">ICL score before", ">change", ">change of the loss", ">along the change"},
               rows);
  page.paragraph(
      "Induction heads: prefix matching of at least 0.4 at the end; others: those that match least. Of single heads, "
      "the one whose ablation costs most in-context learning:");
  page.table({"run", "head", ">prefix matching", ">change of the ICL score", ">along the change"}, heads);
  if (!plane.series.empty())
    page.figure("ablations",
                {caption_of(chain, "What a head's ablation does to the ICL score", {"a point a head, all seeds"}),
                 std::move(plane)});
  page.paragraph(
      "P2: ablating induction heads takes away most of small attention-only models' in-context learning; other heads "
      "cost little or none.");
}

}  // namespace

Page induction_page(const Chain& chain, const Records& records) {
  Page page;
  page.title(fmt::format("The induction paper's experiments{}", chain.quick ? " (quick)" : ""));
  page.paragraph(kInductionPaper);
  describe_chain(page, chain, records);
  page.paragraph("Where the numbers below differ from P2's, these are the reasons to think of first:");
  page.list(
      {"training: millions of tokens in small batches at a high learning rate, in place of 10 billion tokens in steps "
       "of a "
       "million: the phase change comes after far fewer tokens, and the share of training that it takes is larger",
       "vocabulary and text: a few thousand tokens of plain English in place of 65,536 with code among them: less text "
       "repeats word for word, and a context of a few hundred tokens holds less of it than 8,192",
       "size: d_model 128 and less in place of 768, so that final losses and ICL scores are those of weaker models"});
  phase_section(page, chain, records);
  trajectory_section(page, chain, records);
  ablation_section(page, chain, records);
  return page;
}

}  // namespace kirchhoff::reproduce
