#include <algorithm>  // for find, max, stable_sort

#include "reproduce/framework_page.h"

namespace kirchhoff::reproduce {
namespace {

void terms_section(Page& page, const Chain& chain, const Records& records) {
  const Json& terms = result_of(records, "terms");
  const Json& orders = terms.at("orders");
  const Json& layers = terms.at("layers");
  page.heading("Two layers: term importance");
  const auto row = [](const std::string& name, const Json& order, const char* theirs, const char* per_term) {
    return std::vector<std::string>{
        name,
        fmt::format("{:.0f}", order.at("terms").get<double>()),
        number(order.at("loss"), 3),
        fmt::format("{} ± {}", number(order.at("marginal"), 3), number(order.at("marginal_error"), 3)),
        fmt::format("{:.2g}", order.at("per_term").get<double>()),
        theirs,
        per_term};
  };
  page.table(
      {"terms", ">how many", ">loss with all up to here", ">lowered by", ">each", ">P1: lowered by", ">P1: each"},
      {{"none: ln V", "", number(terms.at("uniform"), 3), "", "", "", ""},
       row("direct path", orders.at(0), "1.8 (1 term)", "1.8"),
       row("single heads", orders.at(1), "5.2 (24 terms)", "0.2"),
       row("virtual heads", orders.at(2), "0.3 (144 terms)", "0.002")});
  const char* const alone[] = {"1.3", "5.2"};
  const char* const added[] = {"0.05", "4.0"};
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < layers.size(); ++i)
    rows.push_back({fmt::format("heads of layer {}", i), number(layers[i].at("alone"), 3), alone[i],
                    number(layers[i].at("added"), 3), added[i]});
  page.table({"", ">lower the direct path's loss by", ">P1", ">on top of the other layer's", ">P1"}, rows);
  page.paragraph(
      fmt::format("Over {} windows, patterns and divisors of norms held (largest deviation of the sum from the model: "
                  "{:.1e}). P1's levels are 10.8, 9.0, 3.8 and 3.5 nats at a vocabulary of about 50,000.",
                  terms.at("windows").get<Index>(), terms.at("closure").get<double>()));
  draw::Bars bars{.value_axis = "nats by which the loss is lowered, ± 2 standard errors"};
  const auto bar = [&](const std::string& name, const Json& of, const char* key) {
    const double value = of.at(key).get<double>(), error = of.at(std::string(key) + "_error").get<double>();
    bars.bars.push_back({name, value, value - 2.0 * error, value + 2.0 * error});
  };
  bar("direct path", orders.at(0), "marginal");
  bar("single heads", orders.at(1), "marginal");
  bar("virtual heads", orders.at(2), "marginal");
  for (std::size_t i = 0; i < layers.size(); ++i) {
    bar(fmt::format("layer {}, alone", i), layers[i], "alone");
    bar(fmt::format("layer {}, on top", i), layers[i], "added");
  }
  page.figure("terms", {caption_of(chain, "Term importance of the two-layer model"), std::move(bars)});
}

void repeats_section(Page& page, const Chain& chain, const Records& records) {
  const Json& repeats = result_of(records, "random-repeats");
  page.heading("Two layers: induction heads on random repeats");
  page.paragraph(fmt::format(
      "BOS and {} random tokens, {} times, {} such sequences. What repeats can be predicted by looking it up alone:",
      repeats.at("2l").at("period").get<Index>(), repeats.at("2l").at("repeats").get<Index>(),
      repeats.at("2l").at("samples").get<Index>()));
  std::vector<std::string> titles = {"loss, nats a token"};
  std::vector<std::vector<std::string>> rows;
  for (const char* name : {"1l", "2l"}) {
    std::vector<std::string> row = {fmt::format("model {}", name)};
    for (const Json& block : repeats.at(name).at("losses")) row.push_back(number(block.at("loss"), 2));
    rows.push_back(std::move(row));
  }
  for (std::size_t i = 1; i < rows.front().size(); ++i) titles.push_back(fmt::format(">block {}", i));
  page.table(titles, rows);
  rows.clear();
  draw::Plane plane{.x_axis = "previous-token attention", .y_axis = "prefix matching"};
  for (const char* name : {"1l", "2l"}) {
    draw::Plane::Series series{.name = fmt::format("model {}", name), .points = {}};
    for (const Json& head : repeats.at(name).at("heads")) {
      std::string roles;
      for (const Json& role : head.at("roles"))
        roles += fmt::format("{}{} ({})", roles.empty() ? "" : ", ", role.at("role").get<std::string>(),
                             role.at("evidence").get<std::string>());
      rows.push_back({name, head.at("head").get<std::string>(), number(head.at("prefix_matching"), 3),
                      number(head.at("previous_token"), 3), number(head.at("copying"), 3), roles});
      const double matching = head.at("prefix_matching").is_null() ? 0.0 : head.at("prefix_matching").get<double>();
      series.points.push_back({head.at("previous_token").get<double>(), matching,
                               matching > 0.3 ? head.at("head").get<std::string>() : std::string()});
    }
    plane.series.push_back(std::move(series));
  }
  page.table({"model", "head", ">prefix matching", ">previous token", ">copying", "roles"}, rows);
  const auto heads_of_layer = repeats.at("2l").at("heads").size() / 2;
  page.table(
      {"", "here", "P1"},
      {{"induction heads of the two-layer model",
        fmt::format("{} of {} heads of layer 1", repeats.at("2l").at("induction_heads").get<Index>(), heads_of_layer),
        "6 clear ones and a messier one, of 12"},
       {"induction heads of the one-layer model",
        fmt::format("{}", repeats.at("1l").at("induction_heads").get<Index>()), "none"}});
  page.paragraph(
      "A role is a score above 0.4 and above chance, or, of previous-token and induction heads, above 0.2 where it is "
      "*causal*: ablating the head costs more on repeated tokens than on new ones ([heads](../../cli/heads.md)).");
  page.figure("random-repeats", {caption_of(chain, "Heads on random tokens that repeat"), std::move(plane)});
}

void positivity_section(Page& page, const Chain& chain, const Records& records) {
  const Json& result = result_of(records, "positivity-plane");
  const std::string through = result.at("through").get<std::string>();
  page.heading("Two layers: the positivity plane");
  page.paragraph(
      fmt::format("For each head of layer 1: do its keys, read through the previous-token head {}, match the query's "
                  "own token (QK), and does what it moves raise the same token (OV)? Positivity Σλ / Σ|λ| of W_E W_QK "
                  "(W_OV of {})ᵀ W_Eᵀ and of W_E W_OV W_U. Induction heads lie in the corner (+, +), P1's do; heads of "
                  "a model that has learned nothing lie around (0, 0).",
                  through, through));
  draw::Plane plane{.x_axis = "QK positivity through " + through, .y_axis = "OV positivity"};
  std::vector<std::vector<std::string>> rows;
  for (const char* which : {"trained", "random"}) {
    draw::Plane::Series series{.name = std::string(which) == "trained" ? "trained" : "untrained", .points = {}};
    for (const Json& point : result.at("points")) {
      if (point.at("model") != which) continue;
      const bool trained = point.at("model") == "trained";
      series.points.push_back({point.at("qk").get<double>(), point.at("ov").get<double>(),
                               trained ? point.at("head").get<std::string>() : std::string()});
      if (trained)
        rows.push_back(
            {point.at("head").get<std::string>(), signed_number(point.at("qk"), 3), signed_number(point.at("ov"), 3)});
    }
    plane.series.push_back(std::move(series));
  }
  page.table({"head", ">QK through " + through, ">OV"}, rows);
  const Json& band = result.at("null").at("trained");
  const double significant = band.at("mean").get<double>() + 4.0 * band.at("sd").get<double>();
  Index copying = 0, corner = 0, heads = 0;
  for (const Json& point : result.at("points")) {
    if (point.at("model") != "trained") continue;
    const bool copies = point.at("ov").get<double>() > significant;
    ++heads;
    copying += copies ? 1 : 0;
    corner += copies && point.at("qk").get<double>() > significant ? 1 : 0;
  }
  page.table({"layer 1", "here", "P1"},
             {{"copying heads", fmt::format("{} of {}", copying, heads), "7 of 12"},
              {"in the corner (+, +)", fmt::format("{} of {}", corner, heads), "6 clear ones"}});
  page.paragraph(
      fmt::format("By chance OV positivity is {} ± {} (standard deviation, Gaussian weights before this vocabulary); "
                  "counted is what lies beyond four of them, {}, on both axes.",
                  signed_number(band.at("mean"), 3), number(band.at("sd"), 3), fixed(significant, 3)));
  page.figure("positivity-plane", {caption_of(chain, "QK and OV positivity of layer 1"), std::move(plane)});
}

void keys_section(Page& page, const Chain& chain, const Records& records) {
  const Json& keys = result_of(records, "keys-by-token");
  page.heading("Two layers: which token makes a key match");
  page.paragraph(fmt::format(
      "At {} places of held-out text whose token stands once before, the score of {} towards the key behind that copy, "
      "as a sum over the tokens that the key came from (through all heads of layer 0, patterns held); and the same "
      "towards whatever stands half-way between. An induction head's key is made by the token *before* it: one back.",
      keys.at("queries").get<Index>(), keys.at("head").get<std::string>()));
  std::vector<std::vector<std::string>> rows;
  draw::Curves curves{.x_axis = "tokens behind the key", .y_axis = "mean part of the score"};
  for (const auto& [key, name] :
       {std::pair{"matching", "behind a copy of the query's token"}, {"others", "elsewhere"}}) {
    const Json& group = keys.at(key);
    std::vector<std::string> row = {name};
    draw::Curves::Curve curve{.name = name, .x = {}, .y = {}};
    for (const Json& value : group.at("by_tokens_back")) {
      row.push_back(signed_number(value, 3));
      curve.x.push_back(static_cast<double>(curve.x.size()));
      curve.y.push_back(value.is_null() ? 0.0 : value.get<double>());
    }
    row.push_back(signed_number(group.at("farther"), 3));
    row.push_back(signed_number(group.at("constant"), 3));
    row.push_back(group.at("previous_is_largest").is_null()
                      ? "–"
                      : fmt::format("{:.0f} %", 100.0 * group.at("previous_is_largest").get<double>()));
    rows.push_back(std::move(row));
    curves.curves.push_back(std::move(curve));
  }
  page.table(
      {"key", ">itself", ">1 back", ">2 back", ">3 back", ">4 back", ">farther", ">position", ">1 back is the largest"},
      rows);
  page.paragraph(
      fmt::format("Mean attention to the key behind the copy: {}. *Position*: what the key has from its own position "
                  "vector, which no token brings.",
                  number(keys.at("attention"), 3)));
  rows.clear();
  for (const Json& example : keys.at("examples")) {
    std::vector<std::string> row = {token_cell(example.at("query")), number(example.at("attention"), 2)};
    for (const Json& token : example.at("by_tokens_back"))
      row.push_back(fmt::format("{} {}", token_cell(token.at("token")), signed_number(token.at("value"), 2)));
    rows.push_back(std::move(row));
  }
  if (!rows.empty()) page.table({"query", ">attention", "key", "1 back", "2 back"}, rows);
  page.figure("keys-by-token", {caption_of(chain, "What an induction head's keys are made of"), std::move(curves)});
}

draw::Figure composition_figure(const Chain& chain, const Json& composition,
                                const std::vector<std::pair<std::string, std::string>>& kinds, const std::string& title,
                                std::vector<std::string> notes) {
  const double baseline = composition.at("baseline").get<double>();
  draw::Bipartite diagram{.left_axis = "writes", .right_axis = "reads", .weight_name = "score − 1/√d_model"};
  const auto place = [](std::vector<std::string>& names, const std::string& name) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found != names.end()) return static_cast<Index>(found - names.begin());
    names.push_back(name);
    return static_cast<Index>(names.size() - 1);
  };
  for (const auto& [key, panel_title] : kinds) {
    draw::Bipartite::Panel panel{.title = panel_title, .edges = {}};
    for (const Json& pair : composition.at("pairs"))
      panel.edges.push_back({place(diagram.left, pair.at("from").get<std::string>()),
                             place(diagram.right, pair.at("to").get<std::string>()),
                             pair.at(key).get<double>() - baseline});
    diagram.panels.push_back(std::move(panel));
  }
  return {caption_of(chain, title, std::move(notes)), std::move(diagram)};
}

