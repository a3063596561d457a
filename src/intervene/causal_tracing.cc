#include "kirchhoff/intervene/causal_tracing.h"

#include <cmath>  // for sqrt

#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/loss.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff {

double subject_noise_scale(const Model& model, std::span<const SubjectPrompt> prompts, double factor) {
  const std::string site = site_name(Site::embed);
  std::vector<double> numbers;
  for (const SubjectPrompt& prompt : prompts) {
    const Trace trace = run(model, prompt.tokens, {.capture = {site}, .logits = LogitPositions::none});
    const View<const float, 2> embed = trace.at(site).view<3>().at(0);
    const Index length = embed.dim[0];
    for (const Index p : prompt.subject) {
      check(p >= -length && p < length, ErrorCode::usage,
            "the subject: there is no position {}, the prompt has {} tokens", p, length);
      for (const float x : embed.row(p < 0 ? p + length : p)) numbers.push_back(static_cast<double>(x));
    }
  }
  check(numbers.size() >= 2, ErrorCode::usage, "the noise's scale: no prompt has a subject");
  double mean = 0.0, squares = 0.0;
  for (const double x : numbers) mean += x / static_cast<double>(numbers.size());
  for (const double x : numbers) squares += (x - mean) * (x - mean);
  return factor * std::sqrt(squares / static_cast<double>(numbers.size() - 1));
}

Index default_tracing_window(PatchSite site) { return site == PatchSite::resid ? 1 : 10; }

CausalTrace trace_causes(const Model& model, const SubjectPrompt& prompt, const TracingOptions& options) {
  check(options.site == PatchSite::resid || options.site == PatchSite::attn || options.site == PatchSite::mlp,
        ErrorCode::usage, "causal tracing restores resid, attn or mlp, not {}", name(options.site));
  const Trace trace = run(model, prompt.tokens, {.logits = LogitPositions::last});
  CausalTrace result;
  result.answer = top_tokens(std::span<const float>(trace.logits.values()), 1).front().id;
  result.scale = options.scale > 0.0 ? options.scale : subject_noise_scale(model, std::span(&prompt, 1));
  const PromptPair pair{.clean = prompt.tokens,
                        .metric = {.target = result.answer, .kind = PatchMetric::Kind::probability}};
  result.grid = patch(
      model, pair,
      {.site = options.site,
       .direction = PatchDirection::denoise,
       .ablation = Ablation::noise,
       .window = options.window > 0 ? options.window : default_tracing_window(options.site),
       .noise = {.positions = prompt.subject, .scale = result.scale, .samples = options.samples, .seed = options.seed},
       .progress = options.progress});
  return result;
}

}  // namespace kirchhoff
