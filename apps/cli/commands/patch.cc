#include <algorithm>  // for max
#include <memory>     // for make_shared
#include <utility>    // for move

#include "attribution_view.h"
#include "commands.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/loss.h"
#include "kirchhoff/intervene/causal_tracing.h"
#include "kirchhoff/study/patch_json.h"
#include "patch_file.h"
#include "patch_screen.h"
#include "progress_printer.h"
#include "table.h"
#include "units.h"

namespace kirchhoff::cli {
namespace {

PatchSite site_named(const std::string& text) {
  for (int s = 0; s <= static_cast<int>(PatchSite::pattern); ++s)
    if (name(static_cast<PatchSite>(s)) == text) return static_cast<PatchSite>(s);
  return PatchSite::head;  // one of the choices that the option allows
}

Ablation ablation_named(const std::string& text) {
  for (const Ablation a : {Ablation::mean, Ablation::zero, Ablation::noise})
    if (name(a) == text) return a;
  return Ablation::resample;
}

PatchMetric::Kind metric_named(const std::string& text) {
  if (text == "probability") return PatchMetric::Kind::probability;
  return text == "log-probability" ? PatchMetric::Kind::log_probability : PatchMetric::Kind::logit;
}

PatchOptions patch_options(const PatchCommand& command, const Session& session) {
  PatchOptions options;
  options.site = site_named(command.site);
  options.ablation = ablation_named(command.ablation);
  const bool ablates = options.ablation == Ablation::mean || options.ablation == Ablation::zero;
  options.direction = command.direction.value_or(ablates ? "noise" : "denoise") == "noise" ? PatchDirection::noise
                                                                                           : PatchDirection::denoise;
  options.window = command.window;
  options.noise.scale = command.noise_scale;
  options.noise.samples = command.samples;
  options.noise.seed = session.seed;
  check(command.window >= 1, ErrorCode::usage, "option '--window': {} layers; at least one is replaced",
        command.window);
  check(command.samples >= 1, ErrorCode::usage, "option '--samples': {} is not a number of samples", command.samples);
  check(command.noise_scale >= 0.0, ErrorCode::usage, "option '--noise-scale': {} is negative", command.noise_scale);
  check(command.resamples >= 1, ErrorCode::usage, "option '--resamples': {} is not a number of resamples",
        command.resamples);
  check(options.ablation == Ablation::noise || !(command.subject || command.noise_pos), ErrorCode::usage,
        "options '--subject' and '--noise-pos' belong to '--ablation noise'");
  check(!(command.csv && command.json.wanted()), ErrorCode::usage, "options '--csv' and '--json' were both given");
  if (command.output) check_patch_file(*command.output);
  return options;
}

/// The tokens that get noise: those of the subject's text, or the ones that were named.
std::vector<Index> noisy_positions(const PatchCommand& command, const ReadPair& pair) {
  if (command.noise_pos) return parse_positions(*command.noise_pos, pair.length());
  check(command.subject.has_value(), ErrorCode::usage,
        "ablation 'noise' needs '--subject TEXT' or '--noise-pos POS': the tokens whose embeddings get the noise");
  const std::size_t begin = pair.clean.text.find(*command.subject);
  check(begin != std::string::npos && !command.subject->empty(), ErrorCode::usage,
        "{}option '--subject': '{}' is not in the clean prompt", pair.where, text::visible(*command.subject));
  const std::size_t end = begin + command.subject->size();
  std::vector<Index> positions;
  for (std::size_t i = 0; i < pair.clean.offsets.size(); ++i) {
    const text::ByteSpan& span = pair.clean.offsets[i];
    if (static_cast<std::size_t>(span.begin) < end && static_cast<std::size_t>(span.end) > begin)
      positions.push_back(static_cast<Index>(i));
  }
  return positions;
}

/// The grid's positions of each pair: as chosen, of equal number, and of equal meaning.
void choose_positions(PatchStudy& study, const PatchCommand& command) {
  const PatchSite site = study.options.site;
  const bool axis =
      site == PatchSite::resid || site == PatchSite::attn || site == PatchSite::mlp || site == PatchSite::head_pos;
  for (const ReadPair& pair : study.read.pairs) {
    study.positions.push_back(command.pos ? parse_positions(*command.pos, pair.length()) : std::vector<Index>{});
    if (study.options.ablation == Ablation::noise) study.noisy.push_back(noisy_positions(command, pair));
    const auto count = [&](const ReadPair& p, const std::vector<Index>& chosen) {
      return !chosen.empty() ? static_cast<Index>(chosen.size()) : p.length();
    };
    const Index wanted = count(study.first(), study.positions.front()), own = count(pair, study.positions.back());
    if (axis && own != wanted)
      throw Error(
          ErrorCode::usage,
          fmt::format("{}the grid would have {} positions, that of the first pair has {}", pair.where, own, wanted),
          "choose positions that every prompt has, counted from the end: '--pos -5..-1'");
  }
}

/// Where the mean is taken: over the corrupt prompts of all pairs, position by position; over the positions too where
/// there is one prompt only, or where lengths differ.
void choose_reference(PatchStudy& study) {
  if (study.options.ablation != Ablation::mean) return;
  const Index length = study.first().length();
  bool equal = study.many();
  for (const ReadPair& pair : study.read.pairs) {
    study.options.reference.push_back(pair.corrupt ? pair.corrupt->ids : pair.clean.ids);
    equal = equal && pair.length() == length && static_cast<Index>(study.options.reference.back().size()) == length;
  }
  study.options.mean_over_positions = !equal;
}

PromptPair pair_of(const PatchStudy& study, std::size_t i) {
  const ReadPair& read = study.read.pairs[i];
  PromptPair pair{.clean = read.clean.ids, .metric = study.metric, .alignment = read.alignment};
  if (read.corrupt) pair.corrupt = read.corrupt->ids;
  pair.metric.target = read.target.value_or(study.metric.target);
  pair.metric.foil = read.foil;
  return pair;
}

PatchOptions options_of(const PatchStudy& study, std::size_t i) {
  PatchOptions options = study.options;
  options.positions = study.positions[i];
  if (options.ablation == Ablation::noise) options.noise.positions = study.noisy[i];
  return options;
}

/// Opens, reads and checks everything that can be wrong before the weights are read.
PatchStudy read_study(Session& session, const Command& command, const PatchCommand& options) {
  PatchStudy study;
  study.options = patch_options(options, session);
  study.subject.opened = open_model(options.model.model);
  study.read = read_pairs(options.pairs, command, study.subject.opened, study.options.ablation == Ablation::resample);
  study.metric.kind = metric_named(options.metric);
  if (!options.pairs.data) study.subject.prompt = study.first().clean;
  choose_positions(study, options);
  choose_reference(study);
  for (const ReadPair& pair : study.read.pairs) {
    study.target_given = study.target_given && pair.target;
    check(pair.target || !options.pairs.data, ErrorCode::usage,
          "{}there is no target: give '--target', or a column 'target' or 'target_id'", pair.where);
  }
  study.metric.target = study.first().target.value_or(0);
  study.metric.foil = study.first().foil;
  return study;
}

int dry_run(Session& session, const PatchCommand& command, const PatchStudy& study) {
  const ModelConfig& config = study.subject.model.config;
  RerunCost total;
  for (std::size_t i = 0; i < study.read.pairs.size(); ++i) {
    PatchOptions options = options_of(study, i);
    if (options.noise.scale == 0.0) options.noise.scale = 1.0;
    const RerunCost cost = estimate_patch(config, pair_of(study, i), options);
    total.variants += cost.variants;
    total.flops += cost.flops;
    total.bytes = std::max(total.bytes, cost.bytes);
    total.batches += cost.batches;
  }
  if (command.json.wanted()) {
    Json result = kirchhoff::new_result("patch.estimate");
    result["pairs"] = study.read.pairs.size();
    result["cost"] = to_json(total);
    result["output"] = command.output ? Json(*command.output) : Json(nullptr);
    command.json.print(session, result);
    return 0;
  }
  Table table({{""}, {"", true}});
  table.add({"pairs", std::to_string(study.read.pairs.size())});
  table.add({"variants", std::to_string(total.variants)});
  table.add({"in groups", std::to_string(total.batches)});
  table.add({"operations", fmt::format("{:.3g} GFLOP", total.flops / 1e9)});
  table.add({"memory", readable_bytes(total.bytes)});
  table.add({"file", command.output ? text::visible(*command.output) : "none"});
  session.out.write(
      fmt::format("{}\n{}", session.out.paint(Style::title, "What the sweep would cost"), table.render(session.out)));
  session.out.write(
      note(session.out, "beside the model and the runs that the variants start from; nothing was computed"));
  return 0;
}

PatchView sweep(Session& session, PatchStudy& study, const PatchCommand& command) {
  const Model& model = study.subject.model;
  ProgressPrinter printer(session.err, session.quiet);
  if (!study.target_given) {
    const Trace trace = run(model, study.first().clean.ids, {.logits = LogitPositions::last});
    study.metric.target = top_tokens(std::span<const float>(trace.logits.values()), 1).front().id;
  }
  if (study.options.ablation == Ablation::noise && study.options.noise.scale == 0.0) {
    std::vector<SubjectPrompt> prompts;
    for (std::size_t i = 0; i < study.read.pairs.size(); ++i)
      prompts.push_back({study.read.pairs[i].clean.ids, study.noisy[i]});
    study.options.noise.scale = subject_noise_scale(model, prompts);
  }
  const auto n = static_cast<Index>(study.read.pairs.size());
  std::vector<PatchGrid> grids;
  for (Index i = 0; i < n; ++i) {
    PatchOptions options = options_of(study, static_cast<std::size_t>(i));
    options.progress = [&, show = printer.callback()](std::string_view stage, Index done, Index total) {
      return !show || show(stage, i * total + done, n * total);
    };
    grids.push_back(patch(model, pair_of(study, static_cast<std::size_t>(i)), options));
  }
  PatchView view;
  view.options = options_of(study, 0);
  view.summary = summarise(grids, {.resamples = command.resamples, .seed = session.seed});
  // Prompts of different lengths have their ends in common.
  bool equal = true;
  for (const ReadPair& pair : study.read.pairs) equal = equal && pair.length() == study.first().length();
  for (Index& pos : view.summary.mean.positions) {
    view.positions.push_back(position_label(study, equal ? pos : pos - study.first().length()));
    if (!equal) pos -= study.first().length();
  }
  return view;
}

int patch_command(Session& session, const Command& command, const PatchCommand& options) {
  PatchStudy study = read_study(session, command, options);
  study.subject.model = load_weights(session, study.subject.opened, options.model);
  const Index n_ctx = study.subject.model.config.n_ctx;
  for (const ReadPair& pair : study.read.pairs) {
    const Index corrupt = pair.corrupt ? static_cast<Index>(pair.corrupt->ids.size()) : 0;
    const Index longest = std::max(pair.length(), corrupt);
    check(n_ctx == 0 || longest <= n_ctx, ErrorCode::usage, "{}the prompt has {} tokens, the model's context holds {}",
          pair.where, longest, n_ctx);
  }
  if (options.dry_run) return dry_run(session, options, study);
  const PatchView view = sweep(session, study, options);
  const bool json = options.json.wanted();
  Json result;
  if (json || options.output) result = patch_result(session, study, view, options);
  if (options.output) write_patch_file(*options.output, view, result, patch_picture(study, view, options));
  if (json)
    options.json.print(session, result);
  else if (options.csv)
    session.out.write(patch_csv(view));
  else
    print_patch_screen(session, study, view, options);
  return 0;
}

}  // namespace

void add_patch(Command& root, Session& session) {
  Command& command = root.add_command("patch", "activation patching: which places carry what two prompts differ in");
  auto options = std::make_shared<PatchCommand>();
  options->model.declare(command);
  options->pairs.declare(command);
  command.option("--site", "SITE", options->site, "what is replaced (default head)",
                 {"resid", "attn", "mlp", "head", "head-pos", "q", "k", "v", "pattern"});
  command.option("--direction", "WAY", options->direction,
                 "put clean into the corrupt run, or corrupt into the clean one (default denoise)",
                 {"denoise", "noise"});
  command.option("--ablation", "HOW", options->ablation, "what stands for corrupt (default resample)",
                 {"resample", "mean", "zero", "noise"});
  command.option("--metric", "WHAT", options->metric, "what is read off the logits (default logit)",
                 {"logit", "probability", "log-probability"});
  command.option("--pos", "POS", options->pos, "positions to patch, of the clean prompt (default all)");
  command.option("--window", "N", options->window, "replace N layers around each (default 1)");
  command.option("--subject", "TEXT", options->subject, "ablation noise: the words whose embeddings get it");
  command.option("--noise-pos", "POS", options->noise_pos, "the same by position");
  command.option("--noise-scale", "X", options->noise_scale,
                 "its standard deviation (default: 3 times that of the subject's embeddings)");
  command.option("--samples", "N", options->samples, "noisy runs to average (default 10)");
  command.option("--resamples", "N", options->resamples, "of the bootstrap over pairs (default 1000)");
  command.option("--top", "N", options->top, "largest changes to list (default 10)");
  command.option("-o,--output", "FILE", options->output, "also write the grid: .svg, .png, .npz, .csv or .json");
  command.flag("--csv", options->csv, "print the grid as comma-separated values");
  command.flag("--dry-run", options->dry_run, "say what it would cost, and stop");
  options->json.declare(command);
  command.footer(
      "Example\n"
      "  kirchhoff patch models/smollm2.gguf --target ' Mary' --foil ' John' --site resid \\\n"
      "    --clean 'When Mary and John went to the store, John gave a drink to' \\\n"
      "    --corrupt 'When Mary and John went to the store, Mary gave a drink to'\n");
  command.on_run([&session, &command, options] { return patch_command(session, command, *options); });
}

}  // namespace kirchhoff::cli
