#include "kirchhoff/observe/paths.h"

#include <cmath>   // for abs
#include <memory>  // for make_shared

#include "attribution_view.h"
#include "commands.h"
#include "figures.h"
#include "kirchhoff/io/numpy_file.h"
#include "kirchhoff/study/path_json.h"
#include "path_view.h"
#include "progress_printer.h"
#include "readout_option.h"
#include "result_output.h"
#include "selectors.h"
#include "subject.h"
#include "table.h"

namespace kirchhoff::cli {
namespace {

struct PathsCommand {
  ModelOptions model;
  PromptOptions prompt;
  TargetOptions target;
  ReadoutOption readout;
  ResultOutput output;
  std::string pos = "-1", mlp = "recorded";
  std::optional<std::string> direction;
  std::optional<Index> layer;
  Index order = 2;
  Index top = 20;

  MlpPaths mlps() const { return mlp == "linear" ? MlpPaths::linear : MlpPaths::recorded; }
};

std::vector<std::string> path_assumptions(const ModelConfig& config, const PathsCommand& options) {
  std::vector<std::string> lines = {
      "patterns and the norms' scales are held at their values in this run: what a path does by moving attention is "
      "not in it"};
  if (!config.attn_only)
    lines.emplace_back(options.mlps() == MlpPaths::recorded
                           ? "an MLP is a source: its output is held at its value, what wrote its input is not asked"
                           : "an MLP is a node, by its Jacobian at what it read; what its output is beyond that is a "
                             "source, m3.const");
  if (options.direction) return lines;
  if (options.readout.value() == Readout::loss)
    lines.emplace_back(
        "the loss as a sum: integrated along the straight line from no logits (a uniform guess) to the model's");
  else if (config.logit_softcap > 0.0)
    lines.emplace_back("the logit is taken before the soft-cap, which is not linear");
  return lines;
}

/// "unembed": the target's column of W_U, less the foil's; otherwise the one array of a file.
std::vector<double> read_direction(const Subject& subject, const PathsCommand& options) {
  const Index d_model = subject.model.config.d_model;
  if (*options.direction == "unembed") {
    check(options.target.given(), ErrorCode::usage, "option '--direction': unembed needs '--target'");
    const LogitTarget target = options.target.resolve(subject.opened, 0, 0);
    const WeightMatrix& W_U = subject.model.weights.W_U;
    check(target.token < W_U.d_out() && target.foil.value_or(0) < W_U.d_out(), ErrorCode::usage,
          "option '--direction': the output vocabulary has {} tokens", W_U.d_out());
    std::vector<float> row(static_cast<std::size_t>(d_model));
    W_U.rows(target.token, target.token + 1, row.data());
    std::vector<double> direction(row.begin(), row.end());
    if (!target.foil) return direction;
    W_U.rows(*target.foil, *target.foil + 1, row.data());
    for (std::size_t i = 0; i < row.size(); ++i) direction[i] -= static_cast<double>(row[i]);
    return direction;
  }
  check(!options.target.given(), ErrorCode::usage,
        "option '--target': a direction from a file has no token ('--direction unembed' does)");
  const io::Checkpoint file = io::read_npy(*options.direction);
  check(file.tensors.size() == 1, ErrorCode::usage, "option '--direction': '{}' has {} arrays, one is expected",
        *options.direction, file.tensors.size());
  const TensorF64 values = io::decode_f64(file.tensors.front());
  check(values.size() == d_model, ErrorCode::usage,
        "option '--direction': '{}' has {} numbers, the stream of this model {}", *options.direction, values.size(),
        d_model);
  return {values.data(), values.data() + values.size()};
}

std::string order_list(const Session& session, const PathExpansion& expansion, bool linear) {
  Table table({{linear ? "nodes in the path" : "heads in the path"}, {"paths", true}, {"sum", true}, {"mean", true}});
  const auto row = [&table](const std::string& label, const PathOrder& order) {
    table.add(
        {label, path_count(order.count), signed_value(order.sum), fmt::format("{:+.1e}", order.sum / order.count)});
  };
  for (const PathOrder& order : expansion.orders) row(std::to_string(order.order), order);
  if (expansion.longer.count > 0.0) row(fmt::format("{} and more", expansion.longer.order), expansion.longer);
  return table.render(session.out);
}

/// What is explained, in a line.
std::string target_name(const Subject& subject, const PathsCommand& options, const PathExpansion& expansion) {
  if (!expansion.layer) return metric_name(subject, expansion.target);
  const bool end = *expansion.layer == subject.model.config.n_layers;
  return fmt::format("stream {} · {} at {}",
                     end ? std::string("behind the last layer") : fmt::format("entering layer {}", *expansion.layer),
                     *options.direction == "unembed" ? "the unembedding" : *options.direction,
                     subject.shown_at(expansion.target.pos));
}

PathExpansion find_paths(Session& session, const Subject& subject, const PathsCommand& options, Index pos) {
  const ModelConfig& config = subject.model.config;
  const PathOptions how{.order = options.order, .top = options.top, .mlp = options.mlps()};
  const auto expand = [&](const Trace& trace, const auto& target) {
    ProgressPrinter printer(session.err, session.quiet);
    PathOptions reported = how;
    reported.progress = printer.callback();
    return expand_paths(subject.model, trace, target, reported);
  };
  if (options.direction) {
    check(options.readout.value() == Readout::logit, ErrorCode::usage,
          "option '--readout': a direction of the stream is read as it is");
    const StreamTarget target{
        .layer = options.layer.value_or(config.n_layers), .pos = pos, .direction = read_direction(subject, options)};
    check(target.layer >= 0 && target.layer <= config.n_layers, ErrorCode::usage,
          "option '--layer': {} is not in 0..{} ({}: behind the last layer)", target.layer, config.n_layers,
          config.n_layers);
    return expand(run_subject(session, subject, stream_path_sites(config, target.layer, how.mlp), LogitPositions::none),
                  target);
  }
  check(!options.layer, ErrorCode::usage, "option '--layer' needs '--direction'");
  const Trace trace = run_subject(session, subject, path_sites(config, how.mlp), logits_for(subject, {pos}));
  return expand(trace, resolve_targets(subject, trace, options.target, options.readout.value(), {pos}).front());
}

int paths_command(Session& session, const Command& command, const PathsCommand& options) {
  options.output.validate();
  check(options.order >= 0, ErrorCode::usage, "option '--order': {} is not a number of nodes", options.order);
  check(options.top >= 0, ErrorCode::usage, "option '--top': {} is not a number of paths", options.top);
  const Subject subject = open_subject(session, command, options.model, options.prompt);
  const std::vector<Index> positions = parse_positions(options.pos, subject.length());
  check(positions.size() == 1, ErrorCode::usage, "option '--pos': paths end in one position, '{}' selects {}",
        options.pos, positions.size());
  const PathExpansion expansion = find_paths(session, subject, options, positions.front());

  if (options.output.wanted()) {
    Json result = new_result("paths", session, subject);
    result.update(to_json(expansion, subject.names()));
    result["mlp"] = subject.model.config.attn_only ? Json(nullptr) : Json(options.mlp);
    result["assumptions"] = path_assumptions(subject.model.config, options);
    options.output.write(session, result, [&] {
      return paths_figure(
          caption("Paths through the residual stream", subject, target_name(subject, options, expansion),
                  path_assumptions(subject.model.config, options)),
          expansion);
    });
    if (!options.output.screen()) return 0;
  }
  session.out.write(header(session, subject, target_name(subject, options, expansion)));
  session.out.write(fmt::format("\n{}\n", session.out.paint(Style::title, "Paths through the residual stream")));
  session.out.write(paths_table(session, expansion));
  session.out.write(fmt::format("\n{}", order_list(session, expansion, options.mlps() == MlpPaths::linear)));
  session.out.write(fmt::format("\n  model's own {:+.4f}; closure {}\n", expansion.own,
                                session.out.paint(expansion.closure <= 1e-5 ? Style::good : Style::error,
                                                  fmt::format("{:.1e}", expansion.closure))));
  if (expansion.soft_capped)
    session.out.write(fmt::format("  after the logit soft-cap {:+.4f}\n", *expansion.soft_capped));
  session.out.write(note(session.out, "closure: |total − own|, relative to the size of the paths"));
  for (const std::string& line : path_assumptions(subject.model.config, options))
    session.out.write(note(session.out, line));
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
  options->readout.declare(command);
  command.option("--mlp", "HOW", options->mlp,
                 "recorded: an MLP is a source; linear: a node, by its Jacobian (default recorded)",
                 {"recorded", "linear"});
  command.option("--direction", "FILE.npy", options->direction,
                 "explain a direction of the stream instead of a logit; 'unembed': the target's");
  command.option("--layer", "L", options->layer,
                 "with --direction: of the stream that enters this layer (default: at the end)");
  command.option("--order", "N", options->order, "tell paths of up to N nodes (heads, linear MLPs) apart (default 2)");
  command.option("--top", "N", options->top, "paths to list (default 20)");
  options->output.declare(command, ResultOutput::Picture::drawn);
  command.on_run([&session, &command, options] { return paths_command(session, command, *options); });
}

}  // namespace kirchhoff::cli
