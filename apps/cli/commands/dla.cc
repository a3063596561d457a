#include <algorithm>  // for max, min
#include <cmath>      // for log
#include <memory>     // for make_shared

#include "attribution_view.h"
#include "commands.h"
#include "dla_view.h"
#include "figures.h"
#include "kirchhoff/observe/attention.h"
#include "kirchhoff/study/attribution_json.h"
#include "readout_option.h"
#include "result_output.h"
#include "selectors.h"
#include "subject.h"

namespace kirchhoff::cli {
namespace {

struct DlaCommand {
  ModelOptions model;
  PromptOptions prompt;
  TargetOptions target;
  ReadoutOption readout;
  ResultOutput output;
  std::string pos = "-1";
  std::optional<std::string> heads, neurons;
  Index top = 20;
  bool all = false;
};

/// What was asked and what was found.
struct DlaStudy {
  const DlaCommand& options;
  const Subject& subject;
  std::vector<std::pair<Index, Index>> heads{};
  std::vector<Index> neuron_layers{};
  Trace trace{};
  std::vector<LogitTarget> targets{};
  std::vector<Attribution> attributions{};
  std::vector<double> removal{};  ///< of one position's loss

  bool one() const { return targets.size() == 1; }
  TensorF64 sources(Index layer, Index head) const {
    return attribute_sources<float>(subject.model, trace, targets, layer, head);
  }
  /// [position][layer's place]
  std::vector<std::vector<NeuronAttribution>> neurons() const {
    std::vector<std::vector<NeuronAttribution>> found(targets.size());
    for (const Index layer : neuron_layers) {
      std::vector<NeuronAttribution> of_layer = attribute_neurons<float>(subject.model, trace, targets, layer);
      for (std::size_t t = 0; t < targets.size(); ++t) found[t].push_back(std::move(of_layer[t]));
    }
    return found;
  }
  /// Neurons to list a layer.
  Index neuron_top() const { return options.all ? subject.model.config.d_mlp : options.top; }
};

std::vector<std::string> dla_assumptions(const ModelConfig& config, Readout readout) {
  std::vector<std::string> lines = attribution_assumptions(config);
  if (readout == Readout::loss) {
    if (config.logit_softcap > 0.0) lines.pop_back();  // the loss is that behind the soft-cap
    lines.emplace_back(
        "the loss as a sum: integrated along the straight line from no logits (a uniform guess) to the model's");
  }
  return lines;
}

Json sources_json(const DlaStudy& study) {
  Json list = Json::array();
  for (const auto& [layer, head] : study.heads) {
    const TensorF64 shares = study.sources(layer, head);
    Json rows = Json::array();
    for (Index t = 0; t < shares.dim(0); ++t)
      rows.push_back(std::vector<double>(shares.data() + t * shares.dim(1), shares.data() + (t + 1) * shares.dim(1)));
    list.push_back(
        {{"node", fmt::format("a{}.h{}", layer, head)}, {"by_source", study.one() ? rows.front() : std::move(rows)}});
  }
  return list;
}

Json dla_json(Session& session, const DlaStudy& study) {
  Json result = new_result("dla", session, study.subject);
  const TokenNames names = study.subject.names();
  if (study.one())
    result.update(to_json(study.attributions.front(), names));
  else
    result.update(to_json(std::span<const Attribution>(study.attributions), names));
  for (std::size_t p = 0; p < study.removal.size(); ++p) result["parts"][p]["removal"] = study.removal[p];
  if (!study.heads.empty()) result["sources"] = sources_json(study);
  if (!study.neuron_layers.empty()) {
    result["neurons"] = result["neuron_sums"] = Json::array();
    const auto neurons = study.neurons();
    for (std::size_t t = 0; t < neurons.size(); ++t) {
      const Json found = neurons_json(neurons[t], study.targets[t].pos, study.neuron_top());
      for (const char* key : {"neurons", "neuron_sums"})
        for (const Json& item : found[key]) result[key].push_back(item);
    }
  }
  result["assumptions"] = dla_assumptions(study.subject.model.config, study.options.readout.value());
  return result;
}

draw::Figure dla_figure(const DlaStudy& study) {
  const Subject& subject = study.subject;
  std::vector<std::string> notes = dla_assumptions(subject.model.config, study.options.readout.value());
  if (study.one())
    return parts_figure(
        caption("Direct logit attribution", subject, metric_name(subject, study.targets.front()), notes),
        study.attributions.front(),
        study.options.all ? static_cast<Index>(study.attributions.front().parts.size()) : study.options.top);
  return positions_figure(caption("Direct logit attribution of each position's next token", subject, "", notes),
                          subject, study.attributions);
}

void write_parts(Session& session, const DlaStudy& study) {
  const auto count = static_cast<Index>(study.attributions.front().parts.size());
  const Index top = std::min(count, study.options.all ? count : study.options.top);
  const auto title = [&](const std::string& text) {
    session.out.write(fmt::format("\n{}\n", session.out.paint(Style::title, text)));
  };
  title("Direct logit attribution");
  if (study.one()) {
    const Attribution& only = study.attributions.front();
    session.out.write(totals_lines(session.out, only));
    if (only.target.readout == Readout::loss)
      session.out.write(fmt::format("  loss {:.4f}, of a uniform guess {:.4f}\n",
                                    std::log(static_cast<double>(study.subject.model.config.d_vocab_out)) - only.own,
                                    std::log(static_cast<double>(study.subject.model.config.d_vocab_out))));
    session.out.write(fmt::format("\n{} of {} parts, largest first\n", top, count));
    session.out.write(parts_table(session, only, study.removal, top));
    return;
  }
  session.out.write(positions_table(session, study.subject, study.attributions));
  double worst = 0.0;
  for (const Attribution& at : study.attributions) worst = std::max(worst, at.closure);
  session.out.write(fmt::format(
      "\n  largest closure {}\n\n{} of {} parts, largest mean first\n",
      session.out.paint(worst <= 1e-5 ? Style::good : Style::error, fmt::format("{:.1e}", worst)), top, count));
  session.out.write(means_table(session, study.subject, study.attributions, top));
}

void write_details(Session& session, const DlaStudy& study) {
  for (const auto& [layer, head] : study.heads) {
    session.out.write(fmt::format("\n{} by the token it reads from\n",
                                  session.out.paint(Style::title, fmt::format("a{}.h{}", layer, head))));
    session.out.write(sources_table(session, study.subject, study.sources(layer, head), study.targets));
  }
  if (study.neuron_layers.empty()) return;
  const auto neurons = study.neurons();
  for (std::size_t t = 0; t < neurons.size(); ++t) {
    const std::string where =
        study.one() ? std::string() : fmt::format(" at {}", study.subject.shown_at(study.targets[t].pos));
    session.out.write(fmt::format("\n{}{}\n", session.out.paint(Style::title, "Neurons"), where));
    session.out.write(neurons_table(session, neurons[t], study.neuron_top()));
  }
}

int dla_command(Session& session, const Command& command, const DlaCommand& options) {
  options.output.validate();
  check(options.top >= 0, ErrorCode::usage, "option '--top': {} is not a number of parts", options.top);
  const Subject subject = open_subject(session, command, options.model, options.prompt);
  const ModelConfig& config = subject.model.config;
  const std::vector<Index> positions = parse_positions(options.pos, subject.length());
  DlaStudy study{.options = options, .subject = subject};
  if (options.heads) study.heads = parse_heads(*options.heads, config.n_layers, config.n_heads);
  if (options.neurons) study.neuron_layers = parse_layers(*options.neurons, config.n_layers);

  std::vector<std::string> sites = attribution_sites(config);
  for (const auto& [layer, head] : study.heads)
    for (const std::string& site : attention_sites(layer)) sites.push_back(site);
  check(study.neuron_layers.empty() || !config.attn_only, ErrorCode::unsupported,
        "option '--neurons': not defined here, because this model has no MLPs");
  for (const Index layer : study.neuron_layers)
    for (const std::string& site : neuron_sites(config, layer)) sites.push_back(site);
  study.trace = run_subject(session, subject, sites, logits_for(subject, positions));
  study.targets = resolve_targets(subject, study.trace, options.target, options.readout.value(), positions);
  study.attributions = attribute_logits<float>(subject.model, study.trace, study.targets);
  if (study.one() && options.readout.value() == Readout::loss)
    study.removal = removal_losses(subject.model, study.trace, study.targets.front());

  if (options.output.wanted()) {
    options.output.write(session, dla_json(session, study), [&study] { return dla_figure(study); });
    if (!options.output.screen()) return 0;
  }
  session.out.write(
      header(session, subject, study.one() ? metric_name(subject, study.targets.front()) : std::string()));
  write_parts(session, study);
  write_details(session, study);
  session.out.write("\n");
  session.out.write(note(session.out, "closure: |sum − own|, relative to the size of the parts"));
  if (!study.removal.empty())
    session.out.write(note(
        session.out, "loss without it: what the loss rises by when the part's own logits are taken out; not a sum"));
  for (const std::string& line : dla_assumptions(config, options.readout.value()))
    session.out.write(note(session.out, line));
  session.out.write(next_head_line(session, subject, study.attributions.front()));
  return 0;
}

}  // namespace

void add_dla(Command& root, Session& session) {
  Command& command = root.add_command("dla", "direct logit attribution: a logit as a sum over heads, MLPs, biases");
  auto options = std::make_shared<DlaCommand>();
  options->model.declare(command);
  options->prompt.declare(command);
  options->target.declare(command);
  options->readout.declare(command);
  command.option("--pos", "POS", options->pos,
                 "the positions to explain, e.g. -1, 3..7, all (default -1); at several, each one's next token");
  command.option("--head", "L.H", options->heads, "split these heads' shares by source token, e.g. 9.9 or 'L9.*'");
  command.optional_value("--neurons", "[=LAYERS]", options->neurons, "all",
                         "split the MLPs of these layers (e.g. 8 or 3,8..10; default all) by neuron");
  command.option("--top", "N", options->top, "parts and neurons to list (default 20)");
  command.flag("--all", options->all, "list every part");
  options->output.declare(command, ResultOutput::Picture::drawn);
  command.on_run([&session, &command, options] { return dla_command(session, command, *options); });
}

}  // namespace kirchhoff::cli
