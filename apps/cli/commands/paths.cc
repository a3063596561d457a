#include "kirchhoff/observe/paths.h"

#include <cmath>   // for abs
#include <memory>  // for make_shared

#include "attribution_view.h"
#include "commands.h"
#include "json_option.h"
#include "kirchhoff/study/path_json.h"
#include "progress_printer.h"
#include "selectors.h"
#include "subject.h"
#include "table.h"

namespace kirchhoff::cli {
namespace {

struct PathsCommand {
  ModelOptions model;
  PromptOptions prompt;
  TargetOptions target;
  JsonOption json;
  std::string pos = "-1";
  Index order = 2;
  Index top = 20;
};

std::string path_count(double count) {
  return count < 1e9 ? fmt::format("{:.0f}", count) : fmt::format("{:.1e}", count);
}

std::vector<std::string> path_assumptions(const ModelConfig& config) {
  std::vector<std::string> lines = {
      "patterns and the norms' scales are held at their values in this run: what a path does by moving attention is "
      "not in it"};
  if (!config.attn_only)
    lines.emplace_back("an MLP is a source: its output is held at its value, what wrote its input is not asked");
  if (config.logit_softcap > 0.0) lines.emplace_back("the logit is taken before the soft-cap, which is not linear");
  return lines;
}

std::string path_list(const Session& session, const PathExpansion& expansion) {
  const double largest = expansion.paths.empty() ? 1.0 : std::abs(expansion.paths.front().value);
  Table table({{"path"}, {"value", true}, {""}});
  for (const StreamPath& path : expansion.paths)
    table.add(
        {fmt::format("{}", fmt::join(path.nodes, " → ")), signed_value(path.value), signed_bar(path.value, largest)});
  table.add(
      {fmt::format("{} paths not listed", path_count(expansion.rest_count)), signed_value(expansion.rest_sum), ""});
  table.add({{"total", Style::strong}, signed_value(expansion.total), ""});
  return table.render(session.out);
}

std::string order_list(const Session& session, const PathExpansion& expansion) {
  Table table({{"heads in the path"}, {"paths", true}, {"sum", true}, {"mean", true}});
  const auto row = [&table](const std::string& label, const PathOrder& order) {
    table.add(
        {label, path_count(order.count), signed_value(order.sum), fmt::format("{:+.1e}", order.sum / order.count)});
  };
  for (const PathOrder& order : expansion.orders) row(std::to_string(order.order), order);
  if (expansion.longer.count > 0.0) row(fmt::format("{} and more", expansion.longer.order), expansion.longer);
  return table.render(session.out);
}

int paths_command(Session& session, const Command& command, const PathsCommand& options) {
  check(options.order >= 0, ErrorCode::usage, "option '--order': {} is not a number of heads", options.order);
  check(options.top >= 0, ErrorCode::usage, "option '--top': {} is not a number of paths", options.top);
  const Subject subject = open_subject(session, command, options.model, options.prompt);
  const std::vector<Index> positions = parse_positions(options.pos, subject.length());
  check(positions.size() == 1, ErrorCode::usage, "option '--pos': paths end in one position, '{}' selects {}",
        options.pos, positions.size());
  const Index pos = positions.front();
  const bool last = pos + 1 == subject.length();
  const Trace trace = run_subject(session, subject, path_sites(subject.model.config),
                                  last ? LogitPositions::last : LogitPositions::all);
  const auto logits = trace.logits_of(0);
  const TokenId best = top_tokens(logits.row(last ? logits.dim[0] - 1 : pos), 1).front().id;
  const LogitTarget target = options.target.resolve(subject.opened, best, pos);
  const PathExpansion expansion = [&] {
    ProgressPrinter printer(session.err, session.quiet);
    return expand_paths(subject.model, trace, target,
                        {.order = options.order, .top = options.top, .progress = printer.callback()});
  }();

  if (options.json.wanted()) {
    Json result = new_result("paths", session, subject);
    result.update(to_json(expansion, subject.names()));
    result["assumptions"] = path_assumptions(subject.model.config);
    options.json.print(session, result);
    return 0;
  }
  session.out.write(header(session, subject, metric_name(subject, expansion.target)));
  session.out.write(fmt::format("\n{}\n", session.out.paint(Style::title, "Paths through the residual stream")));
  session.out.write(path_list(session, expansion));
  session.out.write(fmt::format("\n{}", order_list(session, expansion)));
  session.out.write(fmt::format("\n  model's own {:+.4f}; closure {}\n", expansion.own,
                                session.out.paint(expansion.closure <= 1e-5 ? Style::good : Style::error,
                                                  fmt::format("{:.1e}", expansion.closure))));
  if (expansion.soft_capped)
    session.out.write(fmt::format("  after the logit soft-cap {:+.4f}\n", *expansion.soft_capped));
  session.out.write(note(session.out, "closure: |total − own|, relative to the size of the paths"));
  for (const std::string& line : path_assumptions(subject.model.config)) session.out.write(note(session.out, line));
  session.out.write(next_line(session, "dla", subject));
  return 0;
}

}  // namespace

void add_paths(Command& root, Session& session) {
  Command& command = root.add_command("paths", "a logit as a sum over paths: source, heads in turn, unembedding");
  auto options = std::make_shared<PathsCommand>();
  options->model.declare(command);
  options->prompt.declare(command);
  options->target.declare(command);
  command.option("--pos", "POS", options->pos, "the position to explain (default -1)");
  command.option("--order", "N", options->order, "tell paths of up to N heads apart (default 2)");
  command.option("--top", "N", options->top, "paths to list (default 20)");
  options->json.declare(command);
  command.on_run([&session, &command, options] { return paths_command(session, command, *options); });
}

}  // namespace kirchhoff::cli
