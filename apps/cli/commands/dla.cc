#include <algorithm>  // for sort
#include <cmath>      // for abs
#include <memory>     // for make_shared

#include "attribution_view.h"
#include "commands.h"
#include "json_option.h"
#include "kirchhoff/observe/attention.h"
#include "selectors.h"
#include "subject.h"
#include "table.h"

namespace kirchhoff::cli {
namespace {

struct DlaCommand {
  ModelOptions model;
  PromptOptions prompt;
  TargetOptions target;
  JsonOption json;
  std::string pos = "-1";
  std::optional<std::string> heads;
  Index top = 20;
  bool all = false;
};

using Heads = std::vector<std::pair<Index, Index>>;

std::string parts_table(const Session& session, const Attribution& attribution, Index top) {
  std::vector<AttributionPart> parts = attribution.parts;
  std::stable_sort(parts.begin(), parts.end(), [](const AttributionPart& a, const AttributionPart& b) {
    return std::abs(a.value) > std::abs(b.value);
  });
  if (static_cast<Index>(parts.size()) > top) parts.resize(static_cast<std::size_t>(top));
  Table table({{"part"}, {"value", true}, {""}});
  const double largest = parts.empty() ? 1.0 : std::abs(parts.front().value);
  for (const AttributionPart& part : parts)
    table.add({part.node, signed_value(part.value), signed_bar(part.value, largest)});
  return table.render(session.out);
}

Json sources_json(const Subject& subject, const Trace& trace, const LogitTarget& target, const Heads& heads) {
  Json list = Json::array();
  for (const auto& [layer, head] : heads)
    list.push_back({{"node", fmt::format("a{}.h{}", layer, head)},
                    {"by_source", attribute_sources(subject.model, trace, target, layer, head)}});
  return list;
}

void write_sources(Session& session, const Subject& subject, const Trace& trace, const LogitTarget& target,
                   const Heads& heads) {
  for (const auto& [layer, head] : heads) {
    const std::vector<double> shares = attribute_sources(subject.model, trace, target, layer, head);
    session.out.write(fmt::format("\n{} by the token it reads from\n",
                                  session.out.paint(Style::title, fmt::format("a{}.h{}", layer, head))));
    double largest = 0.0;
    for (const double share : shares) largest = std::max(largest, std::abs(share));
    Table table({{"source"}, {"value", true}, {""}});
    for (std::size_t i = 0; i < shares.size(); ++i)
      if (std::abs(shares[i]) > 0.02 * largest)
        table.add({{subject.shown_at(static_cast<Index>(i)), Style::token},
                   signed_value(shares[i]),
                   signed_bar(shares[i], largest)});
    session.out.write(table.render(session.out));
  }
}

int dla_command(Session& session, const Command& command, const DlaCommand& options) {
  const Subject subject = open_subject(session, command, options.model, options.prompt);
  const ModelConfig& config = subject.model.config;
  const std::vector<Index> positions = parse_positions(options.pos, subject.length());
  check(positions.size() == 1, ErrorCode::usage, "option '--pos': dla explains one position, '{}' selects {}",
        options.pos, positions.size());
  const Index pos = positions.front();
  const Heads heads = options.heads ? parse_heads(*options.heads, config.n_layers, config.n_heads) : Heads{};
  std::vector<std::string> sites = attribution_sites(config);
  for (const auto& [layer, head] : heads)
    for (const std::string& site : attention_sites(layer)) sites.push_back(site);
  const bool last = pos + 1 == subject.length();
  const Trace trace = run_subject(session, subject, sites, last ? LogitPositions::last : LogitPositions::all);
  const auto logits = trace.logits_of(0);
  const TokenId best = top_tokens(logits.row(last ? logits.dim[0] - 1 : pos), 1).front().id;
  const Attribution attribution =
      attribute_logit(subject.model, trace, options.target.resolve(subject.opened, best, pos));

  if (options.json.wanted()) {
    Json result = new_result("dla", session, subject);
    result.update(to_json(attribution, subject.names()));
    if (!heads.empty()) result["sources"] = sources_json(subject, trace, attribution.target, heads);
    result["assumptions"] = attribution_assumptions(config);
    options.json.print(session, result);
    return 0;
  }
  session.out.write(header(session, subject, metric_name(subject, attribution.target)));
  session.out.write(fmt::format("\n{}\n", session.out.paint(Style::title, "Direct logit attribution")));
  session.out.write(totals_lines(session.out, attribution));
  const Index count = static_cast<Index>(attribution.parts.size());
  const Index top = options.all ? count : options.top;
  session.out.write(fmt::format("\n{} of {} parts, largest first\n", std::min(top, count), count));
  session.out.write(parts_table(session, attribution, top));
  write_sources(session, subject, trace, attribution.target, heads);
  session.out.write("\n");
  session.out.write(note(session.out, "closure: |sum − own|, relative to the size of the parts"));
  for (const std::string& line : attribution_assumptions(config)) session.out.write(note(session.out, line));
  session.out.write(next_line(session, "attn", subject, fmt::format("--head {}", strongest_head(attribution))));
  return 0;
}

}  // namespace

void add_dla(Command& root, Session& session) {
  Command& command = root.add_command("dla", "direct logit attribution: a logit as a sum over heads, MLPs, biases");
  auto options = std::make_shared<DlaCommand>();
  options->model.declare(command);
  options->prompt.declare(command);
  options->target.declare(command);
  command.option("--pos", "POS", options->pos, "the position to explain (default -1)");
  command.option("--head", "L.H", options->heads, "split these heads' shares by source token, e.g. 9.9 or 'L9.*'");
  command.option("--top", "N", options->top, "parts to list (default 20)");
  command.flag("--all", options->all, "list every part");
  options->json.declare(command);
  command.on_run([&session, &command, options] { return dla_command(session, command, *options); });
}

}  // namespace kirchhoff::cli
