#pragma once
#include <algorithm>         // for lower_bound
#include <functional>        // for function
#include <initializer_list>  // for initializer_list
#include <optional>          // for optional
#include <span>              // for span
#include <type_traits>       // for is_same_v
#include <utility>           // for move
#include <vector>            // for vector

#include "engine/base_state.h"
#include "engine/batch_layout.h"
#include "engine/branch_plan.h"
#include "engine/edge_editor.h"
#include "engine/editor.h"
#include "engine/recorder.h"
#include "engine/variant_editors.h"
#include "engine/weight_reader.h"
#include "kirchhoff/engine/kv_cache.h"
#include "kirchhoff/engine/run.h"
#include "kirchhoff/kernels/attention.h"

namespace kirchhoff::engine {

/// Rows of an MLP that are computed at a time: [rows, d_mlp] is the widest thing a run holds, and beyond some hundred
/// rows a product gains nothing from more.
inline constexpr Index kMlpRows = 1024;

/// A resumed run: which rows it has, what they come from, and which logits are read.
template <class Real>
struct Branches {
  const BaseState<Real>& base;
  const BranchPlan& plan;
  Index most_rows = 0;                             ///< that the plan has at once
  BasicTensor<Real>& workspace;                    ///< one for all runs of a sweep, grown where it is too small
  const BasicTensor<Real>* base_logits = nullptr;  ///< of sequences without rows; null: all have them
  const Tensor* unembedding = nullptr;             ///< the columns that are read, [columns, d_model]; null: all
  const std::vector<Index>* columns = nullptr;     ///< their numbers, with `unembedding`
  const VariantEditors<Real>& editors;
  const BasicTrace<Real>* base_trace = nullptr;  ///< if sites are recorded: what the base has there
  double vanish = 0.0;  ///< rows whose change is less than this part of the base's stream are dropped; 0: none are
};

/// What a resumed run multiplied.
struct BranchWork {
  double flops = 0.0;
  Index dropped_rows = 0;
};

/// One forward pass: float through the fast kernels, double through their twins; the same lines for both. The network
/// is what its config says it can do: no family's name occurs here.
///
/// Legend: N tokens of all sequences together (no padding), H heads, G key/value heads, dh = d_head.
template <class Real>
class Forward {
 public:
  Forward(const Model& model, std::span<const Tokens> batch, const RunOptions& options);
  /// Resumes a run: the rows that `branches.plan` has, from where they join. Nothing that they cannot change is
  /// computed.
  Forward(const Model& model, const Branches<Real>& branches, const RunOptions& options);
  /// Records in `state` what resumed runs of this one need.
  void keep(BaseState<Real>& state) { kept_ = &state; }
  BasicTrace<Real> run();
  /// Of a resumed run: [sequences, wanted positions, columns], the base's where a sequence has no row.
  BasicTensor<Real> take_branch_logits() { return std::move(branch_logits_); }
  const BranchWork& work() const { return work_; }
  /// How many numbers the buffers of a run of so many rows hold.
  static Index workspace_size(const ModelConfig& config, Index rows);
  /// What a backward needs is recorded beside what was asked for.
  void record_also(Recorder<Real>& tape) { capture_.also(&tape); }
  /// After a run: the differences that its edges' readers have seen.
  EdgeEditor<Real>& edges() { return edges_; }

 private:
  using Rows = View<Real, 2>;
  using ConstRows = View<const Real, 2>;
  /// All keys and values of a layer, [past + N, G dh]: the cache's, or this run's own.
  struct KeysValues {
    Rows k, v;
  };

  // forward.cc: the path of the residual stream
  struct Part {
    Rows Forward::*rows;
    Index height, width;
    /// Whole cache lines, and an odd number of them more, so that equal rows of two buffers do not compete for one set.
    Index padded() const { return (height * width + 15) / 16 * 16 + 17 * 16; }
  };
  static std::vector<Part> workspace_parts(const ModelConfig& config, Index rows, bool cached);
  void allocate_workspace();
  void block(Index layer);
  /// The run passes a place: its values are edited, then recorded.
  void pass(Site site, Index layer, Rows values, Index first_row = 0) {
    edit(site, layer, values, {first_row});
    capture_(site, layer, values, first_row);
  }
  /// Edits rows of this run; `changed` as Editor has it.
  bool edit(Site site, Index layer, Rows values, RowMap rows = {}, std::vector<Index>* changed = nullptr) {
    if (!edits(site, layer) || values.dim[0] == 0) return false;
    return resumed() ? edit_branches(site, layer, values, rows, changed) : edit_(site, layer, values, rows, changed);
  }
  bool edits(Site site, Index layer = 0) const {
    return resumed() ? branches_->editors.wants(site, layer) : edit_.wants(site, layer);
  }
  /// out = norm(x), in place or not; the norm's divisor and normalised values are what `sites` edit and record.
  /// Gathered rows are edited only.
  struct NormSites {
    Site scale, normalized;
    Index layer = 0;
    std::vector<Real>* kept_scale = nullptr;  // [rows], if somebody needs the divisor afterwards
  };
  void norm(NormKind kind, const WeightVector& gain, const WeightVector& bias, ConstRows x, Rows out,
            std::optional<NormSites> sites = {}, RowMap rows = {});
  void edit_norm(const WeightVector& gain, const WeightVector& bias, Rows scale, Rows normalized, Rows out,
                 const NormSites& sites, RowMap rows);
  /// What a sublayer reads: the stream itself, or its norm in `buffer`.
  ConstRows read_stream(const NormWeights& weights, Rows buffer, const NormSites& sites);
  /// Adds a sublayer's output to the stream, after the post-norm if there is one.
  void write_stream(const NormWeights& post_norm, const NormSites& sites, Site raw, Site added);

