#pragma once
#include <complex>  // for complex
#include <span>     // for span
#include <string>   // for string
#include <utility>  // for pair
#include <vector>   // for vector

#include "corpus_subject.h"
#include "kirchhoff/draw/figure.h"
#include "kirchhoff/observe/in_context.h"
#include "kirchhoff/observe/lens.h"
#include "kirchhoff/observe/paths.h"
#include "kirchhoff/observe/term_importance.h"
#include "kirchhoff/study/head_roles.h"
#include "kirchhoff/tensor/view.h"
#include "kirchhoff/weights/composition.h"
#include "patch_view.h"
#include "subject.h"
#include "weights_subject.h"

namespace kirchhoff::cli {

/// A title with the lines about the model (and prompt and metric) that stand above the result on the screen.
draw::Caption caption(std::string title, const Subject& subject, const std::string& metric = {},
                      std::vector<std::string> notes = {});
draw::Caption caption(std::string title, const WeightsSubject& subject, std::vector<std::string> notes = {});
draw::Caption caption(std::string title, const CorpusSubject& subject, std::vector<std::string> notes = {});

/// Patterns [query, key] of heads over the prompt's tokens, a panel each; what a causal query cannot see is hatched.
draw::Figure pattern_figure(draw::Caption caption, const Subject& subject,
                            std::span<const std::pair<std::string, ConstMatrix>> patterns);

/// Eigenvalues in the complex plane, beside those of a random head.
draw::Figure eigenvalue_figure(draw::Caption caption, std::span<const std::complex<double>> values,
                               std::span<const std::complex<double>> random);

/// Q-, K- and V-composition as three diagrams, lines as wide as scores are above chance; below chance is dashed.
draw::Figure composition_figure(draw::Caption caption, const Composition& composition);

/// The `top` largest parts of a logit, the sum of the others, and the whole.
draw::Figure parts_figure(draw::Caption caption, const Attribution& attribution, Index top);

/// What attention and MLPs of each layer add to the logit explained at each position.
draw::Figure positions_figure(draw::Caption caption, const Subject& subject, std::span<const Attribution> attributions);

/// What each order of the path expansion lowers the loss by, and what its splits do.
draw::Figure terms_figure(draw::Caption caption, const TermImportance& terms);

/// The loss of each token of a window and of half-octaves of them, over the logarithm of the position.
draw::Figure icl_figure(draw::Caption caption, std::span<const PositionLoss> positions,
                        std::span<const PositionBin> bins);

/// The `top` largest values of `key` in a list of {"node", key}: what ablations change.
draw::Figure changes_figure(draw::Caption caption, const Json& list, const std::string& key, Index top);

/// The paths that are told apart, those that are not as one, and the total.
draw::Figure paths_figure(draw::Caption caption, const PathExpansion& expansion);

/// A number for each head, [layer, head], a panel each; `full` as in Heatmap.
struct HeadGrid {
  std::string title;
  std::vector<double> values;
};
draw::Figure head_grid_figure(draw::Caption caption, const ModelConfig& config, std::vector<HeadGrid> grids,
                              std::string value_name, bool is_signed, double full = 0.0);

/// The scores that roles of heads rest on.
draw::Figure heads_figure(draw::Caption caption, const ModelConfig& config, std::span<const NamedHead> heads);

/// The most likely token of each state at each position.
draw::Figure lens_figure(draw::Caption caption, const Subject& subject, std::span<const Index> positions,
                         std::span<const std::vector<LensRow>> rows);

/// The grid of a patching sweep, layers across; of a head's positions the one that changes most.
draw::Figure patch_figure(draw::Caption caption, const PatchView& view);

}  // namespace kirchhoff::cli
