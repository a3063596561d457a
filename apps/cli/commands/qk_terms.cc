#include "kirchhoff/observe/qk_terms.h"

#include <algorithm>  // for any_of, max, max_element, min
#include <cmath>      // for abs
#include <memory>     // for make_shared

#include "attribution_view.h"
#include "commands.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/study/path_json.h"
#include "path_view.h"
#include "progress_printer.h"
#include "result_output.h"
#include "selectors.h"
#include "subject.h"
#include "table.h"

namespace kirchhoff::cli {
namespace {

struct QkTermsCommand {
  ModelOptions model;
  PromptOptions prompt;
  ResultOutput output;
  std::string head;
  std::string query = "-1";
  std::optional<std::string> key;
  std::string by = "writer", mlp = "recorded";
  Index order = 2;
  Index top = 12;

  MlpPaths mlps() const { return mlp == "linear" ? MlpPaths::linear : MlpPaths::recorded; }
};

Index one_position(const std::string& text, const char* option, Index length) {
  const std::vector<Index> positions = parse_positions(text, length);
  check(positions.size() == 1, ErrorCode::usage, "option '{}': a score has one, '{}' selects {}", option, text,
        positions.size());
  return positions.front();
}

/// The key that a query looks at most.
Index favourite_key(const Trace& trace, Index layer, Index head, Index query) {
  const auto row = trace.at(site_name(Site::pattern, layer)).view<4>().at(0).at(head).row(query);
  return std::max_element(row.begin(), row.end()) - row.begin();
}

std::vector<std::string> score_assumptions(const ModelConfig& config, const QkTermsCommand& options) {
  std::vector<std::string> lines;
  if (options.by == "writer") {
    lines.emplace_back("a head's or MLP's output is one writer, whatever it was made from");
  } else {
    lines.emplace_back("each side is taken apart with the other one whole; earlier patterns are held");
    if (!config.attn_only)
      lines.emplace_back(options.mlps() == MlpPaths::recorded
                             ? "an MLP is a source where it sits: what wrote its input is not asked"
                             : "an MLP is a node, by its Jacobian at what it read; what its output is beyond that is a "
                               "source where it sits");
  }
  if (config.smeared_keys)
    lines.emplace_back(
        "keys are smeared: what was written to the key and to the one before it counts, each with its share");
  if (config.norm != NormKind::none && config.pre_norm)
    lines.emplace_back("the divisors of norms are held at their values in this run");
  if (config.positions == Positions::rotary)
    lines.emplace_back("queries and keys are rotated to their positions: another distance gives other terms");
  if (config.attn_softcap > 0.0)
    lines.emplace_back("the terms sum to the score before its soft-cap, which is not linear");
  return lines;
}

std::string writers_table(const Session& session, const Subject& subject, const std::string& title,
                          const std::vector<QkWriter>& writers, Index top) {
  const bool smeared =
      std::any_of(writers.begin(), writers.end(), [](const QkWriter& writer) { return writer.before != 0.0; });
  std::vector<Column> columns = {{title}, {"value", true}, {""}, {"itself reads"}};
  if (smeared) columns.push_back({"to the key before", true});
  Table table(columns);
  const std::size_t count = std::min(writers.size(), static_cast<std::size_t>(top));
  double rest = 0.0, rest_before = 0.0;
  for (std::size_t i = 0; i < writers.size(); ++i) {
    const QkWriter& writer = writers[i];
    if (i >= count) {
      rest += writer.value;
      rest_before += writer.before;
      continue;
    }
    std::vector<Cell> cells = {
        writer.node,
        signed_value(writer.value),
        signed_bar(writer.value, std::abs(writers.front().value)),
        {writer.reads_from < 0 ? std::string()
                               : fmt::format("{} {:.2f}", subject.shown_at(writer.reads_from), writer.attention),
         Style::token}};
    if (smeared) cells.push_back(signed_value(writer.before));
    table.add(std::move(cells));
  }
  if (writers.size() > count) {
    std::vector<Cell> cells = {fmt::format("{} others", writers.size() - count), signed_value(rest), "", ""};
    if (smeared) cells.push_back(signed_value(rest_before));
    table.add(std::move(cells));
  }
  return table.render(session.out);
}

std::string pairs_table(const Session& session, const QkExpansion& score) {
  Table table({{"query side"}, {"key side"}, {"value", true}, {""}});
  for (const QkPair& pair : score.pairs)
    table.add(
        {pair.query, pair.key, signed_value(pair.value), signed_bar(pair.value, std::abs(score.pairs.front().value))});
  table.add({fmt::format("{} other pairs", score.rest_count), "", signed_value(score.rest_sum), ""});
  return table.render(session.out);
}

std::string groups_table(const Session& session, const QkExpansion& score) {
  Table table({{"made by an earlier head or MLP"}, {"value", true}});
  table.add({"neither side", signed_value(score.none)});
  table.add({"the query", signed_value(score.by_query)});
  table.add({"the key", signed_value(score.by_key)});
  table.add({"both", signed_value(score.by_both)});
  if (score.position_bias != 0.0) table.add({"ALiBi's bias", signed_value(score.position_bias)});
  table.add({{"score", Style::strong}, signed_value(score.sum)});
  return table.render(session.out);
}

/// A score of this run.
struct ScoreStudy {
  const QkTermsCommand& options;
  const Subject& subject;
  const Trace& trace;
  ScoreTarget target;

