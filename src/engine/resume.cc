#include <algorithm>  // for copy_n
#include <utility>    // for pair, swap

#include "engine/forward.h"
#include "engine/head_views.h"
#include "kirchhoff/base/parallel.h"
#include "kirchhoff/kernels/attention.h"
#include "kirchhoff/kernels/branched_attention.h"
#include "kirchhoff/kernels/gemm.h"

namespace kirchhoff::engine {
namespace {

constexpr Index kSequencesATask = 8;

/// Calls f(sequence) for all sequences, in parallel.
template <class F>
void for_each_sequence(const BatchLayout& layout, const F& f) {
  parallel_for_blocks(layout.batch(), kSequencesATask, [&f](Index begin, Index end) {
    for (Index s = begin; s < end; ++s) f(s);
  });
}

}  // namespace

/// What is recorded of variants is the base's, but for the rows that are computed.
template <class Real>
void Forward<Real>::start_from_base() {
  for (auto& [site, variants] : trace_.sites) {
    const BasicTensor<Real>& base = branches_->base_trace->at(site);
    const Index size = variants.size() / layout_.batch();
    for (Index s = 0; s < layout_.batch(); ++s)
      std::copy_n(base.data() + branches_->plan.base_of(s) * size, size, variants.data() + s * size);
  }
  base_edges_written();
}

template <class Real>
void Forward<Real>::now_at(const BatchLayout& layout) {
  if (!resumed()) return;
  layout_ = layout;
}

template <class Real>
void Forward<Real>::set_layout(const BatchLayout& layout) {
  now_at(layout);
  for (Rows* rows : {&x_, &out_, &normed_, &normed_mlp_, &pos_, &shifted_, &q_, &k_, &v_, &z_, &unsmeared_k_})
    if (rows->data != nullptr) rows->dim[0] = layout_.rows();
}

template <class Real>
void Forward<Real>::borrow_rotations() {
  for (std::size_t t = 0; t < rotations_.size(); ++t)
    for (const auto& [to, from] :
         {std::pair(rotations_[t].cos, &branches_->base.cos[t]), std::pair(rotations_[t].sin, &branches_->base.sin[t])})
      for (Index s = 0; s < layout_.batch(); ++s) {
        const Index base_row = branches_->base.layout.first_row(branches_->plan.base_of(s));
        for (Index row = layout_.first_row(s); row < layout_.first_row(s + 1); ++row)
          std::copy_n(from->data() + (base_row + layout_.token_of(s, row)) * to.dim[1], to.dim[1], to.row(row).data());
      }
}

template <class Real>
void Forward<Real>::join(Index layer, Entry entry) {
  if (!resumed()) return;
  const BatchLayout to = branches_->plan.joined(layout_, layer, entry);
  if (to.rows() == layout_.rows()) return;
  const BaseState<Real>& base = branches_->base;
  const auto l = static_cast<std::size_t>(layer);
  switch (entry) {
    case Entry::embed:
      break;  // the embedding writes all of it
    case Entry::stream:
    case Entry::queries:
      move_rows(x_, out_, to, &base.stream[l]);
      break;
    case Entry::z:
    case Entry::result:
      move_rows(x_, out_, to, &base.stream[l]);
      move_rows(z_, q_, to, &base.z[l]);
      break;
    case Entry::mid:
      move_rows(x_, out_, to, &base.mid[l]);
      break;
    case Entry::post:
      move_rows(x_, out_, to, &base.stream[l + 1]);
      break;
  }
  set_layout(to);
}

/// The layout without the rows whose values in all of these buffers are the base's, but for less than `vanish` of their
/// norm.
template <class Real>
BatchLayout Forward<Real>::changed_rows(
    std::initializer_list<std::pair<Rows, const BasicTensor<Real>*>> buffers) const {
  const double least = branches_->vanish * branches_->vanish;
  const auto differs = [least](std::span<const Real> values, const Real* base) {
    double change = 0.0, norm = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double difference = static_cast<double>(values[i]) - static_cast<double>(base[i]);
      change += difference * difference;
      norm += static_cast<double>(base[i]) * static_cast<double>(base[i]);
    }
    return !(change <= least * norm);  // NaN differs
  };
  std::vector<std::vector<Index>> kept(static_cast<std::size_t>(layout_.batch()));
  for_each_sequence(layout_, [&](Index s) {
    const Index base_row = branches_->base.layout.first_row(branches_->plan.base_of(s));
    for (Index row = layout_.first_row(s); row < layout_.first_row(s + 1); ++row) {
      const Index token = layout_.token_of(s, row);
      bool is_changed = false;
      for (const auto& [values, base] : buffers)
        is_changed = is_changed || differs(values.row(row), base->data() + (base_row + token) * values.dim[1]);
      if (is_changed) kept[static_cast<std::size_t>(s)].push_back(token);
    }
  });
  return layout_.at(kept);
}

