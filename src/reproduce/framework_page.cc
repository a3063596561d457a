#include <cmath>  // for log

#include "reproduce/framework_page.h"

namespace kirchhoff::reproduce {
namespace {

constexpr const char* kFrameworkPaper =
    "P1 is Elhage et al. 2021, [A Mathematical Framework for Transformer "
    "Circuits](https://transformer-circuits.pub/2021/framework/index.html), with its correction and its three videos; "
    "its numbers are as printed or spoken there.";

void zero_layer_section(Page& page, const Chain& chain, const Records& records) {
  const Json& zero = result_of(records, "zero-layer");
  const Json& held = zero.at("held_out");
  const double uniform = std::log(zero.at("d_vocab").get<double>());
  page.heading("No layers: bigrams");
  page.paragraph(
      "P1: without layers the best that W_E W_U can be is the bigrams' log-likelihood. Here W_E W_U of the model "
      "without layers beside the counts of the training text, over all of its bigrams:");
  page.table({"", ">nats a bigram"}, {{"uniform, ln V", fixed(uniform, 3)},
                                      {"unigrams of the text", number(zero.at("unigram_loss"), 3)},
                                      {"softmax of W_E W_U", number(zero.at("loss"), 3)},
                                      {"the text's own bigrams: the least possible", number(zero.at("entropy"), 3)}});
  page.paragraph(fmt::format(
      "It is {} nats a bigram from the counts (mean KL divergence, weighted by how often the first token occurs), of "
      "the {} that a uniform guess is. Rank correlation (Spearman) of its rows with the counts: {}, where the "
      "unigrams' order alone has {}; over the bigrams that occur, ln p with ln n(a, b) / n(a): {}, unigrams {}.",
      number(zero.at("kl"), 3), fixed(uniform - zero.at("entropy").get<double>(), 3), number(zero.at("correlation"), 3),
      number(zero.at("unigram_correlation"), 3), number(zero.at("seen_correlation"), 3),
      number(zero.at("seen_unigram_correlation"), 3)));
  page.paragraph(
      "The same on documents that neither has seen, where the table of counts has to be smoothed (Witten-Bell):");
  page.table({"held-out bigrams", ">nats a bigram"},
             {{"unigrams", number(held.at("unigrams"), 3)},
              {"softmax of W_E W_U", number(held.at("direct_path"), 3)},
              {"smoothed table of the training text", number(held.at("bigram_table"), 3)}});
  std::vector<std::vector<std::string>> rows;
  for (const Json& source : zero.at("sources")) {
    const auto cells = [&](const char* key) {
      std::string text;
      for (const Json& token : source.at(key)) text += (text.empty() ? "" : " ") + token_cell(token);
      return text;
    };
    rows.push_back({token_cell(source.at("source")), thousands(source.at("count").get<Index>()), cells("in_text"),
                    cells("in_path"), number(source.at("correlation"), 3)});
  }
  page.table({"token", ">occurs", "most often followed by", "largest in W_E W_U", ">Spearman"}, rows);
  draw::Bars bars{.value_axis = "nats a token on held-out text"};
  bars.bars.push_back({"uniform, ln V", uniform});
  bars.bars.push_back({"unigrams", held.at("unigrams").get<double>()});
  bars.bars.push_back({"table of bigrams", held.at("bigram_table").get<double>()});
  for (const char* name : {"0l", "1l", "2l"})
    bars.bars.push_back({fmt::format("model {}", name), zero.at("losses").at(name).at("loss").get<double>()});
  page.figure("losses", {caption_of(chain, "Held-out loss of tables and models"), std::move(bars)});
}

void one_layer_section(Page& page, const Chain& chain, const Records& records) {
  const Json& one = result_of(records, "one-layer-heads");
  const Json& heads = one.at("heads");
  page.heading("One layer: copying and positional heads");
  std::vector<std::vector<std::string>> rows;
  draw::Bars bars{.value_axis = "positivity of W_E W_OV W_U: Σλ / Σ|λ|"};
  draw::Curves curves{.x_axis = "tokens back", .y_axis = "mean attention by positions alone"};
  for (const Json& head : heads) {
    const Json& out = head.at("largest_out");
    const auto share = [&](const char* key) {
      return fmt::format("{:.0f} %", 100.0 * out.at(key).get<double>() / out.at("sources").get<double>());
    };
    rows.push_back({head.at("head").get<std::string>(), signed_number(head.at("positivity"), 3),
                    head.at("copying").get<bool>() ? "yes" : "no", share("same"), share("variant"), share("similar"),
                    fmt::format("{} ({})", head.at("offset").get<Index>(), number(head.at("offset_attention"), 2)),
                    head.at("positional").get<bool>() ? "yes" : "no", number(head.at("previous_token"), 2),
                    number(head.at("current_token"), 2)});
    bars.bars.push_back({head.at("head").get<std::string>(), head.at("positivity").get<double>()});
    draw::Curves::Curve curve{.name = head.at("head").get<std::string>(), .x = {}, .y = {}};
    for (const Json& value : head.at("by_offset")) {
      curve.x.push_back(static_cast<double>(curve.x.size()));
      curve.y.push_back(value.get<double>());
    }
    curves.curves.push_back(std::move(curve));
  }
  page.table({"head", ">positivity", "copying", ">itself", ">variant", ">similar", ">prefers (attention)", "positional",
              ">to previous", ">to itself"},
             rows);
  page.paragraph(fmt::format(
      "Copying: positivity beyond chance, {} (four standard deviations of heads with Gaussian weights before the same "
      "vocabulary). Itself, variant, similar: for which share of all tokens the token that the head raises most is the "
      "token itself, the same word with another space or case, one with a similar embedding. Prefers: the offset with "
      "most attention by positions alone; positional from 0.4 on. The last columns are means over {} windows of text.",
      number(one.at("significant"), 3), one.at("windows").get<Index>()));
  page.table({"", "here", "P1"},
             {{"copying heads", fmt::format("{} of {}", one.at("copying").get<Index>(), heads.size()), "10 of 12"},
              {"positional heads", fmt::format("{} of {}", one.at("positional").get<Index>(), heads.size()), "2 of 12"},
              {"either", fmt::format("{} of {}", one.at("either").get<Index>(), heads.size()), "12 of 12"}});
  page.figure(
      "one-layer-positivity",
      {caption_of(chain, "Copying heads of the one-layer model",
                  {fmt::format("beyond chance from {} on; P1: 10 of 12 heads", number(one.at("significant"), 3))}),
       std::move(bars)});
  page.figure("one-layer-positions",
              {caption_of(chain, "Where heads attend to by positions alone", {"0 tokens back: the token itself"}),
               std::move(curves)});
}

/// Entries of one head as JSON, gathered by source.
std::vector<std::vector<std::string>> trigram_rows(const Json& entries) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& entry : entries) {
    const std::string source = token_cell(entry.at("source"));
    if (rows.empty() || rows.back()[1] != source)
      rows.push_back({entry.at("head").get<std::string>(), source, "", "", number(entry.at("strength"), 1)});
    std::string& cell = rows.back()[entry.at("side") == "destination" ? 2 : 3];
    cell += (cell.empty() ? "" : " ") + token_cell(entry.at("token"));
    if (entry.at("likeness").is_string() && entry.at("likeness") == "same") cell += " (itself)";
  }
  return rows;
}

