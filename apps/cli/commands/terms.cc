// kirchhoff terms: how much of the loss on a text paths of each length account for.
#include <memory>  // for make_shared

#include "attribution_view.h"
#include "commands.h"
#include "corpus_subject.h"
#include "figures.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/study/term_json.h"
#include "progress_printer.h"
#include "result_output.h"
#include "selectors.h"
#include "subject.h"
#include "table.h"

namespace kirchhoff::cli {
namespace {

struct TermsCommand {
  ModelOptions model;
  CorpusCommandOptions text;
  ResultOutput output;
  std::string norms = "frozen";
  std::optional<Index> order;
  bool layers = false;
  std::optional<std::string> heads;
};

std::vector<std::string> term_assumptions(const ModelConfig& config, const TermImportance& terms) {
  std::vector<std::string> lines = {
      "patterns are held at their values in the run: what heads do to each other's patterns is not in it"};
  const bool norms = config.norm != NormKind::none;
  if (norms && terms.norms == TermNorms::frozen)
    lines.emplace_back("norms divide by what they did in the run, the final one too: logits are sums over the orders");
  if (norms && terms.norms == TermNorms::recomputed)
    lines.emplace_back(
        "norms are recomputed on each stream without the longer terms: the orders' logits do not add up");
  lines.emplace_back("order 0 is the direct path: what no head writes, biases of outputs included");
  if (!config.attn_only)
    lines.emplace_back("MLPs write what they wrote in the run, in every order: what wrote their input is not asked");
  if (config.logit_softcap > 0.0) lines.emplace_back("logits are soft-capped after their terms are summed");
  return lines;
}

std::string term_number(double count) {
  return count < 1e9 ? fmt::format("{:.0f}", count) : fmt::format("{:.1e}", count);
}

std::string with_error(const MeanLoss& loss) {
  return loss.error > 0.0 ? fmt::format("{:.4f} ± {:.4f}", loss.value, loss.error) : fmt::format("{:.4f}", loss.value);
}

/// One window has no standard error.
std::string error_cell(const MeanLoss& loss, const TermImportance& terms) {
  return terms.windows > 1 ? fmt::format("{:.3f}", loss.error) : "–";
}

std::string orders_table(const Session& session, const TermImportance& terms) {
  Table table(
      {{"heads in a path"}, {"terms", true}, {"loss", true}, {"lowered by", true}, {"±", true}, {"per term", true}});
  table.add({"none: 1 / V", "", fmt::format("{:.4f}", terms.uniform), "", "", ""});
  const auto row = [&](const std::string& label, const TermOrder& order) {
    table.add({label, term_number(order.terms), fmt::format("{:.4f}", order.loss.value),
               signed_value(order.marginal.value), error_cell(order.marginal, terms),
               fmt::format("{:+.1e}", order.per_term())});
  };
  for (const TermOrder& order : terms.orders)
    row(order.order == 0 ? "0: direct path" : fmt::format("{}", order.order), order);
  if (terms.longer.terms > 0.0) row(fmt::format("{} and more", terms.longer.order), terms.longer);
  return table.render(session.out);
}

std::string splits_table(const Session& session, const TermImportance& terms, const std::vector<TermSplit>& splits) {
  Table table({{"terms of order 1"}, {"alone", true}, {"±", true}, {"on top of the others", true}, {"±", true}});
  for (const TermSplit& split : splits)
    table.add({split.node, signed_value(split.alone.value), error_cell(split.alone, terms),
               signed_value(split.added.value), error_cell(split.added, terms)});
  return table.render(session.out);
}

int terms_command(Session& session, const TermsCommand& options) {
  check(!options.order || *options.order >= 0, ErrorCode::usage, "option '--order': {} is not a number of heads",
        options.order.value_or(0));
  options.output.validate();
  const CorpusSubject subject = open_corpus_subject(session, options.model, options.text);
  const ModelConfig& config = subject.model.config;
  TermOptions measuring;
  measuring.order = options.order.value_or(-1);
  measuring.norms = options.norms == "frozen" ? TermNorms::frozen : TermNorms::recomputed;
  measuring.by_layer = options.layers;
  if (options.heads) measuring.by_head = parse_heads(*options.heads, config.n_layers, config.n_heads);
  const TermImportance terms = [&] {
    ProgressPrinter printer(session.err, session.quiet);
    measuring.progress = printer.callback();
    return term_importance(subject.model, subject.corpus.windows, measuring);
  }();

  const std::vector<std::string> assumptions = term_assumptions(config, terms);
  if (options.output.wanted()) {
    Json result = new_result("terms", session, subject);
    result.update(to_json(terms));
    result["assumptions"] = assumptions;
    options.output.write(session, result,
                         [&] { return terms_figure(caption("Term importance", subject, assumptions), terms); });
    if (!options.output.screen()) return 0;
  }
  session.out.write(header(session, subject));
  session.out.write(
      fmt::format("\n{}\n", session.out.paint(Style::title, "Loss by order of the path expansion, nats")));
  session.out.write(orders_table(session, terms));
  if (!terms.layers.empty()) session.out.write("\n" + splits_table(session, terms, terms.layers));
  if (!terms.heads.empty()) session.out.write("\n" + splits_table(session, terms, terms.heads));
  session.out.write(fmt::format(
      "\n  model's own loss {} over {} predictions; closure {}\n", with_error(terms.full), terms.predictions,
      session.out.paint(terms.closure <= 1e-5 ? Style::good : Style::error, fmt::format("{:.1e}", terms.closure))));
  if (!terms.layers.empty() || !terms.heads.empty())
    session.out.write(note(session.out,
                           "alone: by how much these terms lower the loss of the direct path; on top: the "
                           "loss of orders 0 and 1 without them, less with them"));
  session.out.write(note(session.out,
                         "closure: |all terms − the model's stream|, the largest number, relative to the largest; "
                         "±: standard error over windows"));
  for (const std::string& line : assumptions) session.out.write(note(session.out, line));
  session.out.write(note(
      session.out, fmt::format("cost: as {:.1f} forwards of the model (depth + 2 = {}{})", terms.cost.equivalent,
                               config.n_layers + 2,
                               terms.layers.empty() && terms.heads.empty() ? "" : "; the splits come on top of that")));
  return 0;
}

}  // namespace

void add_terms(Command& root, Session& session) {
  Command& command = root.add_command("terms", "how much paths through 0, 1, 2, .. heads lower the loss on a text");
  auto options = std::make_shared<TermsCommand>();
  options->text.tokens = 4096;
  options->model.declare(command);
  options->text.declare(command);
  command.option("--norms", "KIND", options->norms, "what norms divide by without the longer terms (default frozen)",
                 {"frozen", "recomputed"});
  command.option("--order", "K", options->order, "tell orders up to K apart (default: all)");
  command.flag("--layers", options->layers, "also split order 1 over layers");
  command.option("--heads", "L.H,..", options->heads, "and over these heads, e.g. 0.3,L5.* or '*.*'");
  options->output.declare(command, ResultOutput::Picture::drawn);
  command.on_run([&session, options] { return terms_command(session, *options); });
}

}  // namespace kirchhoff::cli
