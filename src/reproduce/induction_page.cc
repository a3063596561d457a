#include <algorithm>  // for minmax_element

#include "kirchhoff/base/error.h"
#include "reproduce/page.h"

namespace kirchhoff::reproduce {
namespace {

constexpr const char* kInductionPaper =
    "P2 is Olsson et al. 2022, [In-context Learning and Induction "
    "Heads](https://transformer-circuits.pub/2022/in-context-learning-and-induction-heads/index.html) "
    "([arXiv:2209.11895](https://arxiv.org/abs/2209.11895)).";

/// "3.912", or with several seeds "3.912 (3.905 to 3.921)".
std::string spread_text(const Json& spread, int digits) {
  if (spread.is_null()) return "–";
  const std::string mean = number(spread.at("mean"), digits);
  if (spread.at("low") == spread.at("high")) return mean;
  return fmt::format("{} ({} to {})", mean, number(spread.at("low"), digits), number(spread.at("high"), digits));
}

/// The same of single numbers.
std::string spread_text(const std::vector<double>& values, int digits) {
  if (values.empty()) return "–";
  double mean = 0.0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return spread_text(Json{{"mean", mean}, {"low", *low}, {"high", *high}}, digits);
}

const Json& entry_of_run(const Json& curves, const std::string& run) {
  for (const Json& entry : curves.at("runs"))
    if (entry.at("run") == run) return entry;
  fail(ErrorCode::format, "no curves of '{}'", run);
}

/// What the points of a group of runs have at one moment: a spread, of scores of heads that of the best layer.
Json value_at(const Json& point, const char* key) {
  const Json& value = point.at(key);
  if (!value.is_object() || value.contains("mean")) return value;
  Json best;
  for (const Json& layer : value)
    if (best.is_null() || layer.at("mean").get<double>() > best.at("mean").get<double>()) best = layer;
  return best;
}

/// What a kind of model measured over tokens, with the band of its seeds.
draw::Curves::Curve curve_of(const Json& curves, const Json& kind, const char* key, std::string name) {
  draw::Curves::Curve curve{.name = std::move(name), .x = {}, .y = {}};
  for (const Json& point : curves.at("points")) {
    if (point.at("group") != kind.at("group")) continue;
    const Json value = value_at(point, key);
    if (value.is_null()) continue;
    curve.x.push_back(point.at("tokens").get<double>());
    curve.y.push_back(value.at("mean").get<double>());
    curve.low.push_back(value.at("low").get<double>());
    curve.high.push_back(value.at("high").get<double>());
  }
  if (kind.at("runs").size() == 1) curve.low = curve.high = {};
  return curve;
}

/// One curve a kind of model with the band of its seeds, over tokens.
draw::Figure kind_curves(draw::Caption caption, const Json& curves, const char* key, const std::string& axis) {
  draw::Curves figure{.x_axis = "tokens of training", .y_axis = axis, .log_x = true};
  for (const Json& kind : curves.at("kinds")) {
    draw::Curves::Curve curve = curve_of(curves, kind, key, kind.at("title").get<std::string>());
    if (!curve.x.empty()) figure.curves.push_back(std::move(curve));
  }
  return {std::move(caption), std::move(figure)};
}

/// Loss, ICL score and prefix matching of one kind of model below each other, phase changes shaded.
draw::Figure phase_panels(draw::Caption caption, const Json& curves, const Json& kind) {
  draw::CurvePanels panels;
  for (const auto& [key, axis] : {std::pair{"held_out", "held-out loss"},
                                  {"icl", "ICL score"},
                                  {"prefix_matching", "prefix matching"},
                                  {"previous_token", "previous token"}}) {
    draw::Curves panel{.x_axis = "tokens of training", .y_axis = axis, .log_x = true};
    draw::Curves::Curve curve = curve_of(curves, kind, key, axis);
    if (curve.x.empty()) continue;
    panel.curves.push_back(std::move(curve));
    for (const Json& run : kind.at("runs")) {
      const Json& phase = entry_of_run(curves, run.get<std::string>()).at("phase_change");
      if (!phase.is_null())
        panel.marked.push_back({phase.at("from_tokens").get<double>(), phase.at("to_tokens").get<double>(), ""});
    }
    panels.panels.push_back(std::move(panel));
  }
  return {std::move(caption), std::move(panels)};
}

void phase_section(Page& page, const Chain& chain, const Records& records) {
  const Json& curves = result_of(records, "curves");
  page.heading("The phase change");
  page.paragraph(
      "ICL score: mean loss of the last eighth of a window less that of its second sixteenth, negative where a model "
      "learns in context (P2's tokens 500 and 50, as bands that shorter windows have; P2's sign). It is measured on "
      "what the models learn from: windows of text in each of which a passage comes again; the last column has the "
      "finished models' score on the same text as it is. Prefix matching: of "
      "a model's best head on repeated random tokens. The phase change is the shortest stretch with half of the rise "
      "of prefix matching, where that reaches 0.4 and the mean ICL score falls by 0.05 nats across it (from the "
      "evaluations of steps a/2 .. a to those of b .. 2b, a and b its first and last step).");
  std::vector<std::vector<std::string>> rows, without;
  for (const Json& kind : curves.at("kinds")) {
    const Json* last = nullptr;
    for (const Json& point : curves.at("points"))
      if (point.at("group") == kind.at("group")) last = &point;
    std::vector<double> from, to, share, before, after, plain;
    for (const Json& name : kind.at("runs")) {
      const Json& run = entry_of_run(curves, name.get<std::string>());
      plain.push_back(
          result_of(records, "losses/" + name.get<std::string>()).at("plain_icl").at("score").get<double>());
      const Json& phase = run.at("phase_change");
      if (phase.is_null()) {
        without.push_back({name.get<std::string>(), run.at("no_phase_change").get<std::string>()});
        continue;
      }
      const double first = phase.at("from_tokens").get<double>(), end = phase.at("to_tokens").get<double>();
      from.push_back(first / 1e6);
      to.push_back(end / 1e6);
      share.push_back(100.0 * (end - first) / run.at("tokens").get<double>());
      before.push_back(phase.at("icl_before").get<double>());
      after.push_back(phase.at("icl_after").get<double>());
    }
    rows.push_back({kind.at("title").get<std::string>(), spread_text(value_at(*last, "held_out"), 3),
                    spread_text(value_at(*last, "icl"), 3), spread_text(value_at(*last, "prefix_matching"), 2),
                    fmt::format("{} of {}", from.size(), kind.at("runs").size()), spread_text(from, 2),
                    spread_text(to, 2), spread_text(share, 1), spread_text(before, 3), spread_text(after, 3),
                    spread_text(plain, 3)});
  }
  page.table({"model", ">final loss", ">final ICL score", ">prefix matching", ">seeds with a phase change",
              ">begins, million tokens", ">ends", ">% of the training", ">ICL score before", ">after",
              ">final, on plain text"},
             rows);
  page.paragraph("Means over seeds, in brackets the least and the largest.");
  if (!without.empty()) page.table({"without a phase change", "why"}, without);
  page.paragraph(
      "P2: the ICL score goes from above -0.15 to about -0.4 in the phase change, more than 75 % of it there, in all "
      "models of two layers and more; models of one layer never have it, and learn in context where their keys are "
      "smeared; it lies at 2.5 to 5 billion tokens of 10 billion.");
  page.figure("loss", kind_curves(caption_of(chain, "Held-out loss", {"bands: lowest to highest seed"}), curves,
                                  "held_out", "nats a token"));
  page.figure("icl", kind_curves(caption_of(chain, "In-context-learning score",
                                            {"negative: the model learns in context; bands: lowest to highest seed"}),
                                 curves, "icl", "late loss − early loss, nats"));
  page.figure("prefix-matching",
              kind_curves(caption_of(chain, "Prefix matching of the best head", {"bands: lowest to highest seed"}),
                          curves, "prefix_matching", "attention to what followed"));
  for (const Json& kind : curves.at("kinds")) {
    const std::string name = kind.at("kind").get<std::string>(), title = kind.at("title").get<std::string>();
    page.figure("training-" + name,
                phase_panels(caption_of(chain, fmt::format("Along the training: {}", title),
                                        {"shaded: each seed's phase change; scores of the best head"}),
                             curves, kind));
  }
}

void trajectory_section(Page& page, const Chain& chain, const Records& records) {
  const Json& plane = result_of(records, "loss-plane");
  const Json& curves = result_of(records, "curves");
  page.heading("Losses of single tokens: trajectories");
  page.paragraph(fmt::format(
      "The losses of {} tokens, one of each held-out window, at every checkpoint, as a vector; all vectors of all runs "
      "in the plane of their first two principal components, which hold {:.0f} % and {:.0f} % of the variance (P2, "
      "per-token loss analysis: 10,000 tokens). Models are drawn apart, with one pair of axes. P2: trajectories turn "
      "at the phase change, where induction heads form; the model of one layer does not.",
      plane.at("tokens").get<Index>(), 100.0 * plane.at("share").at(0).get<double>(),
      100.0 * plane.at("share").at(1).get<double>()));
  for (const Json& kind : curves.at("kinds")) {
    const std::string kind_name = kind.at("kind").get<std::string>(), title = kind.at("title").get<std::string>();
    draw::Curves figure{.x_axis = "first principal component", .y_axis = "second principal component"};
    for (const Json& run_name : kind.at("runs")) {
      const std::string run = run_name.get<std::string>();
      const Json& of = plane.at("runs").at(run);
      const Json& entry = entry_of_run(curves, run);
      const Json& phase = entry.at("phase_change");
      const std::string seed = fmt::format("seed {}", entry.at("seed").get<std::uint64_t>());
      draw::Curves::Curve all{.name = seed, .x = {}, .y = {}},
          changing{.name = seed + ", phase change", .x = {}, .y = {}};
      for (std::size_t i = 0; i < of.at("points").size(); ++i) {
        const double x = of.at("points").at(i).at(0).get<double>(), y = of.at("points").at(i).at(1).get<double>();
        all.x.push_back(x);
        all.y.push_back(y);
        const Index step = of.at("steps").at(i).get<Index>();
        if (phase.is_null() || step < phase.at("from_step").get<Index>() || step > phase.at("to_step").get<Index>())
          continue;
        changing.x.push_back(x);
        changing.y.push_back(y);
      }
      figure.curves.push_back(std::move(all));
      if (!changing.x.empty()) figure.curves.push_back(std::move(changing));
    }
    page.figure(
        "trajectory-" + kind_name,
        {caption_of(chain, "Losses of single tokens: " + title,
                    {"dots: checkpoints in the phase change; training begins where the curves of all models meet"}),
         std::move(figure)});
  }
}

void ablation_section(Page& page, const Chain& chain, const Records& records) {
  const Json& curves = result_of(records, "curves");
  page.heading("Ablations");
  page.paragraph(
      "Each head's z set to zero at all positions, all patterns kept (P2's ablation), on held-out windows. By how much "
      "that raises the ICL score (less in-context learning) and how far it takes the losses of single tokens along the "
      "phase change's own direction (negative: it undoes the change; where a model has none, along that of the "
      "two-layer model of the same seed, or along the whole training where that has none either).");
  std::vector<std::vector<std::string>> rows, heads;
  draw::Plane plane{.x_axis = "prefix matching", .y_axis = "change of the ICL score"};
  for (const Json& kind : curves.at("kinds")) {
    draw::Plane::Series series{.name = kind.at("title").get<std::string>(), .points = {}};
    for (const Json& run_name : kind.at("runs")) {
      const std::string run = run_name.get<std::string>();
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
      "Induction heads: prefix matching of at least 0.2 at the end; others: those that match least. Of single heads, "
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
       "of a million: the phase change comes after far fewer tokens, and the share of training that it takes is larger",
       "vocabulary and text: a thousand kinds of tokens, of plain English, in place of 65,536 with code among them: "
       "less text repeats word for word, and a context of a few hundred tokens holds less of it than 8,192; pieces of "
       "words repeat, so that even a model of one layer gains from a longer context",
       "size: d_model 128 and less in place of 768, so that final losses and ICL scores are those of weaker models"});
  phase_section(page, chain, records);
  trajectory_section(page, chain, records);
  ablation_section(page, chain, records);
  return page;
}

}  // namespace kirchhoff::reproduce
