#pragma once
#include <optional>  // for optional
#include <span>      // for span
#include <string>    // for string
#include <vector>    // for vector

#include "kirchhoff/intervene/node_ablation.h"
#include "kirchhoff/observe/in_context.h"
#include "kirchhoff/study/result_json.h"

namespace kirchhoff {

/// What one ablation does to a text.
struct TextAblation {
  std::string node;                         ///< "a1.h3", "m2", "a1.h3+m2"
  MeanLoss loss;                            ///< with the ablation
  MeanLoss change;                          ///< less the model's own, window by window
  std::optional<MeanLoss> icl, icl_change;  ///< of the in-context score; none where no window has the later token
  std::optional<double> along;              ///< along_change(); only with a before-and-after vector
};

struct AblationStudy {
  std::string baseline;  ///< where the ablations' values come from
  MeanLoss loss;         ///< the model's own
  std::optional<MeanLoss> icl;
  std::vector<TextAblation> ablations;
  Index windows = 0, predictions = 0;
};

struct AblationStudyOptions {
  NodeAblationOptions ablation{};
  Index late = 499, early = 49;  ///< as in icl_score
  /// Means over these bands in place of the two tokens: for windows shorter than 500 tokens, and with smaller errors.
  std::optional<IclBands> bands{};
  /// A before-and-after vector over `tokens`, one of each window at most.
  std::vector<double> change{};
  std::vector<ChosenToken> tokens{};
};

/// Ablates over a text and gathers the effects. Errors: as ablate_on_text(); usage (a later token or band that is not
/// behind the earlier one, a vector that is not as long as its tokens).
AblationStudy study_ablations(const Model& model, std::span<const Tokens> windows, std::span<const AblatedNodes> nodes,
                              const AblationStudyOptions& options);

/// {"baseline", "loss", "loss_error", "icl", "icl_error", "ablations": [{"node", "loss", "loss_error", "loss_change",
/// "loss_change_error", "icl", "icl_change", "icl_change_error", "along_change"}, ...]}; null where there is no number.
Json to_json(const AblationStudy& study);
/// {"kind", "mode", "freeze_norms"}: "zero", "full" or "patterns kept".
Json to_json(const NodeAblationOptions& options);
/// {"late", "early", "score", "score_error", "late_loss", "early_loss", "windows"}.
Json to_json(const IclScore& icl);
/// [{"position", "loss", "error", "windows"}, ...].
Json to_json(std::span<const PositionLoss> positions);
/// [{"from", "to", "loss", "log_position", "slope"}, ...]; the last slope is null.
Json to_json(std::span<const PositionBin> bins);

}  // namespace kirchhoff