  // embedding.cc: from tokens to the stream, from the stream to logits
  void embed();
  void unembed();
  void multiply_unembedding(ConstRows in, Rows out);
  void scale_and_cap(Rows logits);
  void place_positions();
  void place_rotations();

  // sublayers.cc: what a block computes from what it reads, [N, d_model] -> out_
  void attention(Index layer, ConstRows in);
  void mlp(Index layer, ConstRows in);
  void activate_frozen(Index layer, Rows pre, Index first_row);
  ConstRows read_mlp_input(Index layer, ConstRows attention_input);
  ConstRows read_edited_mlp_input(Index layer, ConstRows attention_input, Rows stream);
  ConstRows with_positions(Index layer, ConstRows in);
  void normalise_heads(const WeightVector& gain, Rows x);
  void smear(Index layer, Rows k);
  const Real* key_before(Index layer, Index sequence, Index row) const;
  void rotate(Index layer, Rows x, RowMap rows = {});
  void record_results(Index layer, ConstMatrix W_O);
  KeysValues keys_values(Index layer);
  void attend(Index layer, Rows q, const KeysValues& read);

  // resume.cc: the rows of a resumed run, which come and go; in a run of whole sequences nothing of it happens
  bool resumed() const { return branches_ != nullptr; }
  const Tokens& tokens_of(Index sequence) const {
    return resumed() ? branches_->base.tokens[static_cast<std::size_t>(branches_->plan.base_of(sequence))]
                     : trace_.tokens[static_cast<std::size_t>(sequence)];
  }
  /// Makes room in the layout for what joins here, with the base's values.
  void join(Index layer, Entry entry);
  /// Drops the rows of the stream that do not differ from `base`.
  void drop_unchanged(const BasicTensor<Real>& base);
  bool only_stream_is_edited(Index layer) const;
  void drop_unattending(Index layer);
  BatchLayout changed_rows(std::initializer_list<std::pair<Rows, const BasicTensor<Real>*>> buffers) const;
  /// Makes the rows of a buffer those of `to`, the base's where the layout has none; `spare` is as large.
  void move_rows(Rows& rows, Rows& spare, const BatchLayout& to, const BasicTensor<Real>* base);
  /// The rows of the buffers are these from here on; now_at: those of what is edited and recorded next.
  void start_from_base();
  void set_layout(const BatchLayout& layout);
  void now_at(const BatchLayout& layout);
  void borrow_rotations();

  // edited_branches.cc: what Editor does, for the rows of a resumed run; in a run of whole sequences the Editor alone
  bool edit_branches(Site site, Index layer, Rows values, RowMap rows, std::vector<Index>* changed);
  void edit_head(Site site, Index layer, Index head, Rows values, RowMap rows);
  /// The rows of this run that an intervention touches at a head of a site, sorted.
  std::vector<Index> edited_rows(Site site, Index layer, Index head) const;
  bool edits_gates(Index layer) const;
  std::vector<Index> edit_gates(Index layer, Rows values, RowMap rows);

  // The same for edges.
  bool edges_read_attention(Index layer) const;
  bool edges_read(const Reader& reader) const {
    return resumed() ? !branches_->editors.reading(reader).empty() : edges_.reads(reader);
  }
  std::vector<Index> edge_rows(const Reader& reader) const;
  void add_edges(const Reader& reader, Rows values, RowMap rows = {});
  /// Writers have written, at the rows that there are.
  void embedding_written(Writer::Kind kind, ConstRows x);
  bool wants_heads(Index layer) const;
  void heads_written(Index layer, const std::vector<Real>& post_scale);
  void mlp_written(Index layer);
  void base_edges_written();
  /// Where a variant's rows of the base lie in this run, those that it has.
  std::vector<Index> rows_in_run(Index variant, const std::vector<Index>& base_rows) const;