template <class Real>
void Forward<Real>::drop_unchanged(const BasicTensor<Real>& base) {
  if (branches_->vanish <= 0.0 || layout_.rows() == 0) return;
  const BatchLayout to = changed_rows({{x_, &base}});
  if (to.rows() == layout_.rows()) return;
  work_.dropped_rows += layout_.rows() - to.rows();
  move_rows(x_, out_, to, nullptr);
  set_layout(to);
}

/// Behind attention: rows whose stream was the base's and whose z still is. Parallel blocks have rows that only their
/// MLP changes.
template <class Real>
void Forward<Real>::drop_unattending(Index layer) {
  if (!resumed() || branches_->vanish <= 0.0 || layout_.rows() == 0 || config_.parallel) return;
  const auto l = static_cast<std::size_t>(layer);
  const BatchLayout to = changed_rows({{x_, &branches_->base.stream[l]}, {z_, &branches_->base.z[l]}});
  if (to.rows() == layout_.rows()) return;
  work_.dropped_rows += layout_.rows() - to.rows();
  move_rows(x_, out_, to, nullptr);
  move_rows(z_, q_, to, nullptr);
  set_layout(to);
}

template <class Real>
void Forward<Real>::move_rows(Rows& rows, Rows& spare, const BatchLayout& to, const BasicTensor<Real>* base) {
  const Index width = rows.dim[1];
  for_each_sequence(to, [&](Index s) {
    const Index base_row = branches_->base.layout.first_row(branches_->plan.base_of(s));
    for (Index row = to.first_row(s); row < to.first_row(s + 1); ++row) {
      const Index token = to.token_of(s, row), before = layout_.find_row(s, token);
      const Real* from = before >= 0 ? rows.data + before * width : base->data() + (base_row + token) * width;
      std::copy_n(from, width, spare.data + row * width);
    }
  });
  std::swap(rows.data, spare.data);
}

template <class Real>
typename Forward<Real>::ConstRows Forward<Real>::rows_of(const BatchLayout& from, const BatchLayout& some, ConstRows in,
                                                         Rows buffer) {
  if (some.rows() == from.rows()) return in;
  const Rows out(buffer.data, {some.rows(), in.dim[1]});
  for_each_sequence(some, [&](Index s) {
    for (Index row = some.first_row(s); row < some.first_row(s + 1); ++row)
      std::copy_n(in.row(from.find_row(s, some.token_of(s, row))).data(), in.dim[1], out.row(row).data());
  });
  return out;
}

/// In a resumed run keys and values are computed where the stream has changed, z where a change can reach it, and
/// queries where both are.
template <class Real>
typename Forward<Real>::AttentionRows Forward<Real>::attention_rows(Index layer) const {
  if (!resumed()) return {layout_, layout_, layout_};
  const BatchLayout z = branches_->plan.attending(layout_, layer);
  // A head's own input gives queries, keys and values alike.
  return {layout_, edits_head_inputs(layer) ? layout_ : branches_->plan.intersection(layout_, z), z};
}

