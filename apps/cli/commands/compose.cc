// kirchhoff compose: Q-, K- and V-composition of all pairs of heads, by weights alone.
#include <algorithm>  // for stable_sort
#include <memory>     // for make_shared

#include "attribution_view.h"
#include "commands.h"
#include "json_option.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/study/circuit_json.h"
#include "progress_printer.h"
#include "selectors.h"
#include "subject.h"
#include "table.h"
#include "weights_subject.h"

namespace kirchhoff::cli {
namespace {

struct ComposeCommand {
  ModelOptions model;
  JsonOption json;
  std::optional<std::string> from, to;
  Index top = 10, offset = 0;
  bool raw = false, induction_match = false;
};

/// The pairs whose ends were asked for.
void keep_chosen(const ComposeCommand& options, const ModelConfig& config, Composition& all) {
  const auto keep = [&](const std::optional<std::string>& text, auto&& layer_of, auto&& head_of) {
    if (!text) return;
    const auto heads = parse_heads(*text, config.n_layers, config.n_heads);
    std::erase_if(all.pairs, [&](const CompositionPair& pair) {
      return std::find(heads.begin(), heads.end(), std::pair(layer_of(pair), head_of(pair))) == heads.end();
    });
  };
  keep(
      options.from, [](const CompositionPair& p) { return p.from_layer; },
      [](const CompositionPair& p) { return p.from_head; });
  keep(
      options.to, [](const CompositionPair& p) { return p.to_layer; },
      [](const CompositionPair& p) { return p.to_head; });
}

using ScoreOf = double (*)(const CompositionPair&);

std::vector<std::string> strongest_pairs(const Session& session, std::vector<CompositionPair> pairs,
                                         const Composition& all, const std::string& title, ScoreOf score, Index count) {
  std::stable_sort(pairs.begin(), pairs.end(),
                   [score](const CompositionPair& a, const CompositionPair& b) { return score(a) > score(b); });
  Table table({{title}, {"score", true}, {"above chance", true}});
  for (std::size_t i = 0; i < pairs.size() && i < static_cast<std::size_t>(count); ++i)
    table.add({fmt::format("{} → {}", head_name(pairs[i].from_layer, pairs[i].from_head),
                           head_name(pairs[i].to_layer, pairs[i].to_head)),
               fmt::format("{:.4f}", score(pairs[i])), fmt::format("{:+.4f}", score(pairs[i]) - all.baseline)});
  return table.lines(session.out, 44);
}

std::vector<std::string> compose_notes(const WeightsSubject& subject, const ComposeCommand& options) {
  std::vector<std::string> notes = head_form_notes(subject.model, {.raw = options.raw, .offset = options.offset}, true);
  if (subject.model.config.norm != NormKind::none && !options.raw)
    notes.push_back("divisors of norms between two heads cancel in the scores");
  notes.push_back("scores compare subspaces and say nothing about what heads attend to");
  if (options.induction_match)
    notes.push_back(
        "induction match: the cyclically shifted product of the paper's first diagram (its erratum); not composition");
  return notes;
}

int compose_command(Session& session, const ComposeCommand& options) {
  check(options.top >= 1, ErrorCode::usage, "option '--top': {} is less than 1", options.top);
  WeightsSubject subject;
  subject.opened = open_model(options.model.model);
  subject.model = load_weights(session, subject.opened, options.model);
  const ModelConfig& config = subject.model.config;
  check(config.n_layers > 1, ErrorCode::usage, "'{}' has one layer: no head reads what another one wrote",
        subject.opened.files.argument);
  Composition all;
  {
    ProgressPrinter printer(session.err, session.quiet);
    CompositionOptions composition_options;
    composition_options.form = {.raw = options.raw, .offset = options.offset};
    composition_options.induction_match = options.induction_match;
    composition_options.seed = session.seed;
    composition_options.progress = printer.callback();
    all = composition(subject.model, composition_options);
  }
  keep_chosen(options, config, all);
  check(!all.pairs.empty(), ErrorCode::usage,
        "no pair is left: heads of '--from' lie in earlier layers than those of '--to'");
  const std::vector<std::string> notes = compose_notes(subject, options);
  if (options.json.wanted()) {
    Json result = new_result("compose", session, subject);
    result.update(to_json(all));
    result["raw"] = options.raw;
    result["offset"] = options.offset;
    result["assumptions"] = notes;
    options.json.print(session, result);
    return 0;
  }
  session.out.write(model_line(session, subject));
  session.out.write(fmt::format(
      "\n{}\n",
      session.out.paint(Style::title, fmt::format("Composition, the strongest of {} pairs", all.pairs.size()))));
  std::vector<std::vector<std::string>> blocks = {
      strongest_pairs(
          session, all.pairs, all, "Q: queries", [](const CompositionPair& p) { return p.q; }, options.top),
      strongest_pairs(
          session, all.pairs, all, "K: keys", [](const CompositionPair& p) { return p.k; }, options.top),
      strongest_pairs(
          session, all.pairs, all, "V: values", [](const CompositionPair& p) { return p.v; }, options.top)};
  if (options.induction_match)
    blocks.push_back(strongest_pairs(
        session, all.pairs, all, "induction match", [](const CompositionPair& p) { return *p.induction_match; },
        options.top));
  session.out.write(flowing(blocks, 3, session.out.columns()));
  session.out.write("\n");
  session.out.write(
      note(session.out,
           fmt::format("chance: 1/√d_model = {:.4f} ± {:.4f}; aligned heads with flat spectra: 1/√d_head = {:.4f}",
                       all.baseline, all.null_sd, all.ceiling)));
  session.out.write(notes_lines(session, notes));
  if (config.qk_norm == QkNorm::per_head && !options.raw) return 0;  // qk --through is refused there
  const auto strongest = std::max_element(all.pairs.begin(), all.pairs.end(),
                                          [](const CompositionPair& a, const CompositionPair& b) { return a.k < b.k; });
  session.out.write(fmt::format("{} kirchhoff qk {} --head {} --through {} --eigen\n",
                                session.out.paint(Style::faint, "next:"), shell_quoted(subject.opened.files.argument),
                                head_name(strongest->to_layer, strongest->to_head),
                                head_name(strongest->from_layer, strongest->from_head)));
  return 0;
}

}  // namespace

void add_compose(Command& root, Session& session) {
  Command& command = root.add_command("compose", "which heads read what earlier heads write, by their weights");
  auto options = std::make_shared<ComposeCommand>();
  options->model.declare(command);
  command.option("--from", "L.H", options->from, "only pairs from these heads, e.g. 0.7 or 'L0.*'");
  command.option("--to", "L.H", options->to, "only pairs to these heads");
  command.option("--top", "K", options->top, "pairs to list of each kind (default 10)");
  command.flag("--induction-match", options->induction_match, "also the erratum's quantity, under its own name");
  command.option("--offset", "D", options->offset, "rotary positions: keys D behind the query (default 0)");
  command.flag("--raw", options->raw, "weights as in the file: no norm folded, nothing centred");
  options->json.declare(command);
  command.on_run([&session, options] { return compose_command(session, *options); });
}

}  // namespace kirchhoff::cli
