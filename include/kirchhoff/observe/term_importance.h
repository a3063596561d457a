#pragma once
#include <cstdint>      // for uint8_t
#include <span>         // for span
#include <string>       // for string
#include <string_view>  // for string_view
#include <utility>      // for pair
#include <vector>       // for vector

#include "kirchhoff/base/progress.h"
#include "kirchhoff/engine/corpus_loss.h"
#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/model.h"

namespace kirchhoff {

/// What norms divide by when terms are left out.
enum class TermNorms : std::uint8_t {
  frozen,  ///< the run's own divisors, the final norm's too: logits are sums over terms, and orders add up
  /// What they find in the stream without the terms: what a forward pass would do. Not additive; the last order agrees.
  recomputed,
};
/// "frozen", "recomputed".
std::string_view name(TermNorms norms);

struct TermOptions {
  Index order = -1;  ///< orders that are told apart: 0 .. order, all longer ones together; negative: all
  TermNorms norms = TermNorms::frozen;
  bool by_layer = false;                           ///< also the split of order 1 over layers
  std::vector<std::pair<Index, Index>> by_head{};  ///< and over these heads (layer, head)
  Index memory = Index{512} << 20;                 ///< bytes that a batch of windows may take; at least one is run
  Progress progress{};                             ///< stage "terms", of all windows
};

/// All terms of one order: paths through that many heads.
struct TermOrder {
  Index order = 0;
  double terms = 0.0;  ///< how many: sets of heads of rising layers, C(n_layers, order) n_heads^order
  MeanLoss loss;       ///< nats, with all terms up to this order
  MeanLoss marginal;   ///< loss of the order before (ln V before order 0) less this one
  double per_term() const { return terms > 0.0 ? marginal.value / terms : 0.0; }
};

/// The order-1 terms of one layer or head, by both baselines.
struct TermSplit {
  std::string node;  ///< "a1", "a1.h3"
  Index layer = 0;
  Index head = -1;  ///< -1: the whole layer
  double terms = 0.0;
  MeanLoss alone;  ///< by how much they lower the loss of the direct path
  MeanLoss added;  ///< by how much they lower the loss of the direct path with all other order-1 terms
};

/// Operations of the whole analysis.
struct TermCost {
  Index forwards = 0;          ///< of the model as it is
  Index attention_layers = 0;  ///< values, patterns and outputs of a layer, without queries and keys
  Index unembeddings = 0;      ///< of all positions
  double equivalent = 0.0;     ///< all of them as forwards, by FLOPs of matrix products
};

struct TermImportance {
  TermNorms norms{};
  double uniform = 0.0;           ///< ln V
  std::vector<TermOrder> orders;  ///< 0 .. order
  TermOrder longer;               ///< all longer terms, if any: `order` is the first of them, `loss` the full one
  MeanLoss full;                  ///< the model's own loss
  std::vector<TermSplit> layers, heads;
  /// The largest |stream with all terms - the model's own stream| behind the last layer, relative to the largest number
  /// of the latter, of all windows.
  double closure = 0.0;
  Index windows = 0, predictions = 0;
  TermCost cost;
};

/// Term importance (Elhage et al. 2021, "Term importance analysis"; algorithm box): the loss over a text with only
/// those terms of the path expansion that go through at most k heads, k = 0, 1, .. The patterns of the run are kept, so
/// what heads do to each other's patterns counts for neither.
///
/// The direct path (order 0) is what no head writes: embedding and positions, b_O and the bias of a norm behind the
/// attention, and MLPs as the run recorded them: what wrote an MLP's input is not asked. b_V and what the bias of the
/// norm before gives through W_V belong to order 1. Soft-capped logits are capped after the terms are summed.
///
/// Cost: one forward, n_layers (n_layers + 1) / 2 attention layers without their queries and keys and n_layers + 1
/// unembeddings, beside one of the model's own: no more than n_layers + 2 forwards. A layer's split costs two more
/// unembeddings, and so does a head's. Memory: that of a batch of windows.
///
/// Errors: unsupported (a model that predicts no next tokens); usage (no window, windows of one token or longer than
/// the context, a head out of range, order 0 with a split); numerical (the orders do not sum to the model: closure
/// above 1e-3); interrupted.
TermImportance term_importance(const Model& model, std::span<const Tokens> windows, const TermOptions& options = {});
/// The same through the double path.
TermImportance term_importance_f64(const Model& model, std::span<const Tokens> windows,
                                   const TermOptions& options = {});

}  // namespace kirchhoff