/// z of the rows that attend; the stream becomes that of these rows.
template <class Real>
void Forward<Real>::attend_branches(Index layer, const AttentionRows& rows, const KeysValues& own) {
  const auto l = static_cast<std::size_t>(layer);
  const BranchPlan& plan = branches_->plan;
  const BaseState<Real>& base = branches_->base;
  const Index d_head = config_.d_head, variants = rows.z.batch() / base.layout.batch();

  // 1. Queries and stream of all rows that attend.
  layout_ = rows.queries;
  if (!rows.z.same_rows(rows.queries)) move_rows(q_, z_, rows.z, &base.q[l]);
  layout_ = rows.keys;
  if (!rows.z.same_rows(rows.keys)) move_rows(x_, out_, rows.z, &base.stream[l]);
  set_layout(rows.z);

  // 2. The base's keys and values, by query head where variants have copies of their own for each.
  BasicTensor<Real> copied;
  ConstRows base_k = base.k[l].template view<2>(), base_v = base.v[l].template view<2>();
  if (own.k.dim[1] != base_k.dim[1]) {
    const KeysValues by_query_head = with_copies({}, base_k, base_v, copied);
    base_k = by_query_head.k;
    base_v = by_query_head.v;
  }

  // 3. The variants of each sequence of the base against its keys.
  std::vector<kernels::Branch> branches;
  for (Index s = 0; s < rows.z.batch(); ++s)
    branches.push_back({rows.z.first_row(s), rows.z.row_count(s), rows.keys.first_row(s), rows.keys.row_count(s)});
  std::vector<kernels::BranchedAttentionProblem<Real>> problems;
  for (Index b = 0; b < base.layout.batch(); ++b) {
    const auto of_sequence = [&](ConstRows all) {
      return by_head(all.rows(base.layout.first_row(b), base.layout.length(b)), d_head);
    };
    problems.push_back({
        .q = by_head(ConstRows(q_), d_head),
        .k = by_head(ConstRows(own.k), d_head),
        .v = by_head(ConstRows(own.v), d_head),
        .z = by_head(z_, d_head),
        .base_k = of_sequence(base_k),
        .base_v = of_sequence(base_v),
        .query_positions = rows.z.tokens(),
        .key_positions = rows.keys.tokens(),
        .branches =
            std::span(branches).subspan(static_cast<std::size_t>(b * variants), static_cast<std::size_t>(variants)),
        .scale = config_.attn_scale_of_layer[l],
        .softcap = config_.attn_softcap,
        .window = config_.window_of_layer[l],
        .causal = config_.causal,
        .slopes = config_.positions == Positions::alibi ? config_.alibi_slopes.data() : nullptr,
    });
  }
  kernels::attention(std::span<const kernels::BranchedAttentionProblem<Real>>(problems));
  for (Index s = 0; s < rows.z.batch(); ++s)
    for (const Index token : rows.z.tokens(s)) count(2 * plan.keys_seen(s, layer, token), config_.n_heads, d_head);
  edit_branch_patterns(layer, rows, own, base_k, base_v);
}

/// Whether scores or pattern of a sequence are edited or recorded.
template <class Real>
bool Forward<Real>::passes_patterns(Index layer, Index sequence) {
  const Editor<Real>& editor = branches_->editors[sequence % branches_->editors.count()];
  for (const Site site : {Site::attn_scores, Site::pattern})
    if (editor.wants(site, layer) || capture_.wants(site, layer)) return true;
  return false;
}

/// z of the sequences whose scores or patterns are edited or recorded, with all keys put together, as a run of whole
/// sequences has them. Memory: scores and pattern of one sequence.
template <class Real>
void Forward<Real>::edit_branch_patterns(Index layer, const AttentionRows& rows, const KeysValues& own,
                                         ConstRows base_k, ConstRows base_v) {
  const auto l = static_cast<std::size_t>(layer);
  const Index d_head = config_.d_head, n_heads = config_.n_heads;
  for (Index s = 0; s < rows.z.batch(); ++s) {
    if (rows.z.row_count(s) == 0 || !passes_patterns(layer, s)) continue;
    const Index base_row = branches_->base.layout.first_row(branches_->plan.base_of(s));
    const Index length = rows.z.length(s);
    const auto put_together = [&](ConstRows all, ConstRows changed, const BatchLayout& at) {
      BasicTensor<Real> whole = copy_of<Real>(all.rows(base_row, length));
      for (Index row = at.first_row(s); row < at.first_row(s + 1); ++row)
        std::copy_n(changed.row(row).data(), all.dim[1], whole.data() + at.token_of(s, row) * all.dim[1]);
      return whole;
    };
    BasicTensor<Real> q = put_together(branches_->base.q[l].template view<2>(), q_, rows.z);
    BasicTensor<Real> k = put_together(base_k, own.k, rows.keys), v = put_together(base_v, own.v, rows.keys);
    auto z = BasicTensor<Real>::uninitialised({length, n_heads * d_head});
    auto scores = BasicTensor<Real>::uninitialised({n_heads, length, length});
    auto pattern = BasicTensor<Real>::uninitialised({n_heads, length, length});
    const kernels::AttentionProblem<Real> problem{
        .q = by_head(ConstRows(q.template view<2>()), d_head),
        .k = by_head(ConstRows(k.template view<2>()), d_head),
        .v = by_head(ConstRows(v.template view<2>()), d_head),
        .z = by_head(z.template view<2>(), d_head),
        .scale = config_.attn_scale_of_layer[l],
        .softcap = config_.attn_softcap,
        .window = config_.window_of_layer[l],
        .causal = config_.causal,
        .slopes = config_.positions == Positions::alibi ? config_.alibi_slopes.data() : nullptr,
        .scores = scores.template view<3>(),
        .pattern = pattern.template view<3>(),
    };
    kernels::attention(problem);
    edit_pattern(layer, s, problem);
    for (Index row = rows.z.first_row(s); row < rows.z.first_row(s + 1); ++row)
      std::copy_n(z.data() + rows.z.token_of(s, row) * z.dim(1), z.dim(1), z_.row(row).data());
    for (const auto& [to, from] : {std::pair(capture_.head_query_key(Site::attn_scores, layer, s), problem.scores),
                                   std::pair(capture_.head_query_key(Site::pattern, layer, s), problem.pattern)})
      for (Index h = 0; to.data != nullptr && h < n_heads; ++h)
        for (const Index token : rows.z.tokens(s)) std::copy_n(&from(h, token, 0), length, &to(h, token, 0));
  }
}

