#include <algorithm>  // for stable_sort
#include <memory>     // for make_shared

#include "attribution_view.h"
#include "commands.h"
#include "json_option.h"
#include "kirchhoff/model/tokenizer.h"
#include "kirchhoff/study/head_roles.h"
#include "progress_printer.h"
#include "prompt.h"
#include "subject.h"
#include "table.h"

namespace kirchhoff::cli {
namespace {

struct HeadsCommand {
  ModelOptions model;
  JsonOption json;
  std::optional<std::string> ids;
  std::optional<Index> period;
  Index offset = 0;
  Index block = 25, repeats = 4, samples = 10;
  double threshold = kRoleScore;
  Index check = 4;
  Index top = 20;
  bool all = false, no_causal = false;
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
  RepeatOptions repeat{
      .period = options.block, .repeats = options.repeats, .samples = options.samples, .seed = session.seed};
  if (opened.tokenizer)
    if (const BosDecision bos = decide_bos(opened.files, *opened.tokenizer); bos.prepend) repeat.bos = bos.id;
  repeat.allowed = ordinary_tokens(opened, config);
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
  constexpr Role kOrder[] = {Role::induction, Role::previous_token, Role::duplicate_token,
                             Role::copying,   Role::current_token,  Role::first_token};
  for (int place = 0; place < 6; ++place)
    for (const HeadRole& role : head.roles)
      if (role.role == kOrder[place]) return {place, -role.score.value};
  return {6, 0.0};
}

std::string heads_table(const Session& session, const std::vector<NamedHead>& heads) {
  Table table({{"head"},
               {"prev", true},
               {"induct", true},
               {"chance", true},
               {"dupl", true},
               {"same", true},
               {"first", true},
               {"copy", true},
               {"role, evidence"}});
  for (const NamedHead& head : heads) {
    const HeadScores& s = head.scores;
    std::string roles;
    for (const HeadRole& role : head.roles) roles += (roles.empty() ? "" : "; ") + role_text(role);
    const auto two = [](double value) { return fmt::format("{:.2f}", value); };
    table.add({head_name(s.layer, s.head), two(s.previous_token.value), two(s.induction.value),
               two(s.induction.null.high), two(s.duplicate_token.value), two(s.current_token.value),
               two(s.first_token.value), s.copying ? fmt::format("{:+.2f}", s.copying->value) : "–", roles});
  }
  return table.render(session.out);
}

int heads_command(Session& session, const HeadsCommand& options) {
  check(options.top >= 0, ErrorCode::usage, "option '--top': {} is not a number of heads", options.top);
  check(options.check >= 0, ErrorCode::usage, "option '--check': {} is not a number of heads", options.check);
  check(options.ids.has_value() || !options.period, ErrorCode::usage,
        "option '--period' belongs to '--ids'; the period of random text is '--block'");
  Subject subject;
  subject.opened = open_model(options.model.model);
  subject.model = load_weights(session, subject.opened, options.model);
  const ModelConfig& config = subject.model.config;
  const std::vector<PeriodicTokens> sequences = sequences_of(options, session, subject.opened, config);
  const bool predicts_own = config.d_vocab_out >= config.d_vocab, causal = !options.no_causal && predicts_own;
  std::vector<NamedHead> heads = [&] {
    ProgressPrinter printer(session.err, session.quiet);
    std::vector<NamedHead> named =
        name_heads(score_heads(subject.model, sequences, {.seed = session.seed, .progress = printer.callback()}),
                   options.threshold);
    if (causal) check_roles(subject.model, sequences, named, {.top = options.check, .progress = printer.callback()});
    return named;
  }();

  if (options.json.wanted()) {
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
    options.json.print(session, result);
    return 0;
  }
  const PeriodicTokens& first = sequences.front();
  const Index count = static_cast<Index>(heads.size());
  std::string text_kind = options.ids ? "the given tokens" : fmt::format("{} random texts", sequences.size());
  session.out.write(
      header_line(session, "text",
                  fmt::format("{}: {} tokens{} in blocks of {} that repeat", text_kind, first.tokens.size(),
                              first.offset > 0 ? fmt::format(", {} before", first.offset) : "", first.period)));
  if (!options.all) {
    std::stable_sort(heads.begin(), heads.end(),
                     [](const NamedHead& a, const NamedHead& b) { return list_order(a) < list_order(b); });
    const auto named = std::find_if(heads.begin(), heads.end(), [](const NamedHead& h) { return h.roles.empty(); });
    heads.erase(named, heads.end());
  }
  const Index with_role = static_cast<Index>(heads.size());
  if (!options.all && with_role > options.top) heads.resize(static_cast<std::size_t>(options.top));
  session.out.write(fmt::format("\n{}\n", session.out.paint(Style::title, "What heads do")));
  session.out.write(heads.empty() ? "  no head has a role\n" : heads_table(session, heads));
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
           "the same tokens shuffled; copy: −1 to 1"));
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
  options->model.declare(command);
  command.option("--ids", "IDS", options->ids, "score one given sequence, e.g. 1,2,3,1,2,3");
  command.option("--period", "P", options->period, "after how many tokens it repeats");
  command.option("--offset", "N", options->offset, "tokens before its first block (default 0)");
  command.option("--block", "N", options->block, "random text: tokens in a block (default 25)");
  command.option("--repeats", "N", options->repeats, "how often the block stands (default 4)");
  command.option("--samples", "N", options->samples, "texts (default 10)");
  command.option("--threshold", "X", options->threshold, "the score from which on a role is given (default 0.4)");
  command.option("--check", "N", options->check, "heads of a role to ablate (default 4)");
  command.flag("--no-causal", options->no_causal, "do not ablate");
  command.option("--top", "N", options->top, "heads to list (default 20)");
  command.flag("--all", options->all, "list every head, in order");
  options->json.declare(command);
  command.on_run([&session, options] { return heads_command(session, *options); });
}

}  // namespace kirchhoff::cli
