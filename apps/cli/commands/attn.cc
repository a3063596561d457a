#include "kirchhoff/observe/attention.h"

#include <algorithm>  // for stable_sort
#include <cmath>      // for nan
#include <memory>     // for make_shared
#include <numeric>    // for iota

#include "attribution_view.h"
#include "commands.h"
#include "expected_pattern_option.h"
#include "figures.h"
#include "flow_view.h"
#include "heat_grid.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/study/flow_json.h"
#include "progress_printer.h"
#include "result_output.h"
#include "selectors.h"
#include "subject.h"
#include "table.h"
#include "text_width.h"

namespace kirchhoff::cli {
namespace {

struct AttnCommand {
  ModelOptions model;
  PromptOptions prompt;
  ResultOutput output;
  ExpectedPatternOption expect;
  std::optional<std::string> heads;
  std::string pos = "-1";
  std::optional<double> threshold;
  Index top = 8;
  bool scores = false, flow = false;
};

ConstMatrix pattern_of(const Trace& trace, Index layer, Index head) {
  return trace.at(site_name(Site::pattern, layer)).view<4>().at(0).at(head);
}

std::vector<HeadHabits> all_habits(const Subject& subject, const Trace& trace) {
  std::vector<HeadHabits> all;
  for (Index layer = 0; layer < subject.model.config.n_layers; ++layer)
    for (Index head = 0; head < subject.model.config.n_heads; ++head) {
      HeadHabits habits = head_habits(pattern_of(trace, layer, head), subject.prompt.ids);
      habits.layer = layer;
      habits.head = head;
      all.push_back(habits);
    }
  return all;
}

/// The heads with the largest value of one habit.
std::vector<std::string> ranking(const Session& session, std::vector<HeadHabits> all, double HeadHabits::*habit,
                                 const std::string& title, Index count) {
  std::stable_sort(all.begin(), all.end(),
                   [habit](const HeadHabits& a, const HeadHabits& b) { return a.*habit > b.*habit; });
  Table table({{title}, {"", true}});
  for (std::size_t i = 0; i < all.size() && i < static_cast<std::size_t>(count); ++i)
    table.add({head_name(all[i].layer, all[i].head), fmt::format("{:.3f}", all[i].*habit)});
  return table.lines(session.out, 30);
}

std::string summary(const Session& session, const std::vector<HeadHabits>& all, Index count) {
  std::vector<std::vector<std::string>> blocks = {ranking(session, all, &HeadHabits::previous, "previous token", count),
                                                  ranking(session, all, &HeadHabits::current, "same position", count),
                                                  ranking(session, all, &HeadHabits::first, "first position", count)};
  if (all.front().induction >= 0.0) blocks.push_back(ranking(session, all, &HeadHabits::induction, "induction", count));
  return flowing(blocks, 3, session.out.columns());
}

/// A [query, key] matrix in tenths; NaN stays blank.
std::string grid_of(const Session& session, const Subject& subject, View<const double, 2> values) {
  std::vector<std::string> rows, columns;
  for (Index q = 0; q < values.dim[0]; ++q) {
    rows.push_back(clipped(subject.shown_at(q), 14));
    columns.push_back(std::to_string(q));
  }
  const HeatGrid grid{.values = values, .full = 1.0, .rows = rows, .columns = columns};
  std::string text;
  for (const std::string& line : heat_grid_lines(session.out, grid, session.out.columns() - 2))
    text += fmt::format("  {}\n", line);
  return text.empty() ? text : fmt::format("  query ↓ key →, in tenths\n{}", text);
}

/// The pattern; what a causal query cannot see stays blank.
std::string pattern_grid(const Session& session, const Subject& subject, const ConstMatrix& pattern) {
  const Index n = pattern.dim[0];
  std::vector<double> values;
  for (Index q = 0; q < n; ++q)
    for (Index k = 0; k < n; ++k)
      values.push_back(k > q && subject.model.config.causal ? std::nan("") : static_cast<double>(pattern(q, k)));
  return grid_of(session, subject, {values.data(), {n, n}});
}

/// The entropies of a prompt that fits on a few lines.
std::string entropy_line(const Session& session, const std::vector<double>& entropies) {
  if (entropies.size() > 64) return {};
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < entropies.size(); ++i) texts.push_back(fmt::format("{}:{:.2f}", i, entropies[i]));
  return fmt::format(
      "  {}\n", wrapped(fmt::format("entropy by query  {}", fmt::join(texts, " ")), session.out.columns() - 4, "    "));
}

std::string sources_table(const Session& session, const Subject& subject, const HeadRead& read, Index count) {
  const bool scores = read.sources.front().score.has_value();
  std::vector<Column> columns = {{"key"}, {"attention", true}, {"× |v|", true}, {"× |v W_O|", true}};
  if (scores) columns.push_back({"score", true});
  Table table(columns);
  for (const Index i : read.strongest(count)) {
    const SourceRead& source = read.sources[static_cast<std::size_t>(i)];
    std::vector<Cell> cells = {{subject.shown_at(source.pos), Style::token},
                               fmt::format("{:.3f}", source.attention),
                               fmt::format("{:.3f}", source.value_weighted),
                               fmt::format("{:.3f}", source.output_weighted)};
    if (scores) cells.emplace_back(fmt::format("{:+.3f}", *source.score));
    table.add(std::move(cells));
  }
  return table.render(session.out);
}

/// How every head compares with the expected pattern, layer by layer.
std::vector<PatternMatch> all_matches(const Subject& subject, const Trace& trace, View<const double, 2> expected,
                                      const ExpectOptions& options) {
  std::vector<PatternMatch> all;
  for (Index layer = 0; layer < subject.model.config.n_layers; ++layer)
    for (Index head = 0; head < subject.model.config.n_heads; ++head)
      all.push_back(match_pattern(pattern_of(trace, layer, head), expected, options));
  return all;
}

std::string matches_table(const Session& session, const std::vector<HeadHabits>& heads,
                          const std::vector<PatternMatch>& matches, const std::string& what, Index count) {
  if (matches.front().rows == 0)
    return fmt::format("\n  no position of this prompt has a target of the pattern '{}'\n", what);
  std::vector<std::size_t> order(matches.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return matches[a].overlap > matches[b].overlap; });
  Table table({{"head"}, {"overlap", true}, {"agreement", true}});
  for (std::size_t i = 0; i < order.size() && i < static_cast<std::size_t>(count); ++i)
    table.add({head_name(heads[order[i]].layer, heads[order[i]].head), fmt::format("{:.3f}", matches[order[i]].overlap),
               fmt::format("{:+.3f}", matches[order[i]].agreement)});
  return fmt::format("\n{} '{}', {} of the prompt's positions have a target\n{}",
                     session.out.paint(Style::title, "Nearest to the pattern"), what, matches.front().rows,
                     table.render(session.out));
}

