#pragma once
#include <cstdint>           // for uint8_t
#include <initializer_list>  // for initializer_list
#include <memory>            // for shared_ptr
#include <optional>          // for optional
#include <span>              // for span
#include <string>            // for string
#include <utility>           // for move
#include <vector>            // for vector

#include "kirchhoff/engine/graph.h"
#include "kirchhoff/tensor/tensor.h"

// What a run does differently. Three kinds, in one `Interventions`: at sites, at edges of the graph, and freezes.
//
// Order. A run passes its places in the order of engine/sites.h, and each place sees what earlier ones made of it. At
// one place the interventions act in the order of their list (a freeze before all of them). Of those that touch the
// same number only the first may replace it (set, zero, mean, resample, a freeze): a later one would undo what is
// before it, and is Error{usage}. At a reader edges come first; replacing a reader's whole input where edges lead into
// it is an error for the same reason.
//
// Nothing else changes. A number that is replaced by itself leaves every bit of the run as it was, and so does what
// selects nothing: kernels stay fused, and only rows that did change are computed anew, from the edited values.

namespace kirchhoff {

template <class Real>
struct BasicTrace;

/// Entries of one axis: all of them (the default), or a list. Negative ones count from the end: -1 is the last.
class Selection {
 public:
  Selection() = default;
  Selection(std::initializer_list<Index> entries) : entries_(std::vector<Index>(entries)) {}
  explicit Selection(std::vector<Index> entries) : entries_(std::move(entries)) {}

  bool all() const { return !entries_.has_value(); }
  /// Only if not all().
  const std::vector<Index>& entries() const { return *entries_; }

 private:
  std::optional<std::vector<Index>> entries_;
};

/// Which numbers of a site. An axis that the site lacks must be left at "all"; Error{usage} names it otherwise.
struct Where {
  Selection sequences{};
  Selection positions{};  ///< tokens of this run, from 0, without padding; of scores and patterns: the queries
  Selection heads{};      ///< query heads, or key/value heads where the site has those
  Selection units{};      ///< of the last axis: neurons, dimensions of the stream or of a head
  Selection keys{};       ///< of scores and patterns: positions of the keys (earlier tokens of a cache count)
};

/// Numbers in the precision in which they were given: float32 ones enter the double path exactly.
///
/// Their shape is the last axes of the site's ([batch, pos, head, d_head] of z, say): an axis of size 1 and missing
/// leading axes hold for all, a scalar for everything. Positions count from the sequence's first token.
class Values {
 public:
  Values() = default;
  Values(double everywhere);
  Values(Tensor values) : f32_(std::make_shared<const Tensor>(std::move(values))) {}
  Values(TensorF64 values) : f64_(std::make_shared<const TensorF64>(std::move(values))) {}
  /// A row of the site's last axis: [d_model], [d_head], ...
  static Values row(std::span<const double> values);
  static Values row(std::span<const float> values);

  bool empty() const { return f32_ == nullptr && f64_ == nullptr; }
  const Shape& shape() const;
  /// out[i] = the value at flat index first + i * step.
  void read(Index first, Index step, std::span<float> out) const;
  void read(Index first, Index step, std::span<double> out) const;

 private:
  std::shared_ptr<const Tensor> f32_;
  std::shared_ptr<const TensorF64> f64_;
};

/// A trace of either precision, which must outlive the runs that read it.
class TraceRef {
 public:
  TraceRef() = default;
  TraceRef(const BasicTrace<float>& trace) : f32_(&trace) {}
  TraceRef(const BasicTrace<double>& trace) : f64_(&trace) {}

  bool empty() const { return f32_ == nullptr && f64_ == nullptr; }
  const BasicTrace<float>* f32() const { return f32_; }
  const BasicTrace<double>* f64() const { return f64_; }