/// The logits that are wanted, of the rows that there are; the others are the base's.
template <class Real>
void Forward<Real>::unembed_branches(ConstRows in) {
  const BranchPlan& plan = branches_->plan;
  const BatchLayout rows = plan.wanted(layout_);
  const ConstRows read = rows_of(layout_, rows, in, out_);
  now_at(rows);
  const Index columns = branches_->unembedding != nullptr ? branches_->unembedding->dim(0) : config_.d_vocab_out;
  auto logits = BasicTensor<Real>::uninitialised({std::max<Index>(rows.rows(), 1), columns});
  if (rows.rows() > 0) multiply_columns(read, logits.template view<2>().rows(0, rows.rows()));

  const Index wanted = plan.most_wanted();
  branch_logits_ = BasicTensor<Real>({rows.batch(), wanted, columns}, {"batch", "pos", "d_vocab"});
  for (Index s = 0; s < rows.batch(); ++s) {
    const std::vector<Index>& tokens = plan.wanted(s);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const Index row = rows.find_row(s, tokens[i]), slot = static_cast<Index>(i);
      const Real* from = row >= 0 ? logits.data() + row * columns
                                  : branches_->base_logits->data() + (plan.base_of(s) * wanted + slot) * columns;
      std::copy_n(from, columns, branch_logits_.data() + (s * wanted + slot) * columns);
    }
  }
}

template <class Real>
void Forward<Real>::multiply_columns(ConstRows in, Rows logits) {
  count(logits.dim[0], logits.dim[1], in.dim[1]);
  if (branches_->unembedding == nullptr) {
    multiply_unembedding(in, logits);
    edit(Site::unembed_out, 0, logits);
  } else if (edits(Site::unembed_out)) {  // which knows all columns
    auto all = BasicTensor<Real>::uninitialised({in.dim[0], config_.d_vocab_out});
    multiply_unembedding(in, all.template view<2>());
    edit(Site::unembed_out, 0, all.template view<2>());
    for (Index row = 0; row < logits.dim[0]; ++row)
      for (Index c = 0; c < logits.dim[1]; ++c)
        logits(row, c) = all[row * config_.d_vocab_out + (*branches_->columns)[static_cast<std::size_t>(c)]];
  } else {
    const ConstMatrix columns(branches_->unembedding->data(), {logits.dim[1], in.dim[1]});
    kernels::gemm(kernels::BasicGemmProblem<Real>{.a = in, .b = transposed(columns), .c = logits});
    if (const Real* bias = values<Real>(model_.weights.b_U); bias != nullptr)
      for (Index row = 0; row < logits.dim[0]; ++row)
        for (Index c = 0; c < logits.dim[1]; ++c)
          logits(row, c) += bias[(*branches_->columns)[static_cast<std::size_t>(c)]];
  }
  scale_and_cap(logits);
}

// What the other files call; the rest follows from it.
#define KIRCHHOFF_RESUME(Real)                                                                                     \
  template void Forward<Real>::set_layout(const BatchLayout&);                                                     \
  template void Forward<Real>::start_from_base();                                                                  \
  template void Forward<Real>::now_at(const BatchLayout&);                                                         \
  template void Forward<Real>::borrow_rotations();                                                                 \
  template void Forward<Real>::join(Index, Entry);                                                                 \
  template void Forward<Real>::drop_unattending(Index);                                                            \
  template void Forward<Real>::drop_unchanged(const BasicTensor<Real>&);                                           \
  template View<const Real, 2> Forward<Real>::rows_of(const BatchLayout&, const BatchLayout&, View<const Real, 2>, \
                                                      View<Real, 2>);                                              \
  template Forward<Real>::AttentionRows Forward<Real>::attention_rows(Index) const;                                \
  template void Forward<Real>::attend_branches(Index, const AttentionRows&, const KeysValues&);                    \
  template void Forward<Real>::unembed_branches(View<const Real, 2>);
KIRCHHOFF_RESUME(float)
KIRCHHOFF_RESUME(double)
#undef KIRCHHOFF_RESUME

}  // namespace kirchhoff::engine
