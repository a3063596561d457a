#include "kirchhoff/observe/qk_terms.h"

#include <algorithm>  // for max_element, min
#include <cmath>      // for abs
#include <memory>     // for make_shared

#include "attribution_view.h"
#include "commands.h"
#include "json_option.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/study/path_json.h"
#include "selectors.h"
#include "subject.h"
#include "table.h"

namespace kirchhoff::cli {
namespace {

struct QkTermsCommand {
  ModelOptions model;
  PromptOptions prompt;
  JsonOption json;
  std::string head;
  std::string query = "-1";
  std::optional<std::string> key;
  Index top = 12;
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

std::vector<std::string> score_assumptions(const ModelConfig& config, bool soft_capped) {
  std::vector<std::string> lines = {"a head's or MLP's output is one writer, whatever it was made from"};
  if (config.norm != NormKind::none && config.pre_norm)
    lines.emplace_back("the divisors of norms are held at their values in this run");
  if (config.positions == Positions::rotary)
    lines.emplace_back("queries and keys are rotated to their positions: another distance gives other terms");
  if (soft_capped) lines.emplace_back("the terms sum to the score before its soft-cap, which is not linear");
  return lines;
}

std::string writers_table(const Session& session, const Subject& subject, const std::string& title,
                          const std::vector<QkWriter>& writers, Index top) {
  Table table({{title}, {"value", true}, {""}, {"itself reads"}});
  const std::size_t count = std::min(writers.size(), static_cast<std::size_t>(top));
  double rest = 0.0;
  for (std::size_t i = 0; i < writers.size(); ++i) {
    const QkWriter& writer = writers[i];
    if (i >= count) {
      rest += writer.value;
      continue;
    }
    table.add({writer.node,
               signed_value(writer.value),
               signed_bar(writer.value, std::abs(writers.front().value)),
               {writer.reads_from < 0 ? std::string()
                                      : fmt::format("{} {:.2f}", subject.shown_at(writer.reads_from), writer.attention),
                Style::token}});
  }
  if (writers.size() > count) table.add({fmt::format("{} others", writers.size() - count), signed_value(rest), "", ""});
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

int qk_terms_command(Session& session, const Command& command, const QkTermsCommand& options) {
  check(!options.head.empty(), ErrorCode::usage, "option '--head' is missing: the head whose score is taken apart");
  check(options.top >= 0, ErrorCode::usage, "option '--top': {} is not a number of terms", options.top);
  const Subject subject = open_subject(session, command, options.model, options.prompt);
  const ModelConfig& config = subject.model.config;
  const auto heads = parse_heads(options.head, config.n_layers, config.n_heads);
  check(heads.size() == 1, ErrorCode::usage, "option '--head': one head is taken apart, '{}' selects {}", options.head,
        heads.size());
  const auto [layer, head] = heads.front();
  const Index query = one_position(options.query, "--query", subject.length());
  std::vector<std::string> sites = qk_sites(config, layer);
  sites.push_back(site_name(Site::pattern, layer));
  const Trace trace = run_subject(session, subject, sites, LogitPositions::none);
  const Index key =
      options.key ? one_position(*options.key, "--key", subject.length()) : favourite_key(trace, layer, head, query);
  const QkExpansion score = expand_score(subject.model, trace, {layer, head, query, key}, options.top);
  const auto attention = static_cast<double>(
      trace.at(site_name(Site::pattern, layer)).view<4>().at(0).at(head).row(query)[static_cast<std::size_t>(key)]);

  if (options.json.wanted()) {
    Json result = new_result("qk_terms", session, subject);
    result.update(to_json(score));
    result["attention"] = attention;
    result["assumptions"] = score_assumptions(config, score.soft_capped);
    options.json.print(session, result);
    return 0;
  }
  session.out.write(header(session, subject));
  session.out.write(fmt::format(
      "\n{}\n", session.out.paint(Style::title, fmt::format("Score of head {} from {} to {}", head_name(layer, head),
                                                            subject.shown_at(query), subject.shown_at(key)))));
  session.out.write(fmt::format(
      "  score {:+.4f}, attention {:.3f}\n  closure {}\n\n", score.own, attention,
      session.out.paint(score.closure <= 1e-5 ? Style::good : Style::error, fmt::format("{:.1e}", score.closure))));
  session.out.write(groups_table(session, score));
  session.out.write("\n" + writers_table(session, subject, "written to the key by", score.keys, options.top));
  session.out.write("\n" + writers_table(session, subject, "written to the query by", score.queries, options.top));
  session.out.write("\n" + pairs_table(session, score) + "\n");
  session.out.write(
      note(session.out, "scores enter a softmax: only differences between keys of one query move attention"));
  session.out.write(note(session.out, "closure: |sum − score|, relative to the size of the terms"));
  for (const std::string& line : score_assumptions(config, score.soft_capped))
    session.out.write(note(session.out, line));
  session.out.write(next_line(session, "attn", subject, fmt::format("--head {}", head_name(layer, head))));
  return 0;
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
  command.option("--top", "N", options->top, "writers and pairs to list (default 12)");
  options->json.declare(command);
  command.on_run([&session, &command, options] { return qk_terms_command(session, command, *options); });
}

}  // namespace kirchhoff::cli