/// A summary of all heads.
void attn_summary(Session& session, const Subject& subject, const AttnCommand& options, const Trace& trace,
                  Json& result) {
  const std::vector<HeadHabits> all = all_habits(subject, trace);
  std::vector<PatternMatch> matches;
  if (options.expect.wanted()) {
    const TensorF64 expected = options.expect.matrix(subject.prompt.ids);
    matches = all_matches(subject, trace, expected.view<2>(), options.expect.excluded);
  }
  result["heads"] = Json::array();
  for (std::size_t i = 0; i < all.size(); ++i) {
    result["heads"].push_back(to_json(all[i]));
    if (!matches.empty()) result["heads"].back().update(to_json(matches[i]));
  }
  if (!options.output.screen()) return;
  if (!matches.empty())
    return session.out.write(matches_table(session, all, matches, *options.expect.what, options.top));
  session.out.write(fmt::format("\n{}\n", session.out.paint(Style::title, "What heads look at")));
  session.out.write(summary(session, all, options.top));
}

/// One head: its pattern, what it reads from the chosen positions, how it compares.
void attn_head(Session& session, const Subject& subject, const AttnCommand& options, const Trace& trace, Index layer,
               Index head, Json& result) {
  const ConstMatrix pattern = pattern_of(trace, layer, head);
  const std::vector<double> entropies = pattern_entropies(pattern);
  const bool screen = options.output.screen();
  Json one = {{"head", head_name(layer, head)}, {"pattern", matrix_json(pattern)}, {"entropies", entropies}};
  if (options.scores)
    one["scores"] = matrix_json(trace.at(site_name(Site::attn_scores, layer)).view<4>().at(0).at(head));
  if (screen) {
    session.out.write(
        fmt::format("\n{}\n", session.out.paint(Style::title, fmt::format("Head {}", head_name(layer, head)))));
    session.out.write(pattern_grid(session, subject, pattern));
    session.out.write(entropy_line(session, entropies));
  }
  one["reads"] = Json::array();
  for (const Index pos : parse_positions(options.pos, subject.length())) {
    const HeadRead read = read_head(subject.model, trace, layer, head, pos);
    one["reads"].push_back(to_json(read));
    if (!screen) continue;
    session.out.write(fmt::format("  from {}, entropy {:.2f}:\n", subject.shown_at(pos), read.entropy));
    session.out.write(sources_table(session, subject, read, options.top));
  }
  if (options.expect.wanted()) {
    const TensorF64 expected = options.expect.matrix(subject.prompt.ids);
    const PatternMatch match = match_pattern(pattern, expected.view<2>(), options.expect.excluded);
    const TensorF64 difference = pattern_difference(pattern, expected.view<2>());
    one.update(to_json(match));
    one["difference"] = matrix_json(difference.view<2>());
    if (screen) {
      session.out.write(fmt::format("  less the pattern '{}': overlap {:.3f}, agreement {:+.3f}, over {} positions\n",
                                    *options.expect.what, match.overlap, match.agreement, match.rows));
      session.out.write(grid_of(session, subject, difference.view<2>()));
    }
  }
  result["heads"].push_back(std::move(one));
}

