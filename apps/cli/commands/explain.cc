#include <filesystem>  // for exists
#include <memory>      // for make_shared

#include "attribution_view.h"
#include "commands.h"
#include "explain_view.h"
#include "induction_view.h"
#include "json_option.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/loss.h"
#include "kirchhoff/intervene/head_ablation.h"
#include "progress_printer.h"
#include "selectors.h"
#include "shipped_model.h"
#include "subject.h"
#include "table.h"
#include "version.h"

namespace kirchhoff::cli {
namespace {

struct ExplainCommand {
  std::optional<std::string> first;  ///< MODEL, or the PROMPT if there is no model
  ModelOptions model;
  PromptOptions prompt;
  TargetOptions target;
  JsonOption json;
  std::optional<std::string> corrupt;
  Index top = 5, heads = 5;
};

/// Everything on the screen.
struct Explanation {
  std::vector<TokenScore> top;
  Attribution attribution;
  std::vector<LensRow> lens;
  std::vector<AttributionPart> heads, mlps;
  std::vector<HeadRead> reads;  ///< of `heads`
  CausalEffects causal;         ///< of `heads`
  InductionFinding induction;
};

bool names_a_model(const std::string& text) {
  std::error_code ignored;
  if (std::filesystem::exists(text, ignored)) return true;
  return text.find('/') != std::string::npos && text.find_first_of(" \n") == std::string::npos;
}

/// One argument may be a model (the prompt comes from -p, --ids or stdin) or a prompt, for the model that ships.
void resolve_first(ExplainCommand& options) {
  if (options.first &&
      (options.prompt.argument || options.prompt.text || options.prompt.ids || names_a_model(*options.first))) {
    options.model.model = *options.first;
    return;
  }
  if (!shipped_model_directory())
    throw Error(
        ErrorCode::usage,
        options.first
            ? fmt::format("no model was given: '{}' is no file, directory or Hub name, so it was read as a prompt",
                          text::visible(*options.first))
            : std::string("no model was given"),
        fmt::format(
            "the model that ships with Kirchhoff is not in share/kirchhoff/{}, beside the program or its folder; "
            "any other: kirchhoff explain MODEL \"PROMPT\"",
            kShippedModel));
  options.model.model = kShippedModel;
  if (options.first) options.prompt.argument = options.first;
}

/// The patterns and values that the strongest heads need, of a second run where keeping all would take much memory.
std::vector<HeadRead> read_heads(Session& session, const Subject& subject, const Trace& trace,
                                 const std::vector<AttributionPart>& heads, bool captured, Index pos) {
  Trace second;
  if (!captured) {
    std::vector<std::string> sites;
    for (const AttributionPart& part : heads)
      for (const std::string& site : attention_sites(part.layer)) sites.push_back(site);
    second = run_subject(session, subject, sites, LogitPositions::none);
  }
  std::vector<HeadRead> reads;
  for (const AttributionPart& part : heads)
    reads.push_back(read_head(subject.model, captured ? trace : second, part.layer, part.head, pos));
  return reads;
}

/// The prompt that heads are resampled from, if one was given.
std::optional<Prompt> read_corrupt(const ExplainCommand& options, const Command& command, const Subject& subject) {
  if (!options.corrupt) return std::nullopt;
  PromptOptions prompt = options.prompt;
  prompt.argument.reset();
  prompt.ids.reset();
  prompt.text = options.corrupt;
  Prompt corrupt = read_prompt(prompt, command, subject.opened);
  check(corrupt.ids.size() == subject.prompt.ids.size(), ErrorCode::usage,
        "option '--corrupt': the prompt has {} tokens, this one {}; 'kirchhoff patch' can align them",
        subject.prompt.ids.size(), corrupt.ids.size());
  return corrupt;
}

/// What stands for an ablated head's z: its mean over the prompt, or the corrupt prompt's.
struct Ablation {
  Ablation(const Subject& subject, const RerunBase& base, const std::optional<Prompt>& corrupt) {
    if (corrupt)
      other = run(subject.model, corrupt->ids, {.capture = {"blocks.*.attn.hook_z"}, .logits = LogitPositions::none});
    how = {.source = corrupt ? other : base.trace(), .mean = !corrupt};
  }
  Ablation(const Ablation&) = delete;
  Ablation& operator=(const Ablation&) = delete;
  Trace other;
  HeadAblation how;
};

/// What the metric loses when a head is ablated, for each of the heads that are listed: one rerun each.
CausalEffects ablate(Session& session, const Subject& subject, const RerunBase& base,
                     const std::vector<AttributionPart>& heads, const LogitTarget& target, const Ablation& ablation) {
  CausalEffects effects{.resampled = !ablation.how.mean};
  if (heads.empty()) return effects;
  std::vector<std::pair<Index, Index>> which;
  for (const AttributionPart& part : heads) which.emplace_back(part.layer, part.head);
  const PatchMetric metric{.target = target.token, .foil = target.foil};
  const double own = metric.of_row(std::span<const float>(base.trace().logits.values()));
  ProgressPrinter printer(session.err, session.quiet);
  for (const double ablated : ablate_heads(subject.model, base, which, metric, ablation.how, printer.callback()))
    effects.values.push_back(own - ablated);
  return effects;
}

InductionFinding induction(Session& session, const Subject& subject, const RerunBase& base, const Ablation& ablation) {
  ProgressPrinter printer(session.err, session.quiet);
  InductionOptions options;
  options.ablation = ablation.how;
  options.seed = session.seed;
  options.progress = printer.callback();
  return find_induction(subject.model, base, options);
}

Explanation explain(Session& session, const Subject& subject, const ExplainCommand& options,
                    const std::optional<Prompt>& corrupt) {
  constexpr Index kPatternsOfAllLayers = 128;  // longer prompts are run twice
  const ModelConfig& config = subject.model.config;
  const Index pos = subject.length() - 1;
  const bool all_patterns = subject.length() <= kPatternsOfAllLayers;
  std::vector<std::string> sites = attribution_sites(config);
  for (const std::string& site : lens_sites(config, false)) sites.push_back(site);
  for (Index layer = 0; all_patterns && layer < config.n_layers; ++layer)
    for (const std::string& site : attention_sites(layer)) sites.push_back(site);
  // The run that ablations branch off; a model without layers has none.
  std::optional<RerunBase> base;
  Trace alone;
  if (config.n_layers > 0)
    base.emplace(rerun_base(session, subject, sites));
  else
    alone = run_subject(session, subject, sites, LogitPositions::last);
  const Trace& trace = base ? base->trace() : alone;

  Explanation result;
  result.top = top_tokens(std::span<const float>(trace.logits.values()), std::max<Index>(1, options.top));
  const LogitTarget target = options.target.resolve(subject.opened, result.top.front().id, pos);
  result.attribution = attribute_logit(subject.model, trace, target);
  LensOptions lens{.pos = pos, .top = 1, .tokens = {target.token}};
  if (target.foil) lens.tokens.push_back(*target.foil);
  result.lens = logit_lens(subject.model, trace, lens);
  result.heads = strongest_parts(result.attribution, PartKind::head, options.heads);
  result.mlps = strongest_parts(result.attribution, PartKind::mlp, options.heads);
  result.reads = read_heads(session, subject, trace, result.heads, all_patterns, pos);
  if (!base) {
    result.induction.none = "the model has no layers";
    return result;
  }
  const Ablation ablation(subject, *base, corrupt);
  result.causal = ablate(session, subject, *base, result.heads, target, ablation);
  result.induction = induction(session, subject, *base, ablation);
  return result;
}

std::vector<std::string> assumptions(const Subject& subject, const CausalEffects& causal) {
  std::vector<std::string> lines = attribution_assumptions(subject.model.config);
  if (!causal.values.empty())
    lines.emplace_back(
        fmt::format("ablated: what the metric loses when a head's z becomes {}, everything behind it "
                    "recomputed",
                    causal.resampled ? "that of the corrupt prompt" : "its mean over this prompt"));
  if (!causal.values.empty() && subject.model.config.logit_softcap > 0.0)
    lines.emplace_back("ablated logits are those after the soft-cap");
  lines.emplace_back("the lens recomputes the final norm on every layer's state");
  if (!causal.values.empty()) lines.emplace_back("what a head reads most from is its attention × |v W_O|, as shares");
  return lines;
}

void print_json(Session& session, const Subject& subject, const Explanation& e, const ExplainCommand& options) {
  const TokenNames names = subject.names();
  Json result = new_result("explain", session, subject);
  result["top"] = to_json(e.top, names);
  result["dla"] = to_json(e.attribution, names);
  result["closure"] = e.attribution.closure;
  result["lens"] = to_json(e.lens, names);
  result["heads"] = Json::array();
  for (std::size_t i = 0; i < e.heads.size(); ++i)
    result["heads"].push_back({{"node", e.heads[i].node},
                               {"value", e.heads[i].value},
                               {"read", to_json(e.reads[i])},
                               {"ablated", e.causal.values[i]},
                               {"disagrees", e.causal.disagrees(i, e.heads[i].value)}});
  result["ablation"] = e.causal.resampled ? "resample" : "mean";
  result["induction"] = e.induction.story ? to_json(*e.induction.story) : Json();
  if (!e.induction.story) result["induction_none"] = e.induction.none;
  result["assumptions"] = assumptions(subject, e.causal);
  options.json.print(session, result);
}

void print_screen(Session& session, const Subject& subject, const Explanation& e, bool target_given) {
  Terminal& out = session.out;
  const auto titled = [](const std::string& title, std::vector<std::string> lines) {
    lines.insert(lines.begin(), title);
    return lines;
  };
  const auto title = [&out](const char* text) { return out.paint(Style::title, text); };
  const auto write = [&](const std::vector<std::vector<std::string>>& blocks) {
    out.write("\n");
    if (wide(out)) return out.write(side_by_side(blocks, 4));
    for (const auto& block : blocks) out.write(side_by_side({block}, 0));
  };

  std::string metric = metric_name(subject, e.attribution.target);
  if (!target_given) metric += ", the top prediction: no target was given";
  out.write(header(session, subject, metric));
  out.write(side_by_side({token_lines(session, subject)}, 0));
  write({titled(title("Next token"), top_lines(session, subject, e.top)),
         titled(title("Direct logit attribution"), sum_lines(session, e.attribution))});
  write({titled(
      fmt::format("{}  {}rank of {}", title("Logit lens"), wide(out) ? "top prediction of each layer's input, " : "",
                  subject.shown(e.attribution.target.token)),
      lens_lines(session, subject, e.lens))});
  if (subject.model.config.n_layers > 0)
    write({titled(title("Strongest heads"), head_lines(session, subject, e.heads, e.reads, e.causal)),
           titled(e.mlps.empty() ? "" : title("and MLPs"), mlp_lines(session, e.mlps))});
  out.write(disagreement_lines(session, e.heads, e.causal));
  out.write(induction_section(session, subject, e.induction));
  if (const auto grid = grid_lines(session, subject.model.config, e.attribution); !grid.empty())
    write({titled(fmt::format("{}, tenths of the largest", title("Parts by layer")), grid)});
  out.write("\n");
  const Provenance source = provenance(session, subject);
  out.write(note(out, fmt::format("{}", fmt::join(assumptions(subject, e.causal), "; "))));
  out.write(note(out, fmt::format("{} · {} · weights {} (sampled sha256) · {} · seed {}", source.program,
                                  source.arithmetic, source.fingerprint.substr(0, 12),
                                  source.tokenizer.empty() ? "no tokenizer" : source.tokenizer, source.seed)));
  out.write(next_head_line(session, subject, e.attribution));
}

}  // namespace

void add_explain(Command& root, Session& session) {
  Command& command = root.add_command("explain", "the main job: what a model predicts after a prompt, and from where");
  auto options = std::make_shared<ExplainCommand>();
  command.argument(
      "MODEL", options->first,
      "a model: a directory, a GGUF file, a state dict, or a name in the Hub cache; without one, the model "
      "that ships with Kirchhoff",
      false);
  options->model.declare_options(command);
  options->prompt.declare(command);
  options->target.declare(command);
  command.option("--top", "K", options->top, "predictions to list (default 5)");
  command.option("--heads", "N", options->heads, "strongest heads and MLPs to list (default 5)");
  command.option("--corrupt", "TEXT", options->corrupt,
                 "ablate heads by resampling from this prompt (default: by their mean over the prompt)");
  options->json.declare(command);
  command.footer(
      "Example\n"
      "  kirchhoff explain models/smollm2.gguf 'When Mary and John went to the store, John gave a drink to' \\\n"
      "    --target ' Mary' --foil ' John'\n");
  command.on_run([&session, &command, options] {
    resolve_first(*options);
    const Subject subject = open_subject(session, command, options->model, options->prompt);
    const std::optional<Prompt> corrupt = read_corrupt(*options, command, subject);
    const Explanation explanation = explain(session, subject, *options, corrupt);
    if (options->json.wanted())
      print_json(session, subject, explanation, *options);
    else
      print_screen(session, subject, explanation, options->target.given());
    return 0;
  });
}

}  // namespace kirchhoff::cli
