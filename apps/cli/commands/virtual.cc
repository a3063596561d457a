// kirchhoff virtual: virtual weights between two parties, a virtual head on a prompt, how the stream's dimensions are
// used.
#include <algorithm>  // for any_of
#include <memory>     // for make_shared

#include "attribution_view.h"
#include "commands.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/observe/paths.h"
#include "kirchhoff/study/party_json.h"
#include "party_view.h"
#include "progress_printer.h"
#include "result_output.h"
#include "selectors.h"

namespace kirchhoff::cli {
namespace {

struct VirtualCommand {
  ModelOptions model;
  PromptOptions prompt;
  TargetOptions target;
  ResultOutput output;
  std::optional<std::string> from, to, input, head;
  std::string pos = "-1";
  Index top = 10, directions = 3, offset = 0;
  bool raw = false;

  bool has_prompt() const { return prompt.text || prompt.ids; }
};

Party one_party(const std::string& text, const ModelConfig& config, const char* option) {
  const std::vector<Party> parties = parse_parties(text, config);
  check(parties.size() == 1, ErrorCode::usage, "option '{}': '{}' selects {} parties; one is looked at", option, text,
        parties.size());
  return parties.front();
}

/// The inputs that are looked at: the one asked for, or all that the reader has.
std::vector<StreamInput> chosen_inputs(const VirtualCommand& options, const ModelConfig& config, const Party& to) {
  const std::vector<StreamInput> all = inputs_of(config, to);
  if (!options.input) return all;
  std::string names;
  for (const StreamInput input : all) {
    if (name(input) == *options.input) return {input};
    names += (names.empty() ? "" : ", ") + name(input);
  }
  check(false, ErrorCode::usage, "option '--input': '{}' reads by {}, not by '{}'", node(to), names, *options.input);
  return {};
}

std::vector<std::string> virtual_notes(const WeightsSubject& subject, const VirtualCommand& options,
                                       const std::vector<VirtualWeights>& all) {
  const bool scores = std::any_of(all.begin(), all.end(), [](const VirtualWeights& weights) {
    return weights.score.input == StreamInput::q || weights.score.input == StreamInput::k;
  });
  std::vector<std::string> notes =
      head_form_notes(subject.model, {.raw = options.raw, .offset = options.offset}, scores);
  if (!options.raw)
    notes.emplace_back(
        "embeddings are divided as the norm divides them alone; gains of the norms before MLPs and the unembedding are "
        "folded in, the unembedding is centred over the vocabulary; other divisors of norms are left out");
  return notes;
}

int weights_between(Session& session, const VirtualCommand& options) {
  check(options.from && options.to, ErrorCode::usage, "options '--from' and '--to' belong together");
  WeightsSubject subject;
  subject.opened = open_model(options.model.model);
  subject.model = load_weights(session, subject.opened, options.model);
  const ModelConfig& config = subject.model.config;
  const Party from = one_party(*options.from, config, "--from"), to = one_party(*options.to, config, "--to");
  const std::vector<StreamInput> inputs = chosen_inputs(options, config, to);
  check(!inputs.empty(), ErrorCode::usage, "option '--to': '{}' does not read from the stream: it only writes",
        node(to));
  std::vector<VirtualWeights> all;
  {
    ProgressPrinter printer(session.err, session.quiet);
    VirtualOptions virtual_options;
    virtual_options.form = {.raw = options.raw, .offset = options.offset};
    virtual_options.directions = options.directions;
    virtual_options.top = options.top;
    virtual_options.progress = printer.callback();
    for (const StreamInput input : inputs) {
      if (!options.input && inputs.size() > 1 && !sees(config, from, to, input)) continue;
      all.push_back(virtual_weights(subject.model, from, to, input, virtual_options));
    }
  }
  check(!all.empty(), ErrorCode::usage, "'{}' does not see what '{}' writes", node(to), node(from));
  const std::vector<std::string> notes = virtual_notes(subject, options, all);
  if (options.output.wanted()) {
    Json result = new_result("virtual", session, subject);
    result["weights"] = result["directions"] = Json::array();
    result["singular_values"] = Json::object();
    for (const VirtualWeights& weights : all) {
      result["weights"].push_back(to_json(weights));
      add_directions_json(result["directions"], weights, subject.names());
      result["singular_values"][name(weights.score.input)] = weights.singular_values;
    }
    result["baseline"] = all.front().baseline;
    result["raw"] = options.raw;
    result["offset"] = options.offset;
    result["assumptions"] = notes;
    options.output.write(session, result);
    if (!options.output.screen()) return 0;
  }
  session.out.write(model_line(session, subject));
  for (const VirtualWeights& weights : all) session.out.write(virtual_sections(session, subject, weights));
  session.out.write("\n" + notes_lines(session, notes));
  return 0;
}

int head_on_prompt(Session& session, const Command& command, const VirtualCommand& options) {
  check(!options.from && !options.to, ErrorCode::usage, "option '--head' does not go with '--from' and '--to'");
  if (!options.has_prompt())
    throw Error(ErrorCode::usage, "option '--head' shows a virtual head on a prompt: give one with '-p'",
                "by its weights: kirchhoff ov, qk, skip-trigrams and compose take its name, 1.3*0.2");
  check(!options.raw && options.offset == 0 && !options.input, ErrorCode::usage,
        "options '--raw', '--offset' and '--input' are about weights alone, '--head' about a prompt");
  const Subject subject = open_subject(session, command, options.model, options.prompt);
  const HeadChain chain = parse_head_chain(*options.head, subject.model.config, "--head");
  const std::vector<Index> positions = parse_positions(options.pos, subject.length());
  check(positions.size() == 1, ErrorCode::usage, "option '--pos': one position is looked at, '{}' selects {}",
        options.pos, positions.size());
  const Index pos = positions.front();
  const bool last = pos + 1 == subject.length();
  const Trace trace = run_subject(session, subject, path_sites(subject.model.config),
                                  last ? LogitPositions::last : LogitPositions::all);
  const auto logits = trace.logits_of(0);
  const TokenId best = top_tokens(logits.row(last ? logits.dim[0] - 1 : pos), 1).front().id;
  const LogitTarget target = options.target.resolve(subject.opened, best, pos);
  const VirtualHeadRun run = virtual_head_run(subject.model, trace, chain.heads, target);
  const std::vector<std::string> notes = {
      "pattern: the product of the heads' patterns, how much of what the first reads at a source arrives",
      "value: what arrives of the first head's values, patterns and norms' divisors held at their values in this run; "
      "the sum is that of all paths that end in these heads"};
  if (options.output.wanted()) {
    Json result = new_result("virtual_head", session, subject);
    result["head"] = node(chain);
    result.update(to_json(run, subject.names()));
    result["assumptions"] = notes;
    options.output.write(session, result);
    if (!options.output.screen()) return 0;
  }
  session.out.write(header(session, subject, metric_name(subject, run.target)));
  session.out.write(virtual_head_sections(session, subject, run, name(chain), options.top));
  session.out.write("\n" + notes_lines(session, notes));
  session.out.write(next_line(session, "paths", subject));
  return 0;
}

int bandwidth_command(Session& session, const VirtualCommand& options) {
  check(!options.input && options.offset == 0, ErrorCode::usage, "options '--input' and '--offset' go with '--from'");
  check(!options.has_prompt(), ErrorCode::usage, "option '-p' goes with '--head'");
  WeightsSubject subject;
  subject.opened = open_model(options.model.model);
  subject.model = load_weights(session, subject.opened, options.model);
  const Bandwidth bandwidth = [&] {
    ProgressPrinter printer(session.err, session.quiet);
    BandwidthOptions bandwidth_options{.raw = options.raw};
    bandwidth_options.neurons = bandwidth_options.heads = options.top;
    bandwidth_options.progress = printer.callback();
    return stream_bandwidth(subject.model, bandwidth_options);
  }();
  std::vector<std::string> notes = {
      "principal components of the rows minus their mean; participation: how many equal ones would be as spread",
      "shared: each of W_E and W_U has more than 10 % of a component's squares, both of norm 1 beforehand",
      "erase: by weights alone; that a head or neuron deletes what it reads is not observed",
      "present: attention to the present token by positions alone (a pattern's mean diagonal; with rotary positions 1 "
      "where the mean score is largest at distance 0)"};
  if (subject.model.config.gated_mlp) notes.emplace_back("w_in of gated MLPs is W_in's, what the gate multiplies");
  if (subject.model.tied) notes.emplace_back("W_U is W_E in this model");
  if (options.output.wanted()) {
    Json result = new_result("bandwidth", session, subject);
    result.update(to_json(bandwidth));
    result["raw"] = options.raw;
    result["assumptions"] = notes;
    options.output.write(session, result);
    if (!options.output.screen()) return 0;
  }
  session.out.write(model_line(session, subject));
  session.out.write(bandwidth_sections(session, bandwidth, subject.model.config, options.top));
  session.out.write("\n" + notes_lines(session, notes));
  return 0;
}

int virtual_command(Session& session, const Command& command, const VirtualCommand& options) {
  options.output.validate();
  check(options.top >= 1, ErrorCode::usage, "option '--top': {} is less than 1", options.top);
  check(options.directions >= 0, ErrorCode::usage, "option '--directions': {} is negative", options.directions);
  if (options.head) return head_on_prompt(session, command, options);
  if (options.from || options.to) return weights_between(session, options);
  return bandwidth_command(session, options);
}

}  // namespace

void add_virtual(Command& root, Session& session) {
  Command& command =
      root.add_command("virtual", "virtual weights between parties, virtual heads, the stream's bandwidth");
  auto options = std::make_shared<VirtualCommand>();
  options->model.declare(command);
  command.option("--from", "NODE", options->from, "who writes: embed, pos, 0.2, m3, a virtual head 1.3*0.2");
  command.option("--to", "NODE", options->to, "who reads: 1.3, m5, unembed");
  command.option("--input", "INPUT", options->input, "by what: q, k, v of a head, in, gate of an MLP (default: each)");
  command.option("--directions", "N", options->directions, "singular directions to read (default 3)");
  command.option("--offset", "D", options->offset, "rotary positions: keys D behind the query (default 0)");
  command.flag("--raw", options->raw, "weights as in the file: no norm folded, nothing centred");
  command.option("--head", "L.H*L.H", options->head, "a virtual head on a prompt: its pattern, what it moves");
  options->prompt.declare_options(command);
  options->target.declare(command);
  command.option("--pos", "POS", options->pos, "with --head: the position where it arrives (default -1)");
  command.option("--top", "K", options->top, "entries to list (default 10)");
  options->output.declare(command, ResultOutput::Picture::none);
  command.on_run([&session, &command, options] { return virtual_command(session, command, *options); });
}

}  // namespace kirchhoff::cli
