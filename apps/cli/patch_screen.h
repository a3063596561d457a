#pragma once
#include <optional>  // for optional
#include <string>    // for string
#include <vector>    // for vector

#include "json_option.h"
#include "kirchhoff/draw/figure.h"
#include "patch_view.h"
#include "prompt_pairs.h"
#include "subject.h"

namespace kirchhoff::cli {

/// What `patch` was asked for.
struct PatchCommand {
  ModelOptions model;
  PairOptions pairs;
  JsonOption json;
  std::string site = "head", metric = "logit";
  std::optional<std::string> direction, pos, output, subject, noise_pos;
  std::string ablation = "resample";
  Index window = 1, samples = 10, resamples = 1000, top = 10;
  double noise_scale = 0.0;
  bool csv = false, dry_run = false;
};

/// A sweep over pairs before it begins.
struct PatchStudy {
  Subject subject;  // with the first pair's clean prompt
  ReadPairs read;
  PatchOptions options;
  std::vector<std::vector<Index>> positions;  // of each pair; empty: all
  std::vector<std::vector<Index>> noisy;      // of each pair
  bool target_given = true;
  PatchMetric metric;  // of the first pair

  const ReadPair& first() const { return read.pairs.front(); }
  bool many() const { return read.pairs.size() > 1; }
};

/// "␣John·9", or "␣John→␣Mary·9" where the prompts differ.
std::string position_label(const PatchStudy& study, Index pos);

Json patch_result(const Session& session, const PatchStudy& study, const PatchView& view, const PatchCommand& command);
draw::Figure patch_picture(const PatchStudy& study, const PatchView& view, const PatchCommand& command);
void print_patch_screen(Session& session, const PatchStudy& study, const PatchView& view, const PatchCommand& command);

}  // namespace kirchhoff::cli
