#include "kirchhoff/observe/prediction.h"

#include <algorithm>  // for min

#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/kv_cache.h"
#include "kirchhoff/kernels/softmax.h"

namespace kirchhoff {
namespace {
constexpr Index kPiece = 256;
}

Prediction predict(const Model& model, const Tokens& tokens, bool losses, const Progress& progress) {
  const Index n = static_cast<Index>(tokens.size()), piece = losses ? kPiece : n;
  check(n > 0, ErrorCode::usage, "nothing to run: the prompt has no tokens");
  check(model.config.n_ctx == 0 || n <= model.config.n_ctx, ErrorCode::usage,
        "the prompt has {} tokens, the model's context holds {}", n, model.config.n_ctx);
  Prediction prediction;
  // A cache keeps keys of earlier pieces only; a model that also looks ahead is run in one piece.
  const bool whole = n <= piece || !model.config.causal;
  KvCache cache(model.config);
  for (Index begin = 0; begin < n; begin += whole ? n : piece) {
    const Index end = whole ? n : std::min(n, begin + piece);
    RunOptions options;
    options.logits = losses ? LogitPositions::all : LogitPositions::last;
    options.cache = whole ? nullptr : &cache;
    options.progress = progress;
    const Trace trace = run(model, Tokens(tokens.begin() + begin, tokens.begin() + end), options);
    const ConstMatrix logits = trace.logits_of(0);
    if (losses) {
      const Index targets = std::min(end, n - 1) - begin;  // the last token of the prompt has none
      std::vector<double> found(static_cast<std::size_t>(targets));
      kernels::cross_entropy(logits.rows(0, targets),
                             std::span(tokens).subspan(static_cast<std::size_t>(begin) + 1, found.size()), found);
      prediction.losses.insert(prediction.losses.end(), found.begin(), found.end());
    }
    const auto last = logits.row(logits.dim[0] - 1);
    prediction.logits.assign(last.begin(), last.end());
  }
  return prediction;
}

}  // namespace kirchhoff