 private:
  const BasicTrace<float>* f32_ = nullptr;
  const BasicTrace<double>* f64_ = nullptr;
};

/// Another run, and what of it stands for what of this one.
struct Source {
  TraceRef trace{};
  /// By sequence of this run, the sequence of the trace. Empty: the same, or the only one if the trace has one.
  std::vector<Index> sequences{};
  /// By sequence of this run (one list: for all), by position of it, the position in the trace; -1 leaves the position
  /// as it is. Empty: the same position. Scores and patterns map their keys with the same list.
  std::vector<std::vector<Index>> positions{};
};

enum class Edit : std::uint8_t {
  set,          ///< x = values
  add,          ///< x = x + factor values
  scale,        ///< x = factor x
  zero,         ///< x = 0
  mean,         ///< x = mean of x over the sequences of the source, which all have the position
  mean_all,     ///< x = mean of x over all sequences and positions of the source
  resample,     ///< x = what the source has
  project_out,  ///< x = x - (x.v / v.v) v, v = values along the last axis; selects no units
};
/// Whether the number that was there is forgotten.
constexpr bool replaces(Edit edit) { return edit != Edit::add && edit != Edit::scale && edit != Edit::project_out; }
/// "set", "add", "project out", ...
std::string_view name(Edit edit);

/// An intervention at a site (or at each of several).
///
/// - hook_attn_in, hook_q_input, hook_k_input, hook_v_input: the head's own input, normalised by itself (a query head's
///   hook_attn_in is read by its q and by its own copies of k and v; hook_k_input of a key/value head by the whole
///   group). hook_mlp_in: the MLP's alone; the stream stays.
/// - hook_scale, hook_normalized: the norm goes on from there. A norm's scale holds for every reader behind that norm.
/// - hook_result: attention's output is b_O plus the sum of the edited results.
/// - hook_attn_scores: softmax of the edited scores. hook_pattern: taken as it is, rows need not sum to 1.
struct Intervention {
  std::string site{};  ///< as in RunOptions::capture: a name, or a pattern
  Edit edit = Edit::zero;
  Where where{};
  Values values{};      ///< set, add, project_out
  double factor = 1.0;  ///< add, scale
  Source source{};      ///< mean, mean_all, resample: a trace that recorded the site
};

/// What readers see of writers: input(v) = the stream - u's contribution + its replacement, everything else as this run
/// computes it. Recursive: u's contribution is that of this run, behind whatever was changed before it.
///
/// A contribution is what the writer adds to the stream. Where a norm follows the sublayer (Gemma-2, OLMo-2) that is
/// gain * z_h W_O^h / s (LayerNorm: less its mean), s the norm's own divisor in the run that it is taken from.
struct EdgeIntervention {
  std::vector<Edge> edges{};
  Edit edit = Edit::resample;  ///< what the contribution is replaced by: set, zero, mean, mean_all, resample
  Selection sequences{}, positions{};
  Values values{};  ///< set: [batch, pos, d_model] or its last axes
  Source source{};  ///< a trace that recorded `edge_sites`
};

/// Parts of a run taken from another one, by kind. A kind that the model lacks changes nothing.
struct Freeze {
  Source source{};  ///< a trace that recorded `freeze_sites`
  Selection layers{}, sequences{};
  bool patterns = false;
  bool attention_scales = false;  ///< divisors of the norms before attention (shared_norm: the MLP's too)
  bool mlp_scales = false;        ///< of those before the MLP
  bool post_scales = false;       ///< of those behind attention and MLP
  bool inner_scales = false;      ///< of those inside an MLP (solu_ln)
  bool final_scale = false;
  /// The MLP becomes linear: post = act(pre0)/pre0 * pre elementwise, pre0 the source's; gated: act(gate0) * linear.
  bool mlp_gates = false;
  bool mlp_activations = false;  ///< what W_out reads, so that the MLP writes what it wrote in the source
};

/// Everything that one run does differently.
struct Interventions {
  std::vector<Intervention> sites{};
  std::vector<EdgeIntervention> edges{};
  std::vector<Freeze> freezes{};
  bool empty() const { return sites.empty() && edges.empty() && freezes.empty(); }
};

/// What a trace must have recorded to be the source of such an edge intervention, of a freeze.
std::vector<std::string> edge_sites(const ModelConfig& config, std::span<const Edge> edges);
std::vector<std::string> freeze_sites(const ModelConfig& config, const Freeze& freeze);

}  // namespace kirchhoff