void composition_section(Page& page, const Chain& chain, const Records& records) {
  const Json& composition = result_of(records, "composition");
  const double baseline = composition.at("baseline").get<double>(), sd = composition.at("null").at("sd").get<double>();
  page.heading("Two layers: composition, true and as in the erratum");
  page.paragraph(fmt::format(
      "All pairs of heads of layers 0 and 1. By chance a score is 1/√d_model = {} ± {}; aligned heads with flat "
      "spectra have {}. P1's first diagram drew another quantity for K-composition, with its factors shifted (P1, "
      "\"Correction\"): it says how far the second head's queries read what the first head read, is as large for "
      "induction and blind for all other composition. Both are drawn here, the wrong one under its own name.",
      fixed(baseline, 4), fixed(sd, 4), number(composition.at("ceiling"), 4)));
  page.figure("composition",
              composition_figure(chain, composition, {{"q", "Q: queries"}, {"k", "K: keys"}, {"v", "V: values"}},
                                 "Composition, corrected", {"dashed: below chance"}));
  page.figure("composition-erratum",
              composition_figure(chain, composition, {{"k", "K: keys"}, {"induction_match", "as first drawn for K"}},
                                 "K-composition and what the first diagram drew for it", {"dashed: below chance"}));
  std::vector<std::vector<std::string>> rows, top;
  for (const auto& [key, name] :
       {std::pair{"q", "Q"}, {"k", "K"}, {"v", "V"}, {"induction_match", "as first drawn for K"}}) {
    std::vector<const Json*> pairs;
    for (const Json& pair : composition.at("pairs")) pairs.push_back(&pair);
    std::stable_sort(pairs.begin(), pairs.end(), [key = key](const Json* a, const Json* b) {
      return a->at(key).get<double>() > b->at(key).get<double>();
    });
    std::size_t above = 0, below = 0;
    double excess = 0.0, first = 0.0;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const double over = pairs[i]->at(key).get<double>() - baseline;
      above += over > 3.0 * sd ? 1 : 0;
      below += over < -3.0 * sd ? 1 : 0;
      excess += std::max(0.0, over);
      if (i < 5) first += std::max(0.0, over);
    }
    rows.push_back({name, std::to_string(pairs.size()), std::to_string(above), std::to_string(below),
                    excess > 0.0 ? fmt::format("{:.0f} %", 100.0 * first / excess) : "–"});
    for (std::size_t i = 0; i < std::min<std::size_t>(3, pairs.size()); ++i)
      top.push_back(
          {name, fmt::format("{} → {}", pairs[i]->at("from").get<std::string>(), pairs[i]->at("to").get<std::string>()),
           number(pairs[i]->at(key), 4), signed_number(pairs[i]->at(key).get<double>() - baseline, 4)});
  }
  page.paragraph(
      "Sparse composition (P1: most pairs compose no more than random ones would, a few heads do all of it):");
  page.table({"", ">pairs", ">above chance", ">below chance", ">of all excess in the five strongest"}, rows);
  page.paragraph("Above and below: by more than three standard deviations of chance.");
  page.table({"", "pair", ">score", ">above chance"}, top);
}

}  // namespace

void two_layer_sections(Page& page, const Chain& chain, const Records& records) {
  terms_section(page, chain, records);
  repeats_section(page, chain, records);
  positivity_section(page, chain, records);
  keys_section(page, chain, records);
  composition_section(page, chain, records);
}

}  // namespace kirchhoff::reproduce