void attn_flow(Session& session, const Subject& subject, const AttnCommand& options, const Trace& trace, Json& result) {
  FlowOptions flow_options{.pos = parse_positions(options.pos, subject.length()).front()};
  flow_options.threshold = options.threshold.value_or(flow_options.threshold);
  ProgressPrinter printer(session.err, session.quiet);
  flow_options.progress = printer.callback();
  const InformationFlow flow = information_flow(subject.model, trace, flow_options);
  result.update(to_json(flow));
  if (options.output.screen()) session.out.write(flow_section(session, subject, flow));
}

/// The patterns of the heads asked for, or what all heads look at.
draw::Figure attn_figure(const Subject& subject, const Trace& trace,
                         const std::vector<std::pair<Index, Index>>& heads) {
  if (!heads.empty()) {
    std::vector<std::pair<std::string, ConstMatrix>> patterns;
    for (const auto& [layer, head] : heads)
      patterns.emplace_back(fmt::format("head {}", head_name(layer, head)), pattern_of(trace, layer, head));
    return pattern_figure(caption("Attention", subject, "", {"hatched: what a query cannot see"}), subject, patterns);
  }
  const std::vector<HeadHabits> all = all_habits(subject, trace);
  const auto grid = [&all](const std::string& title, double HeadHabits::*habit) {
    HeadGrid values{.title = title, .values = {}};
    for (const HeadHabits& habits : all) values.values.push_back(habits.*habit);
    return values;
  };
  std::vector<HeadGrid> grids = {grid("previous token", &HeadHabits::previous),
                                 grid("same position", &HeadHabits::current),
                                 grid("first position", &HeadHabits::first)};
  if (all.front().induction >= 0.0) grids.push_back(grid("induction", &HeadHabits::induction));
  return head_grid_figure(caption("What heads look at", subject, "", {"means over the queries of this prompt"}),
                          subject.model.config, std::move(grids), "attention", false, 1.0);
}

void check_attn_options(const AttnCommand& options) {
  const auto refuse = [](bool wrong, const char* option, const char* why) {
    check(!wrong, ErrorCode::usage, "option '{}': {}", option, why);
  };
  options.output.validate();
  refuse(options.flow && options.output.drawn(), "--flow", "it has no picture: '-o' takes .json, .csv or .npz here");
  refuse(options.scores && !options.heads, "--scores", "they are a head's: give '--head L.H'");
  refuse(options.flow && options.heads.has_value(), "--flow", "it follows all heads: leave '--head' out");
  refuse(options.flow && options.expect.wanted(), "--flow", "it compares with no pattern: leave '--expect' out");
  refuse(options.threshold && !options.flow, "--threshold", "it belongs to '--flow'");
  refuse(options.threshold && !(*options.threshold >= 0.0 && *options.threshold <= 1.0), "--threshold",
         "shares lie between 0 and 1");
  refuse((options.expect.excluded.exclude_first || options.expect.excluded.exclude_current) && !options.expect.wanted(),
         "--expect", "'--exclude-first' and '--exclude-current' belong to it, and it is missing");
}

