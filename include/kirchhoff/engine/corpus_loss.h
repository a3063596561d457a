#pragma once
#include <span>         // for span
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/engine/run.h"

namespace kirchhoff {

/// -log p(targets[i]) of row i of what the unembedding reads (unembed.hook_in: behind the final norm), in nats, summed
/// in double. read: [rows, d_model]. The vocabulary is gone through in slices, so no row of logits is ever held:
/// memory is that of [rows, 2048] logits. Error{usage}: a target that the output vocabulary lacks.
template <class Real>
std::vector<double> unembed_losses(const Model& model, View<const Real, 2> read, std::span<const TokenId> targets);

struct CorpusLossOptions {
  Index memory = Index{256} << 20;  ///< bytes that a batch of windows may take; at least one window is run at a time
  Progress progress{};              ///< stage "loss", of all windows
};

/// The loss of every token but the first of each window, given those before it in the window: entry [w][i] is
/// -log p(token i + 1 | tokens 0 .. i). Errors: unsupported (a model that predicts other tokens than it reads, or that
/// sees later tokens); usage (a window longer than the context); interrupted.
std::vector<std::vector<double>> corpus_losses(const Model& model, std::span<const Tokens> windows,
                                               const CorpusLossOptions& options = {});

/// A mean over a text's predictions with its standard error, windows taken as the sample; 0 for one window.
struct MeanLoss {
  double value = 0.0, error = 0.0;
};

/// Gathers it: a sum over predictions and how many, window by window.
class WindowMean {
 public:
  /// Windows without predictions count nothing.
  void add(double sum, Index count);
  /// Zeros if there was none.
  MeanLoss mean() const;

 private:
  double sum_ = 0.0;
  Index count_ = 0;
  std::vector<double> means_;
};

/// Error{unsupported} saying why there is no loss of next tokens; nothing for an ordinary language model. `what` is
/// what needs it: "term importance".
void check_predicts_next(const ModelConfig& config, std::string_view what);

/// How many of `windows`, from `first` on, have one length and fit together into `memory` at `bytes` a token: at least
/// one.
Index batch_of(std::span<const Tokens> windows, Index first, Index bytes, Index memory);

}  // namespace kirchhoff