  double attention() const {
    return static_cast<double>(trace.at(site_name(Site::pattern, target.layer))
                                   .view<4>()
                                   .at(0)
                                   .at(target.head)
                                   .row(target.query_pos)[static_cast<std::size_t>(target.key_pos)]);
  }
  double score() const {
    return static_cast<double>(trace.at(site_name(Site::attn_scores, target.layer))
                                   .view<4>()
                                   .at(0)
                                   .at(target.head)
                                   .row(target.query_pos)[static_cast<std::size_t>(target.key_pos)]);
  }
};

std::string closure_text(const Session& session, double closure) {
  return session.out.paint(closure <= 1e-5 ? Style::good : Style::error, fmt::format("{:.1e}", closure));
}

void write_score_title(Session& session, const ScoreStudy& study, double closure) {
  const ScoreTarget& target = study.target;
  session.out.write(header(session, study.subject));
  session.out.write(fmt::format(
      "\n{}\n", session.out.paint(
                    Style::title,
                    fmt::format("Score of head {} from {} to {}", head_name(target.layer, target.head),
                                study.subject.shown_at(target.query_pos), study.subject.shown_at(target.key_pos)))));
  session.out.write(fmt::format("  score {:+.4f}, attention {:.3f}\n  closure {}\n\n", study.score(), study.attention(),
                                closure_text(session, closure)));
}

void write_score_notes(Session& session, const ScoreStudy& study) {
  session.out.write(
      note(session.out, "scores enter a softmax: only differences between keys of one query move attention"));
  session.out.write(note(session.out, "closure: |sum − score|, relative to the size of the terms"));
  for (const std::string& line : score_assumptions(study.subject.model.config, study.options))
    session.out.write(note(session.out, line));
  session.out.write(next_line(session, "attn", study.subject,
                              fmt::format("--head {}", head_name(study.target.layer, study.target.head))));
}

/// What every reading of a score says first.
Json score_result(Session& session, const ScoreStudy& study) {
  Json result = new_result("qk_terms", session, study.subject);
  result.update({{"by", study.options.by},
                 {"head", head_name(study.target.layer, study.target.head)},
                 {"query", study.target.query_pos},
                 {"key", study.target.key_pos},
                 {"score", study.score()},
                 {"attention", study.attention()}});
  return result;
}

/// Writes the result where it is wanted; whether the screen is wanted, too.
bool give_score(Session& session, const ScoreStudy& study, const Json& found) {
  if (!study.options.output.wanted()) return true;
  Json result = score_result(session, study);
  result.update(found);
  result["assumptions"] = score_assumptions(study.subject.model.config, study.options);
  study.options.output.write(session, result);
  return study.options.output.screen();
}

int score_by_writer(Session& session, const ScoreStudy& study) {
  const QkExpansion score = expand_score(study.subject.model, study.trace, study.target, study.options.top);
  if (!give_score(session, study, to_json(score))) return 0;
  write_score_title(session, study, score.closure);
  session.out.write(groups_table(session, score));
  session.out.write("\n" +
                    writers_table(session, study.subject, "written to the key by", score.keys, study.options.top));
  session.out.write("\n" +
                    writers_table(session, study.subject, "written to the query by", score.queries, study.options.top));
  session.out.write("\n" + pairs_table(session, score) + "\n");
  write_score_notes(session, study);
  return 0;
}

std::string path_text(const StreamPath& path) { return fmt::format("{}", fmt::join(path.nodes, " → ")); }

std::string path_pairs_table(const Session& session, const ScorePathPairs& score) {
  Table table({{"path to the query"}, {"path to the key"}, {"value", true}, {""}});
  for (const ScorePathPair& pair : score.pairs)
    table.add({path_text(score.query.paths[pair.query]), path_text(score.key.paths[pair.key]), signed_value(pair.value),
               signed_bar(pair.value, std::abs(score.pairs.front().value))});
  table.add({fmt::format("{} other pairs", path_count(score.rest_count)), "", signed_value(score.rest_sum), ""});
  return table.render(session.out);
}

int score_by_path(Session& session, const ScoreStudy& study) {
  const ScorePathPairs score = [&] {
    ProgressPrinter printer(session.err, session.quiet);
    return expand_score_pairs(study.subject.model, study.trace, study.target,
                              {.order = study.options.order,
                               .top = study.options.top,
                               .mlp = study.options.mlps(),
                               .progress = printer.callback()});
  }();
  if (!give_score(session, study, score_json(score))) return 0;
  write_score_title(session, study, std::max(score.query.closure, score.key.closure));
  const auto section = [&session](const char* title, const std::string& table) {
    session.out.write(fmt::format("{}\n{}\n", session.out.paint(Style::title, title), table));
  };
  section("Paths to the key, with the whole query", paths_table(session, score.key));
  section("Paths to the query, with the whole key", paths_table(session, score.query));
  section("Pairs of these", path_pairs_table(session, score));
  write_score_notes(session, study);
  return 0;
}

std::string tokens_table(const Session& session, const Subject& subject, const ScoreSources& sources) {
  double largest = 0.0, mlps = 0.0, biases = 0.0;
  for (const ScoreSource& source : sources.positions) {
    largest = std::max(largest, std::abs(source.value()));
    mlps += std::abs(source.mlp);
    biases += std::abs(source.bias);
  }
  std::vector<Column> columns = {
      {sources.side == ScoreSide::key ? "the key came from" : "the query came from"}, {"value", true}, {""}};
  if (mlps + biases > 0.0) columns.push_back({"embedding", true});
  if (mlps > 0.0) columns.push_back({"MLPs", true});
  if (biases > 0.0) columns.push_back({"biases", true});
  Table table(columns);
  const auto row = [&](const Cell& name, double value, const Cell& bar, const ScoreSource* source) {
    std::vector<Cell> cells = {name, signed_value(value), bar};
    if (mlps + biases > 0.0) cells.push_back(source ? signed_value(source->embed) : Cell(""));
    if (mlps > 0.0) cells.push_back(source ? signed_value(source->mlp) : Cell(""));
    if (biases > 0.0) cells.push_back(source ? signed_value(source->bias) : Cell(""));
    table.add(std::move(cells));
  };
  for (std::size_t pos = 0; pos < sources.positions.size(); ++pos) {
    const ScoreSource& source = sources.positions[pos];
    row({subject.shown_at(static_cast<Index>(pos)), Style::token}, source.value(), signed_bar(source.value(), largest),
        &source);
  }
  if (sources.constant != 0.0) row("its own constants", sources.constant, "", nullptr);
  row({"total", Style::strong}, sources.sum, "", nullptr);
  return table.render(session.out);
}

int score_by_token(Session& session, const ScoreStudy& study) {
  const auto expand = [&](ScoreSide side) {
    return expand_score_sources(study.subject.model, study.trace, study.target, side, study.options.mlps());
  };
  const ScoreSources query = expand(ScoreSide::query), key = expand(ScoreSide::key);
  if (!give_score(session, study, score_json(query, key))) return 0;
  write_score_title(session, study, std::max(query.closure, key.closure));
  session.out.write(tokens_table(session, study.subject, key) + "\n");
  session.out.write(tokens_table(session, study.subject, query) + "\n");
  write_score_notes(session, study);
  return 0;
}

int qk_terms_command(Session& session, const Command& command, const QkTermsCommand& options) {
  options.output.validate();
  check(!options.head.empty(), ErrorCode::usage, "option '--head' is missing: the head whose score is taken apart");
  check(options.top >= 0, ErrorCode::usage, "option '--top': {} is not a number of terms", options.top);
  const Subject subject = open_subject(session, command, options.model, options.prompt);
  const ModelConfig& config = subject.model.config;
  const auto heads = parse_heads(options.head, config.n_layers, config.n_heads);
  check(heads.size() == 1, ErrorCode::usage, "option '--head': one head is taken apart, '{}' selects {}", options.head,
        heads.size());
  const auto [layer, head] = heads.front();
  const Index query = one_position(options.query, "--query", subject.length());
  check(options.order >= 0, ErrorCode::usage, "option '--order': {} is not a number of nodes", options.order);
  std::vector<std::string> sites =
      options.by == "writer" ? qk_sites(config, layer) : score_path_sites(config, layer, options.mlps());
  sites.push_back(site_name(Site::pattern, layer));
  const Trace trace = run_subject(session, subject, sites, LogitPositions::none);
  const Index key =
      options.key ? one_position(*options.key, "--key", subject.length()) : favourite_key(trace, layer, head, query);
  const ScoreStudy study{options, subject, trace, {layer, head, query, key}};
  if (options.by == "path") return score_by_path(session, study);
  if (options.by == "token") return score_by_token(session, study);
  return score_by_writer(session, study);
}

}  // namespace

void add_qk_terms(Command& root, Session& session) {
  Command& command = root.add_command("qk-terms", "an attention score as a sum over what wrote the query and the key");
  auto options = std::make_shared<QkTermsCommand>();
  options->model.declare(command);
  options->prompt.declare(command);
  command.option("--head", "L.H", options->head, "the head, e.g. 1.3");
  command.option("--query", "POS", options->query, "the query's position (default -1)");
  command.option("--key", "POS", options->key, "the key's position (default: where the query looks most)");
  command.option("--by", "WHAT", options->by,
                 "writer: what wrote to the stream last; path: through earlier heads; token: where it came from "
                 "(default writer)",
                 {"writer", "path", "token"});
  command.option("--order", "N", options->order, "with --by path: tell paths of up to N nodes apart (default 2)");
  command.option("--mlp", "HOW", options->mlp,
                 "with --by path or token: an MLP is a source (recorded), or a node by its Jacobian (linear)",
                 {"recorded", "linear"});
  command.option("--top", "N", options->top, "writers and pairs, or paths, to list (default 12)");
  options->output.declare(command, ResultOutput::Picture::none);
  command.on_run([&session, &command, options] { return qk_terms_command(session, command, *options); });
}

}  // namespace kirchhoff::cli