void trigram_section(Page& page, const Records& records) {
  const Json& trigrams = result_of(records, "skip-trigrams");
  page.heading("One layer: skip-trigrams and their bugs");
  page.paragraph(
      "A head that attends from *destination* to an earlier *source* raises *out*: [source] .. [destination] → [out]. "
      "For each head the sources that stand out most in both of its tables; the two lists of a row have nothing but "
      "the source in common. Strength: standard deviations by which both are out of the common.");
  std::vector<std::vector<std::string>> rows;
  for (const Json& head : trigrams.at("heads"))
    for (std::vector<std::string>& row : trigram_rows(head.at("entries"))) rows.push_back(std::move(row));
  page.table({"head", "source", "destinations", "outs", ">strength"}, rows);
  page.paragraph(
      "Bugs: a head raises every out of a source behind every destination, so that two right pairs come with two "
      "crossed ones (P1: \"keep .. in mind\" and \"keep .. at bay\" with \"keep .. in bay\" and \"keep .. at mind\"). "
      "Those whose right pairs the direct path believes in most, against the crossed ones:");
  rows.clear();
  for (const Json& bug : trigrams.at("bugs")) {
    const std::string source = token_cell(bug.at("source"));
    const auto pair = [&](std::size_t destination, std::size_t out) {
      return fmt::format("{} .. {} {}", source, token_cell(bug.at("destinations").at(destination)),
                         token_cell(bug.at("outs").at(out)));
    };
    rows.push_back({bug.at("head").get<std::string>(), pair(0, 0), pair(1, 1), pair(0, 1), pair(1, 0),
                    number(bug.at("contrast"), 1)});
  }
  page.table({"head", "raised", "raised", "and so is", "and so is", ">contrast"}, rows);
}

}  // namespace

Page framework_page(const Chain& chain, const Records& records) {
  Page page;
  page.title(fmt::format("The framework paper's experiments{}", chain.quick ? " (quick)" : ""));
  page.paragraph(kFrameworkPaper);
  describe_chain(page, chain, records);
  page.paragraph("Where the numbers below differ from P1's, these are the reasons to think of first:");
  page.list(
      {"vocabulary: a few thousand tokens in place of about 50,000: the uniform guess begins at a lower loss, tokens "
       "are shorter, and more of the text is predicted by the token before (the direct path)",
       "size and training: P1's models have d_model 768 and 12 heads of 64 a layer, a context of 2,048 and far more "
       "text (it does not say how much); these have read each document once or a few times",
       "text: plain English of a few sources, without the code and the web pages that P1's skip-trigrams show"});
  zero_layer_section(page, chain, records);
  one_layer_section(page, chain, records);
  trigram_section(page, records);
  two_layer_sections(page, chain, records);
  return page;
}

}  // namespace kirchhoff::reproduce
