#include "kirchhoff/observe/attention.h"

#include <algorithm>  // for stable_sort
#include <cmath>      // for nan
#include <memory>     // for make_shared

#include "attribution_view.h"
#include "commands.h"
#include "heat_grid.h"
#include "json_option.h"
#include "kirchhoff/engine/sites.h"
#include "selectors.h"
#include "subject.h"
#include "table.h"
#include "text_width.h"

namespace kirchhoff::cli {
namespace {

struct AttnCommand {
  ModelOptions model;
  PromptOptions prompt;
  JsonOption json;
  std::optional<std::string> heads;
  std::string pos = "-1";
  Index top = 8;
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

/// The pattern in tenths; what a causal query cannot see stays blank.
std::string pattern_grid(const Session& session, const Subject& subject, const ConstMatrix& pattern) {
  const Index n = pattern.dim[0];
  std::vector<double> values;
  std::vector<std::string> rows, columns;
  for (Index q = 0; q < n; ++q) {
    rows.push_back(clipped(subject.shown_at(q), 14));
    columns.push_back(std::to_string(q));
    for (Index k = 0; k < n; ++k)
      values.push_back(k > q && subject.model.config.causal ? std::nan("") : static_cast<double>(pattern(q, k)));
  }
  const HeatGrid grid{.values = {values.data(), {n, n}}, .full = 1.0, .rows = rows, .columns = columns};
  std::string text;
  for (const std::string& line : heat_grid_lines(session.out, grid, session.out.columns() - 2))
    text += fmt::format("  {}\n", line);
  return text.empty() ? text : fmt::format("  query ↓ key →, in tenths\n{}", text);
}

std::string sources_table(const Session& session, const Subject& subject, const HeadRead& read, Index count) {
  Table table({{"key"}, {"attention", true}, {"× |v|", true}, {"× |v W_O|", true}});
  for (const Index i : read.strongest(count)) {
    const SourceRead& source = read.sources[static_cast<std::size_t>(i)];
    table.add({{subject.shown_at(source.pos), Style::token},
               fmt::format("{:.3f}", source.attention),
               fmt::format("{:.3f}", source.value_weighted),
               fmt::format("{:.3f}", source.output_weighted)});
  }
  return table.render(session.out);
}

Json pattern_json(const ConstMatrix& pattern) {
  Json rows = Json::array();
  for (Index q = 0; q < pattern.dim[0]; ++q)
    rows.push_back(std::vector<float>(pattern.row(q).begin(), pattern.row(q).end()));
  return rows;
}

int attn_command(Session& session, const Command& command, const AttnCommand& options) {
  const Subject subject = open_subject(session, command, options.model, options.prompt);
  const ModelConfig& config = subject.model.config;
  const std::vector<Index> positions = parse_positions(options.pos, subject.length());
  const auto heads = options.heads ? parse_heads(*options.heads, config.n_layers, config.n_heads)
                                   : std::vector<std::pair<Index, Index>>{};
  std::vector<std::string> sites;
  for (const auto& [layer, head] : heads)
    for (const std::string& site : attention_sites(layer)) sites.push_back(site);
  if (heads.empty()) sites = {"blocks.*.attn.hook_pattern"};
  const Trace trace = run_subject(session, subject, sites, LogitPositions::none);

  const bool json = options.json.wanted();
  Json result = json ? new_result("attn", session, subject) : Json();
  if (!json) session.out.write(header(session, subject));
  if (heads.empty()) {
    const std::vector<HeadHabits> all = all_habits(subject, trace);
    if (json) {
      result["heads"] = Json::array();
      for (const HeadHabits& habits : all) result["heads"].push_back(to_json(habits));
    } else {
      session.out.write(fmt::format("\n{}\n", session.out.paint(Style::title, "What heads look at")));
      session.out.write(summary(session, all, options.top));
    }
  }
  for (const auto& [layer, head] : heads) {
    const ConstMatrix pattern = pattern_of(trace, layer, head);
    if (!json) {
      session.out.write(
          fmt::format("\n{}\n", session.out.paint(Style::title, fmt::format("Head {}", head_name(layer, head)))));
      session.out.write(pattern_grid(session, subject, pattern));
    }
    Json reads = Json::array();
    for (const Index pos : positions) {
      const HeadRead read = read_head(subject.model, trace, layer, head, pos);
      reads.push_back(to_json(read));
      if (json) continue;
      session.out.write(fmt::format("  from {}, entropy {:.2f}:\n", subject.shown_at(pos), read.entropy));
      session.out.write(sources_table(session, subject, read, options.top));
    }
    if (json)
      result["heads"].push_back(
          {{"head", head_name(layer, head)}, {"pattern", pattern_json(pattern)}, {"reads", std::move(reads)}});
  }
  if (json) {
    options.json.print(session, result);
    return 0;
  }
  session.out.write("\n");
  session.out.write(note(session.out, "attention says where a head looks, not what it does"));
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
  options->json.declare(command);
  command.on_run([&session, &command, options] { return attn_command(session, command, *options); });
}

}  // namespace kirchhoff::cli
