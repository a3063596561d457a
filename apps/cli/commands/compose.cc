// kirchhoff compose: Q-, K- and V-composition of all pairs of heads, by weights alone.
#include <algorithm>  // for find, max_element, stable_sort
#include <memory>     // for make_shared

#include "attribution_view.h"
#include "commands.h"
#include "figures.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/study/circuit_json.h"
#include "kirchhoff/study/party_json.h"
#include "party_view.h"
#include "progress_printer.h"
#include "result_output.h"
#include "selectors.h"
#include "subject.h"
#include "table.h"
#include "weights_subject.h"

namespace kirchhoff::cli {
namespace {

struct ComposeCommand {
  ModelOptions model;
  ResultOutput output;
  std::optional<std::string> from, to;
  std::string parties = "heads";
  Index top = 10, offset = 0;
  bool raw = false, induction_match = false;
};

/// What the options name, and whether anything but single heads is among it.
struct Ends {
  std::optional<std::vector<Party>> from, to;
  bool others = false;
};

Ends chosen_ends(const ComposeCommand& options, const ModelConfig& config) {
  Ends ends;
  const auto read = [&](const std::optional<std::string>& text, std::optional<std::vector<Party>>& parties) {
    if (!text) return;
    parties = parse_parties(*text, config);
    for (const Party& party : *parties) ends.others |= party.kind != PartyKind::head || party.chain.is_virtual();
  };
  read(options.from, ends.from);
  read(options.to, ends.to);
  ends.others |= options.parties == "all" && !(ends.from && ends.to);
  return ends;
}

/// The pairs of heads whose ends were asked for.
void keep_chosen(const Ends& ends, Composition& all) {
  const auto is_chosen = [](const std::optional<std::vector<Party>>& parties, Index layer, Index head) {
    const Party one{.kind = PartyKind::head, .layer = layer, .chain = {{{layer, head}}}};
    return !parties || std::find(parties->begin(), parties->end(), one) != parties->end();
  };
  std::erase_if(all.pairs, [&](const CompositionPair& pair) {
    return !is_chosen(ends.from, pair.from_layer, pair.from_head) || !is_chosen(ends.to, pair.to_layer, pair.to_head);
  });
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

std::vector<std::string> compose_notes(const WeightsSubject& subject, const ComposeCommand& options, bool others) {
  std::vector<std::string> notes = head_form_notes(subject.model, {.raw = options.raw, .offset = options.offset}, true);
  if (subject.model.config.norm != NormKind::none && !options.raw)
    notes.push_back("divisors of norms between two heads cancel in the scores");
  notes.push_back("scores compare subspaces and say nothing about what heads attend to");
  if (others) {
    notes.push_back(
        "embed: rows of W_E divided by their own norm, as heads read them; unembed: centred over the vocabulary");
    notes.push_back(
        "sd of other parties: how scores spread when one party is turned at random against the other, spectra kept");
  }
  if (options.induction_match)
    notes.push_back(
        "induction match: the cyclically shifted product of the paper's first diagram (its erratum); not composition");
  return notes;
}

/// The strongest pairs of heads of each kind.
std::string pair_lists(const Session& session, const Composition& all, const ComposeCommand& options) {
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
  return fmt::format(
      "\n{}\n{}",
      session.out.paint(Style::title, fmt::format("Composition, the strongest of {} pairs", all.pairs.size())),
      flowing(blocks, 3, session.out.columns()));
}

int compose_command(Session& session, const ComposeCommand& options) {
  options.output.validate();
  check(options.top >= 1, ErrorCode::usage, "option '--top': {} is less than 1", options.top);
  WeightsSubject subject;
  subject.opened = open_model(options.model.model);
  subject.model = load_weights(session, subject.opened, options.model);
  const ModelConfig& config = subject.model.config;
  check(options.parties == "heads" || options.parties == "all", ErrorCode::usage,
        "option '--parties': '{}' is not heads or all", options.parties);
  const Ends ends = chosen_ends(options, config);
  check(config.n_layers > 1 || ends.others, ErrorCode::usage,
        "'{}' has {}: no head reads what another one wrote; '--parties all' has the embedding, MLPs and the "
        "unembedding",
        subject.opened.files.argument, config.n_layers == 0 ? "no layers" : "one layer");
  Composition all;
  PartyComposition parties;
  {
    ProgressPrinter printer(session.err, session.quiet);
    CompositionOptions composition_options;
    composition_options.form = {.raw = options.raw, .offset = options.offset};
    composition_options.induction_match = options.induction_match;
    composition_options.seed = session.seed;
    composition_options.progress = printer.callback();
    all = composition(subject.model, composition_options);
    if (ends.others) {
      PartyOptions party_options;
      party_options.form = composition_options.form;
      party_options.from = ends.from.value_or(std::vector<Party>{});
      party_options.to = ends.to.value_or(std::vector<Party>{});
      party_options.progress = printer.callback();
      parties = party_composition(subject.model, party_options);
    }
  }
  keep_chosen(ends, all);
  check(!all.pairs.empty() || ends.others, ErrorCode::usage,
        "no pair is left: heads of '--from' lie in earlier layers than those of '--to'");
  const std::vector<std::string> notes = compose_notes(subject, options, ends.others);
  if (options.output.wanted()) {
    Json result = new_result("compose", session, subject);
    result.update(to_json(all));
    if (ends.others) {
      result["parties"] = Json::array();
      for (const PartyScore& score : parties.scores) result["parties"].push_back(to_json(score));
    }
    result["raw"] = options.raw;
    result["offset"] = options.offset;
    result["assumptions"] = notes;
    options.output.write(session, result, [&] {
      check(!all.pairs.empty(), ErrorCode::usage,
            "option '--output': a picture shows pairs of heads, and there is none");
      return composition_figure(caption("Composition of heads", subject, notes), all);
    });
    if (!options.output.screen()) return 0;
  }
  session.out.write(model_line(session, subject));
  if (!all.pairs.empty()) session.out.write(pair_lists(session, all, options));
  if (ends.others) session.out.write(party_lists(session, parties, options.top));
  session.out.write("\n");
  session.out.write(
      note(session.out,
           fmt::format("chance: 1/√d_model = {:.4f} ± {:.4f}; aligned heads with flat spectra: 1/√d_head = {:.4f}",
                       all.baseline, all.null_sd, all.ceiling)));
  session.out.write(notes_lines(session, notes));
  // qk --through is refused where keys have a norm of their own.
  if ((config.qk_norm == QkNorm::per_head && !options.raw) || all.pairs.empty()) return 0;
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
  command.option("--from", "NODES", options->from,
                 "only pairs from these: 0.7, 'L0.*', a virtual head 1.3*0.2, embed, pos, m3, 'm*'");
  command.option("--to", "NODES", options->to, "only pairs to these; unembed among them");
  command.option("--parties", "WHICH", options->parties,
                 "heads alone, or all that write into the stream and read it (default heads)", {"heads", "all"});
  command.option("--top", "K", options->top, "pairs to list of each kind (default 10)");
  command.flag("--induction-match", options->induction_match, "also the erratum's quantity, under its own name");
  command.option("--offset", "D", options->offset, "rotary positions: keys D behind the query (default 0)");
  command.flag("--raw", options->raw, "weights as in the file: no norm folded, nothing centred");
  options->output.declare(command, ResultOutput::Picture::drawn);
  command.on_run([&session, options] { return compose_command(session, *options); });
}

}  // namespace kirchhoff::cli
