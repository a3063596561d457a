#include <algorithm>  // for any_of, clamp, find_if, stable_sort
#include <memory>     // for make_shared
#include <numeric>    // for accumulate

#include "attribution_view.h"
#include "commands.h"
#include "corpus_subject.h"
#include "figures.h"
#include "kirchhoff/model/tokenizer.h"
#include "kirchhoff/study/head_roles.h"
#include "kirchhoff/weights/qk_trace.h"
#include "progress_printer.h"
#include "prompt.h"
#include "result_output.h"
#include "selectors.h"
#include "subject.h"
#include "table.h"

namespace kirchhoff::cli {
namespace {

struct HeadsCommand {
  ModelOptions model;
  ResultOutput output;
  CorpusCommandOptions text;
  std::optional<std::string> ids;
  std::optional<Index> period;
  Index offset = 0;
  std::optional<Index> block;  ///< 25, or what fits the context
  Index repeats = 4, samples = 10;
  double threshold = kRoleScore;
  Index check = 4;
  Index top = 20;
  bool all = false, no_causal = false, qk_trace = false;
  std::string attended = "strongest";
};

/// What may stand in random text: ordinary tokens; without a tokenizer every id.
std::vector<TokenId> ordinary_tokens(const OpenedModel& opened, const ModelConfig& config) {
  std::vector<TokenId> ids;
  if (!opened.tokenizer) return ids;
  for (TokenId id = 0; id < static_cast<TokenId>(config.d_vocab); ++id)
    if (const text::TokenInfo* info = opened.tokenizer->find(id); info != nullptr && !info->special) ids.push_back(id);
  return ids;
}

std::vector<PeriodicTokens> sequences_of(const HeadsCommand& options, const Session& session, const OpenedModel& opened,
                                         const ModelConfig& config) {
  if (options.ids) {
    check(options.period.has_value(), ErrorCode::usage,
          "option '--ids' needs '--period P': after how many tokens the sequence repeats");
    return {{parse_ids(*options.ids, "--ids"), *options.period, options.offset}};
  }
  constexpr Index kBlock = 25;  // Olsson et al. 2022
  RepeatOptions repeat{.period = options.block.value_or(kBlock),
                       .repeats = options.repeats,
                       .samples = options.samples,
                       .seed = session.seed};
  if (opened.tokenizer)
    if (const BosDecision bos = decide_bos(opened.files, *opened.tokenizer); bos.prepend) repeat.bos = bos.id;
  repeat.allowed = ordinary_tokens(opened, config);
  if (!options.block && config.n_ctx > 0 && repeat.repeats > 0)
    repeat.period = std::clamp<Index>((config.n_ctx - Index{repeat.bos.has_value()}) / repeat.repeats, 1, kBlock);
  const Index length = repeat.period * repeat.repeats + repeat.bos.has_value();
  check(
      config.n_ctx == 0 || length <= config.n_ctx, ErrorCode::usage,
      "{} repeats of {} tokens are {} with BOS, the model's context holds {}: give fewer with '--repeats' or '--block'",
      repeat.repeats, repeat.period, length, config.n_ctx);
  return repeated_random_tokens(config, repeat);
}

std::string role_text(const HeadRole& role) {
  std::string text = fmt::format("{}, {}", name(role.role), name(role.evidence));
  if (role.ablation) text += fmt::format(" {:+.2f}", role.ablation->loss);
  return text;
}

/// Heads that work on content first, those that rest on a position last; within a role by score.
std::pair<int, double> list_order(const NamedHead& head) {
  constexpr Role kOrder[] = {Role::induction,  Role::previous_token, Role::duplicate_token, Role::copying,
                             Role::inhibition, Role::current_token,  Role::first_token};
  for (int place = 0; place < 7; ++place)
    for (const HeadRole& role : head.roles)
      if (role.role == kOrder[place]) return {place, -role.score.value};
  return {7, 0.0};
}

bool has_traces(const std::vector<NamedHead>& heads) {
  return std::any_of(heads.begin(), heads.end(), [](const NamedHead& h) { return h.scores.qk_trace.has_value(); });
}

bool has_role(const std::vector<NamedHead>& heads, Role role) {
  return std::any_of(heads.begin(), heads.end(), [role](const NamedHead& head) {
    return std::any_of(head.roles.begin(), head.roles.end(), [role](const HeadRole& has) { return has.role == role; });
  });
}

/// `weighted`: the copying score of the attention-weighted raise.
std::string heads_table(const Session& session, const std::vector<NamedHead>& heads, bool weighted) {
  const bool traces = has_traces(heads);
  const bool inhibits = has_role(heads, Role::inhibition);
  std::vector<Column> columns = {{"head"},       {"prev", true}, {"induct", true}, {"chance", true},
                                 {"dupl", true}, {"same", true}, {"first", true},  {"copy", true}};
  if (inhibits) columns.push_back({"inhib", true});
  if (traces) columns.push_back({"QK trace", true});
  columns.push_back({"role, evidence"});
  Table table(columns);
  for (const NamedHead& head : heads) {
    const HeadScores& s = head.scores;
    std::string roles;
    for (const HeadRole& role : head.roles) roles += (roles.empty() ? "" : "; ") + role_text(role);
    const auto two = [](double value) { return fmt::format("{:.2f}", value); };
    const auto signed_two = [](const std::optional<Score>& score) {
      return score ? fmt::format("{:+.2f}", score->value) : std::string("–");
    };
    std::vector<Cell> row = {head_name(s.layer, s.head),   two(s.previous_token.value),
                             two(s.induction.value),       two(s.induction.null.high),
                             two(s.duplicate_token.value), two(s.current_token.value),
                             two(s.first_token.value),     signed_two(weighted ? s.copying_weighted : s.copying)};
    if (inhibits) row.push_back(signed_two(s.inhibition));
    if (traces) row.push_back(s.qk_trace ? fmt::format("{:+.3g}", s.qk_trace->value) : "–");
    row.push_back(roles);
    table.add(row);
  }
  return table.render(session.out);
}

/// The QK traces, with previous-token attention as it was measured; their null spreads it evenly over earlier heads.
void add_traces(const Model& model, std::vector<NamedHead>& heads, const Progress& progress) {
  std::vector<double> previous;
  for (const NamedHead& head : heads) previous.push_back(head.scores.previous_token.value);
  const std::vector<double> even(
      previous.size(), std::accumulate(previous.begin(), previous.end(), 0.0) / static_cast<double>(previous.size()));
  const std::vector<double> traces = qk_traces(model, previous, {}, progress),
                            null = qk_traces(model, even, {}, progress);
  for (std::size_t i = 0; i < heads.size(); ++i)
    if (heads[i].scores.layer > 0) heads[i].scores.qk_trace = Score{traces[i], {null[i], null[i]}};
}

/// The table and the notes that every kind of text has.
void write_heads(Session& session, const HeadsCommand& options, std::vector<NamedHead> heads) {
  const Index count = static_cast<Index>(heads.size());
  const bool traces = has_traces(heads);
  if (!options.all) {
    std::stable_sort(heads.begin(), heads.end(),
                     [](const NamedHead& a, const NamedHead& b) { return list_order(a) < list_order(b); });
    const auto named = std::find_if(heads.begin(), heads.end(), [](const NamedHead& h) { return h.roles.empty(); });
    heads.erase(named, heads.end());
  }
  const Index with_role = static_cast<Index>(heads.size());
  if (!options.all && with_role > options.top) heads.resize(static_cast<std::size_t>(options.top));
  session.out.write(fmt::format("\n{}\n", session.out.paint(Style::title, "What heads do")));
  session.out.write(heads.empty() ? "  no head has a role\n"
                                  : heads_table(session, heads, options.attended == "weighted"));
  session.out.write("\n");
  if (!options.all)
    session.out.write(note(session.out, fmt::format("{} of {} heads with a role, of {} heads; --all lists every one",
                                                    heads.size(), with_role, count)));
  session.out.write(note(
      session.out, fmt::format("a role is given from a score of {:.2f} on, above its null band; observational: from a "
                               "pattern, attributional: from direct paths",
                               options.threshold)));
  session.out.write(
      note(session.out,
           "prev, same, first: attention to the previous position, the query's own, the first; induct, "
           "dupl: to the token after an earlier copy, to the copy itself; chance: the highest induct over "
           "the same tokens shuffled"));
  session.out.write(
      note(session.out, fmt::format("copy: −1 to 1, the share of what the head raises that goes to {}{}",
                                    options.attended == "weighted" ? "what it attends to, weighted by attention"
                                                                   : "the token that it attends to most",
                                    has_role(heads, Role::inhibition) ? "; inhib: the same of what it lowers" : "")));
  if (traces)
    session.out.write(note(session.out,
                           "QK trace: of the QK circuit over tokens with keys through earlier heads, each by its prev; "
                           "positive: queries match keys whose previous token is their own; not normalised"));
}

int heads_on_text(Session& session, const HeadsCommand& options, const Subject& opened) {
  CorpusSubject subject{opened.opened, opened.model, {}, {}};
  subject.corpus = read_command_corpus(subject.opened, subject.model.config.n_ctx, options.text, subject.bos);
  const std::vector<NamedHead> heads = [&] {
    ProgressPrinter printer(session.err, session.quiet);
    std::vector<NamedHead> named =
        name_heads(score_heads_on_text(subject.model, subject.corpus.windows, subject.corpus.bos,
                                       {.seed = session.seed, .progress = printer.callback()}),
                   options.threshold);
    if (options.qk_trace) add_traces(subject.model, named, printer.callback());
    return named;
  }();
  if (options.output.wanted()) {
    Json result = new_result("heads", session, subject);
    result["threshold"] = options.threshold;
    result["causal_check"] = false;
    result["heads"] = Json::array();
    for (const NamedHead& head : heads) result["heads"].push_back(to_json(head));
    options.output.write(session, result, [&] {
      return heads_figure(caption("Head scores on a text", subject), subject.model.config, heads);
    });
    if (!options.output.screen()) return 0;
  }
  session.out.write(header(session, subject));
  write_heads(session, options, heads);
  session.out.write(
      note(session.out,
           "on natural text copies are found by token identity, and chance is the same text shuffled; the "
           "causal check needs repeated tokens: leave --data out"));
  return 0;
}

int heads_command(Session& session, const HeadsCommand& options) {
  options.output.validate();
  check(options.top >= 0, ErrorCode::usage, "option '--top': {} is not a number of heads", options.top);
  check(options.check >= 0, ErrorCode::usage, "option '--check': {} is not a number of heads", options.check);
  check(options.ids.has_value() || !options.period, ErrorCode::usage,
        "option '--period' belongs to '--ids'; the period of random text is '--block'");
  check(!options.ids || !options.text.given(), ErrorCode::usage,
        "option '--ids': heads are scored on one sequence or on the text of '--data', not on both");
  Subject subject;
  subject.opened = open_model(options.model.model);
  subject.model = load_weights(session, subject.opened, options.model);
  require_heads(subject.model.config);
  if (options.text.given()) return heads_on_text(session, options, subject);
  const ModelConfig& config = subject.model.config;
  const std::vector<PeriodicTokens> sequences = sequences_of(options, session, subject.opened, config);
  const bool predicts_own = config.d_vocab_out >= config.d_vocab, causal = !options.no_causal && predicts_own;
  std::vector<NamedHead> heads = [&] {
    ProgressPrinter printer(session.err, session.quiet);
    std::vector<NamedHead> named =
        name_heads(score_heads(subject.model, sequences, {.seed = session.seed, .progress = printer.callback()}),
                   options.threshold);
    if (causal) check_roles(subject.model, sequences, named, {.top = options.check, .progress = printer.callback()});
    if (options.qk_trace) add_traces(subject.model, named, printer.callback());
    return named;
  }();

  if (options.output.wanted()) {
    Json result = kirchhoff::new_result("heads");
    result["provenance"] = to_json(provenance(session, subject), subject.names());
    result["sequences"] = {{"count", sequences.size()},
                           {"period", sequences.front().period},
                           {"offset", sequences.front().offset},
                           {"length", sequences.front().tokens.size()},
                           {"ids", sequences.front().tokens}};
    result["threshold"] = options.threshold;
    result["causal_check"] = causal;
    result["heads"] = Json::array();
    for (const NamedHead& head : heads) result["heads"].push_back(to_json(head));
    options.output.write(session, result, [&] {
      return heads_figure({.title = "Head scores on repeated tokens",
                           .header = {model_text(subject.opened, subject.model)},
                           .notes = {fmt::format("{} sequences of {} tokens, blocks of {}", sequences.size(),
                                                 sequences.front().tokens.size(), sequences.front().period)}},
                          config, heads);
    });
    if (!options.output.screen()) return 0;
  }
  const PeriodicTokens& first = sequences.front();
  std::string text_kind = options.ids ? "the given tokens" : fmt::format("{} random texts", sequences.size());
  session.out.write(
      header_line(session, "text",
                  fmt::format("{}: {} tokens{} in blocks of {} that repeat", text_kind, first.tokens.size(),
                              first.offset > 0 ? fmt::format(", {} before", first.offset) : "", first.period)));
  write_heads(session, options, heads);
  if (causal)
    session.out.write(note(session.out,
                           "+X: nats that mean ablation of the head adds to the loss of a repeated token; causal where "
                           "that is beyond twice its error and more than what it adds for a token that is new"));
  if (!options.no_causal && !predicts_own)
    session.out.write(note(session.out, "not checked by ablation: the model predicts other tokens than it reads"));
  return 0;
}

}  // namespace

void add_heads(Command& root, Session& session) {
  Command& command =
      root.add_command("heads", "what heads do on repeated tokens: scores, null bands, roles by evidence");
  auto options = std::make_shared<HeadsCommand>();
  options->text.tokens = 4096;
  options->model.declare(command);
  options->text.declare(command);
  command.option("--ids", "IDS", options->ids, "score one given sequence, e.g. 1,2,3,1,2,3");
  command.option("--period", "P", options->period, "after how many tokens it repeats");
  command.option("--offset", "N", options->offset, "tokens before its first block (default 0)");
  command.option("--block", "N", options->block,
                 "random text: tokens in a block (default 25, or what the context holds)");
  command.option("--repeats", "N", options->repeats, "how often the block stands (default 4)");
  command.option("--samples", "N", options->samples, "texts (default 10)");
  command.option("--threshold", "X", options->threshold, "the score from which on a role is given (default 0.4)");
  command.option("--check", "N", options->check, "heads of a role to ablate (default 4)");
  command.flag("--no-causal", options->no_causal, "do not ablate");
  command.option("--top", "N", options->top, "heads to list (default 20)");
  command.flag("--all", options->all, "list every head, in order");
  command.option(
      "--attended", "HOW", options->attended,
      "whose raise the listed copying score counts: the strongest attended token's, or weighted by attention",
      {"strongest", "weighted"});
  command.flag("--qk-trace", options->qk_trace, "also the trace of each QK circuit through earlier heads");
  options->output.declare(command, ResultOutput::Picture::drawn);
  command.on_run([&session, options] { return heads_command(session, *options); });
}

}  // namespace kirchhoff::cli
