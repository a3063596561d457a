#include "patch_screen.h"

#include "attribution_view.h"
#include "figures.h"
#include "kirchhoff/study/patch_json.h"
#include "text_width.h"

namespace kirchhoff::cli {
namespace {

std::string what_is_done(const PatchOptions& options) {
  const bool denoise = options.direction == PatchDirection::denoise;
  switch (options.ablation) {
    case Ablation::resample:
      return denoise ? "clean activations are put into the corrupt run"
                     : "corrupt activations are put into the clean run";
    case Ablation::zero:
      return "zero is put into the clean run";
    case Ablation::mean:
      return options.mean_over_positions ? "means over prompts and positions are put into the clean run"
                                         : "means over the corrupt prompts are put into the clean run";
    case Ablation::noise:
      return denoise ? "clean activations are put into the run with noise on the subject's embeddings"
                     : "activations of the run with noise are put into the clean run";
  }
  return {};
}

std::vector<std::string> assumptions(const PatchView& view) {
  std::vector<std::string> lines = {"everything behind a patch is recomputed, nothing is held fixed",
                                    "normalised: (metric − corrupt) / (clean − corrupt)"};
  if (view.grid().corrupt && !view.share(0.0))
    lines.emplace_back("the ends hardly differ, so nothing was divided by their difference");
  if (view.options.ablation != Ablation::resample)
    lines.emplace_back("ablated activations lie off what the model is used to: prefer a corrupt prompt");
  if (view.options.site == PatchSite::k || view.options.site == PatchSite::v)
    lines.emplace_back("heads that share keys and values are patched together");
  if (view.summary.pairs > 1) lines.emplace_back("means over the pairs, intervals by a bootstrap over them");
  return lines;
}

std::string metric_text(const PatchStudy& study) {
  static constexpr const char* kNames[] = {"logit", "probability", "log probability"};
  const char* f = kNames[static_cast<int>(study.metric.kind)];
  if (study.many()) return fmt::format("{0}(target) − {0}(foil) of each pair, at its last position", f);
  std::string text = fmt::format("{}({})", f, study.subject.shown(study.metric.target));
  if (study.metric.foil) text += fmt::format(" − {}({})", f, study.subject.shown(*study.metric.foil));
  text += " at the last position";
  return study.target_given ? text : text + ", the top prediction: no target was given";
}

/// The command that looks at the strongest cell.
std::string next_step(const Session& session, const PatchStudy& study, const PatchView& view,
                      const PatchCommand& command) {
  const PatchSite site = view.options.site;
  const bool queries =
      site == PatchSite::head || site == PatchSite::head_pos || site == PatchSite::q || site == PatchSite::pattern;
  if (queries && !command.pairs.data) {
    const std::string place = view.place(view.strongest(1).front());
    return next_line(session, "attn", study.subject, fmt::format("--head {}", place.substr(0, place.find(' '))));
  }
  std::string text = fmt::format("kirchhoff patch {}", shell_quoted(study.subject.opened.files.argument));
  const auto add = [&](const char* option, const std::optional<std::string>& value) {
    if (value) text += fmt::format(" {} {}", option, shell_quoted(*value));
  };
  const PairOptions& pairs = command.pairs;
  add("--data", pairs.data);
  add("--clean", pairs.clean);
  add("--corrupt", pairs.corrupt);
  add("--clean-ids", pairs.clean_ids);
  add("--corrupt-ids", pairs.corrupt_ids);
  add("--align", pairs.align);
  add("--target", pairs.target.target);
  add("--foil", pairs.target.foil);
  if (pairs.target.target_id) text += fmt::format(" --target-id {}", *pairs.target.target_id);
  if (pairs.target.foil_id) text += fmt::format(" --foil-id {}", *pairs.target.foil_id);
  text += fmt::format(" --site {}", queries ? "mlp --pos -1" : "head");
  return fmt::format("{} {}\n", session.out.paint(Style::faint, "next:"), text);
}

}  // namespace

std::string position_label(const PatchStudy& study, Index pos) {
  if (study.many()) return std::to_string(pos);
  const ReadPair& pair = study.first();
  const auto shown = [&](const Prompt& prompt, Index p) {
    return study.subject.shown(prompt.ids[static_cast<std::size_t>(p)]);
  };
  Index other = pos;
  for (const auto& [i, j] : pair.alignment)
    if (i == pos) other = j;
  std::string label = shown(pair.clean, pos);
  if (pair.corrupt && other < static_cast<Index>(pair.corrupt->ids.size()) && shown(*pair.corrupt, other) != label)
    label = fmt::format("{}→{}", label, shown(*pair.corrupt, other));
  return fmt::format("{}·{}", label, pos);
}

Json patch_result(const Session& session, const PatchStudy& study, const PatchView& view, const PatchCommand& command) {
  Json result = new_result("patch", session, study.subject);
  const TokenNames names = study.subject.names();
  if (command.pairs.data)
    result["data"] = {{"path", *command.pairs.data}, {"skipped", study.read.skipped}};
  else if (study.first().corrupt)
    result["corrupt_ids"] = study.first().corrupt->ids;
  result["metric"] = study.many() ? Json({{"kind", name(study.metric.kind)}}) : to_json(study.metric, names);
  result.update(to_json(view.summary, view.options));
  if (study.many()) result["bootstrap"] = {{"resamples", command.resamples}, {"level", 0.95}, {"seed", session.seed}};
  result["assumptions"] = assumptions(view);
  return result;
}

draw::Figure patch_picture(const PatchStudy& study, const PatchView& view, const PatchCommand& command) {
  draw::Caption text =
      caption(fmt::format("Patching: {}, {}, {}", command.site, name(study.options.direction), command.ablation),
              study.subject, metric_text(study));
  if (study.many())
    text.header[1] = fmt::format("mean of {} pairs of prompts", study.read.pairs.size());
  else if (const auto& corrupt = study.first().corrupt)
    text.header.insert(text.header.begin() + 2, fmt::format("corrupt: {}", readable_prompt(*corrupt)));
  return patch_figure(std::move(text), view);
}

void print_patch_screen(Session& session, const PatchStudy& study, const PatchView& view, const PatchCommand& command) {
  Terminal& out = session.out;
  const PatchGrid& grid = view.grid();
  if (command.pairs.data) {
    out.write(header_line(session, "model", study.subject.opened.files.argument));
    out.write(header_line(
        session, "pairs",
        fmt::format("{} of {}{}", study.read.pairs.size(), text::visible(*command.pairs.data),
                    study.read.skipped > 0 ? fmt::format(", {} of unequal length left out", study.read.skipped) : "")));
  } else {
    out.write(header(session, study.subject));
    out.write(header_line(session, "clean", readable_prompt(study.first().clean)));
    if (const auto& corrupt = study.first().corrupt)
      out.write(header_line(session, "corrupt", readable_prompt(*corrupt)));
  }
  out.write(header_line(session, "metric", metric_text(study)));
  out.write(header_line(session, "ends",
                        grid.corrupt ? fmt::format("clean {:+.4f} · corrupt {:+.4f} · difference {:+.4f}", grid.clean,
                                                   *grid.corrupt, grid.clean - *grid.corrupt)
                                     : fmt::format("clean {:+.4f}, no corrupt prompt", grid.clean)));
  out.write(
      header_line(session, "patch",
                  fmt::format("{} · direction {}: {} · ablation {}", name(view.options.site),
                              name(view.options.direction), what_is_done(view.options), name(view.options.ablation))));
  if (view.options.ablation == Ablation::noise)
    out.write(header_line(session, "noise",
                          fmt::format("scale {:.4g} · {} samples · window {} layers", view.options.noise.scale,
                                      view.options.noise.samples, view.options.window)));
  const std::string title = fmt::format("{}  {}", out.paint(Style::title, "By layer"), patch_grid_title(view));
  out.write(fmt::format("\n{}\n", wrapped(title, out.columns() - 2, "  ")));
  out.write(patch_grid(session, view));
  out.write(fmt::format("\n{}\n", out.paint(Style::title, "Largest changes")));
  out.write(patch_table(session, view, command.top));
  out.write("\n");
  const Provenance source = provenance(session, study.subject);
  out.write(note(out, fmt::format("{}", fmt::join(assumptions(view), "; "))));
  out.write(note(out, fmt::format("{} · {} · weights {} (sampled sha256) · seed {} · {} reruns, {:.3g} GFLOP",
                                  source.program, source.arithmetic, source.fingerprint.substr(0, 12), source.seed,
                                  grid.cost.variants, grid.cost.flops / 1e9)));
  out.write(next_step(session, study, view, command));
}

}  // namespace kirchhoff::cli