  using RowChanged = std::function<void(Index head, Index query)>;
  void edit_head_query_key(Site site, Index layer, Index sequence, View<Real, 3> values, const RowChanged& changed);
  /// Calls f(variant, first, count, their rows in the base) for the parts of a buffer that are these variants'.
  template <class F>
  void for_each_part(const std::vector<Index>& variants, RowMap rows, Index count, const F& f) const;
  /// The rows of `in` (of `from`) that `some` has, in `buffer`; all of them as they are.
  ConstRows rows_of(const BatchLayout& from, const BatchLayout& some, ConstRows in, Rows buffer);
  /// What each row takes part in: its keys and values are computed, its queries, its z.
  struct AttentionRows {
    BatchLayout keys, queries, z;
  };
  AttentionRows attention_rows(Index layer) const;
  void attend_branches(Index layer, const AttentionRows& rows, const KeysValues& own);
  bool passes_patterns(Index layer, Index sequence);
  void edit_branch_patterns(Index layer, const AttentionRows& rows, const KeysValues& own, ConstRows base_k,
                            ConstRows base_v);
  void unembed_branches(ConstRows in);
  void multiply_columns(ConstRows in, Rows logits);
  void count(Index rows, Index width, Index other) {
    if (resumed())
      work_.flops += 2.0 * static_cast<double>(rows) * static_cast<double>(width) * static_cast<double>(other);
  }

  // head_inputs.cc: heads whose q, k or v reads something else than the stream
  /// What one head reads where it is not the stream.
  struct HeadInput {
    std::vector<Index> rows;     // of the batch, sorted
    BasicTensor<Real> values{};  // [rows, d_model], before the norm
    Rows view() { return values.template view<2>(); }
  };
  /// Keys or values of one query head that are not its group's.
  struct HeadCopy {
    bool keys = false;
    Index head = 0;
    std::vector<Index> rows;
    BasicTensor<Real> values{};  // [rows, G dh]: the whole row, because a norm may be over all of it
    Rows view() { return values.template view<2>(); }
    Real* row_of(Index row) {  // of the batch, one of `rows`
      return view().row(std::lower_bound(rows.begin(), rows.end(), row) - rows.begin()).data();
    }
  };
  bool edits_head_inputs(Index layer) const;
  std::vector<HeadCopy> edit_head_inputs(Index layer, const std::vector<ConstMatrix>& W, Rows q, Rows k, Rows v);
  HeadInput head_input(Index layer, Site site, Index head, Index query_head);
  BasicTensor<Real> project_head(Index layer, Site site, Index head, HeadInput& input, ConstMatrix W);
  std::vector<Index> with_next_keys(const std::vector<Index>& rows) const;
  void smear_copy(Index layer, HeadCopy& copy) const;
  void finish_copies(Index layer, std::vector<HeadCopy>& copies);
  KeysValues with_copies(const std::vector<HeadCopy>& copies, ConstRows group_k, ConstRows group_v,
                         BasicTensor<Real>& storage) const;

  // edited_attention.cc: what fused kernels leave out, where it is edited
  using Problems = std::vector<kernels::AttentionProblem<Real>>;
  bool edits_patterns(Index layer) const;
  void edit_patterns(Index layer, Problems& problems);
  void edit_pattern(Index layer, Index sequence, const kernels::AttentionProblem<Real>& problem);
  void edit_results(Index layer, ConstMatrix W_O);

  const Model& model_;
  const ModelConfig& config_;
  const RunOptions& options_;
  BatchLayout layout_;
  BasicTrace<Real> trace_;
  Recorder<Real> capture_;
  Editor<Real> edit_;
  EdgeEditor<Real> edges_;
  WeightReader reader_;

  // The workspace, written anew by every block.
  BasicTensor<Real> workspace_;  // holds all that follow
  Rows x_;                       // [N, d_model]: the residual stream
  Rows out_;                     // [N, d_model]: what a sublayer gives
  Rows normed_, normed_mlp_;     // [N, d_model]: what attention and MLP read
  Rows pos_, shifted_;           // [N, d_model]: position embeddings; shortformer's input of q and k
  Rows q_, k_, v_, z_;           // [N, H dh], [N, G dh] twice, [N, H dh]
  Rows unsmeared_k_;             // [N, G dh]: smeared keys as they were before
  Rows pre_, linear_;            // [up to kMlpRows, d_mlp]
  BasicTensor<Real> mlp_rows_;   // of a resumed run with parallel blocks: what the MLP reads of the rows that are left
  BasicTensor<Real> mlp_stream_, mlp_normed_;  // [N, d_model]: the MLP's own input and its norm, where they are edited
  struct Rotation {
    Rows cos, sin;  // [N, rotary_dim / 2]
  };
  std::vector<Rotation> rotations_;  // by table

  BaseState<Real>* kept_ = nullptr;           // what is recorded for resumed runs
  const Branches<Real>* branches_ = nullptr;  // what this one resumes
  BasicTensor<Real> branch_logits_;
  BranchWork work_;
};

/// The parameters as a kernel of this precision reads them; null if absent.
template <class Real>
const Real* values(const WeightVector& v) {
  if constexpr (std::is_same_v<Real, float>)
    return v.f32_or_null();
  else
    return v.f64_or_null();
}

}  // namespace kirchhoff::engine