/// The sites of whatever was asked for.
std::vector<std::string> sites_for(const AttnCommand& options, const ModelConfig& config,
                                   const std::vector<std::pair<Index, Index>>& heads) {
  if (options.flow) return flow_sites(config);
  if (heads.empty()) return {"blocks.*.attn.hook_pattern"};
  std::vector<std::string> sites;
  for (const auto& [layer, head] : heads) {
    for (const std::string& site : attention_sites(layer)) sites.push_back(site);
    if (options.scores) sites.push_back(site_name(Site::attn_scores, layer));
  }
  return sites;
}

int attn_command(Session& session, const Command& command, const AttnCommand& options) {
  check_attn_options(options);
  const Subject subject = open_subject(session, command, options.model, options.prompt);
  const ModelConfig& config = subject.model.config;
  require_heads(config);
  const std::size_t positions = parse_positions(options.pos, subject.length()).size();  // refused before the run
  check(!options.flow || positions == 1, ErrorCode::usage,
        "option '--pos': information flows into one position, not {}", positions);
  const auto heads = options.heads ? parse_heads(*options.heads, config.n_layers, config.n_heads)
                                   : std::vector<std::pair<Index, Index>>{};
  if (options.expect.wanted()) options.expect.matrix(subject.prompt.ids);
  const Trace trace = run_subject(session, subject, sites_for(options, config, heads), LogitPositions::none);

  Json result = new_result(options.flow ? "attn.flow" : "attn", session, subject);
  if (options.output.screen()) session.out.write(header(session, subject));
  if (options.expect.wanted()) result["expected"] = options.expect.json();
  if (options.flow)
    attn_flow(session, subject, options, trace, result);
  else if (heads.empty())
    attn_summary(session, subject, options, trace, result);
  for (const auto& [layer, head] : heads) attn_head(session, subject, options, trace, layer, head, result);
  options.output.write(session, result, [&] { return attn_figure(subject, trace, heads); });
  if (options.flow || !options.output.screen()) return 0;
  session.out.write("\n");
  session.out.write(note(session.out, "attention says where a head looks, not what it does"));
  if (options.expect.wanted())
    session.out.write(note(session.out,
                           "overlap: the part of the attention that is on targets; agreement: 1 - |A - D|₁, D spread "
                           "evenly over a position's targets; positions without a target do not count"));
  session.out.write(note(
      session.out, heads.empty() ? "means over the queries of this prompt"
                                 : "× |v W_O|: the length of what is written, attention included; entropies in nats"));
  if (heads.empty()) session.out.write(next_line(session, "dla", subject));
  return 0;
}

}  // namespace

void add_attn(Command& root, Session& session) {
  Command& command = root.add_command("attn", "attention patterns, plain and value-weighted, and what heads look at");
  auto options = std::make_shared<AttnCommand>();
  options->model.declare(command);
  options->prompt.declare(command);
  command.option("--head", "L.H", options->heads, "heads, e.g. 9.9 or 'L5.*' (default: a summary of all)");
  command.option("--pos", "POS", options->pos, "query positions to list the sources of (default -1)");
  command.option("--top", "N", options->top, "sources or heads to list (default 8)");
  command.flag("--scores", options->scores, "with --head: also the scores before the softmax");
  options->expect.declare(command);
  command.flag("--flow", options->flow,
               "information flow: what the last layer's state at --pos is made of, by position");
  command.option("--threshold", "SHARE", options->threshold,
                 "of --flow: follow shares of at least this (default 0.04)");
  options->output.declare(command, ResultOutput::Picture::drawn);
  command.on_run([&session, &command, options] { return attn_command(session, command, *options); });
}

}  // namespace kirchhoff::cli
