#include "kirchhoff/weights/head_matrices.h"

#include <algorithm>  // for copy, min
#include <cmath>      // for sqrt
#include <utility>    // for move

#include "kirchhoff/kernels/rotary.h"
#include "weights/dense.h"
#include "weights/folding.h"

namespace kirchhoff {
namespace folding {

void scale_columns(const WeightVector& gain, View<double, 2> rows) {
  if (!gain.present()) return;
  for (Index i = 0; i < rows.dim[0]; ++i)
    for (Index j = 0; j < rows.dim[1]; ++j) rows(i, j) *= gain.f64()[static_cast<std::size_t>(j)];
}

void centre_rows(View<double, 2> rows) {
  for (Index i = 0; i < rows.dim[0]; ++i) {
    double sum = 0.0;
    for (Index j = 0; j < rows.dim[1]; ++j) sum += rows(i, j);
    const double mean = sum / static_cast<double>(rows.dim[1]);
    for (Index j = 0; j < rows.dim[1]; ++j) rows(i, j) -= mean;
  }
}

void fold_reader(NormKind kind, const NormWeights& norm, View<double, 2> rows) {
  if (kind == NormKind::none) return;
  scale_columns(norm.w, rows);
  if (kind == NormKind::layer_norm) centre_rows(rows);
}

bool readers_subtract_mean(const ModelConfig& config) {
  return config.norm == NormKind::layer_norm && config.pre_norm && config.final_norm;
}

namespace {

/// Rows [head d_head, (head + 1) d_head) of W_Q's, W_K's or W_V's storage.
TensorF64 read_directions(const WeightMatrix& W, Index head, Index d_head) {
  Tensor rows = Tensor::uninitialised({d_head, W.d_in()});
  W.rows(head * d_head, (head + 1) * d_head, rows.data());
  TensorF64 result = TensorF64::uninitialised(rows.shape());
  std::copy(rows.data(), rows.data() + rows.size(), result.data());
  return result;
}

/// Columns of the same range of W_O's storage, as rows.
TensorF64 written_directions(const WeightMatrix& W_O, Index head, Index d_head) {
  constexpr Index kRows = 64;
  const Index d_model = W_O.d_out(), width = W_O.d_in();
  TensorF64 result = TensorF64::uninitialised({d_head, d_model});
  std::vector<float> block(static_cast<std::size_t>(kRows * width));
  for (Index begin = 0; begin < d_model; begin += kRows) {
    const Index end = std::min(d_model, begin + kRows);
    W_O.rows(begin, end, block.data());
    for (Index m = begin; m < end; ++m)
      for (Index i = 0; i < d_head; ++i)
        result[i * d_model + m] =
            static_cast<double>(block[static_cast<std::size_t>((m - begin) * width + head * d_head + i)]);
  }
  return result;
}

/// Row i of q or k times entry i of the norm's gain, which is that of a head or of all heads.
void fold_qk_gain(const WeightVector& gain, Index head, TensorF64& rows) {
  if (!gain.present()) return;
  const Index d_head = rows.dim(0), d_model = rows.dim(1);
  const Index first = gain.size() == d_head ? 0 : head * d_head;
  for (Index i = 0; i < d_head; ++i)
    for (Index j = 0; j < d_model; ++j) rows[i * d_model + j] *= gain.f64()[static_cast<std::size_t>(first + i)];
}

kernels::RotaryPairs pairs_of(const ModelConfig& config) {
  return config.rotary_adjacent ? kernels::RotaryPairs::adjacent : kernels::RotaryPairs::half;
}

const RotaryTable& table_of(const ModelConfig& config, Index layer) {
  return config.rotary_tables[static_cast<std::size_t>(config.rotary_table_of_layer[static_cast<std::size_t>(layer)])];
}

/// Every column of q, a vector of d_head, turned as a query `offset` positions on.
void turn(const ModelConfig& config, Index layer, Index offset, TensorF64& q) {
  const Index d_head = q.dim(0), d_model = q.dim(1), half = config.rotary_dim / 2;
  TensorF64 cos({d_model, half}), sin({d_model, half}), columns({d_model, 1, d_head});
  for (Index j = 0; j < d_model; ++j) {
    kernels::rotary_tables(table_of(config, layer).inv_freq, offset, cos.view<2>().rows(j, 1),
                           sin.view<2>().rows(j, 1));
    for (Index i = 0; i < d_head; ++i) columns[j * d_head + i] = q[i * d_model + j];
  }
  kernels::rotate(kernels::RotaryProblem<double>{.x = columns.view<3>(),
                                                 .out = columns.view<3>(),
                                                 .cos = cos.view<2>(),
                                                 .sin = sin.view<2>(),
                                                 .pairs = pairs_of(config)});
  for (Index j = 0; j < d_model; ++j)
    for (Index i = 0; i < d_head; ++i) q[i * d_model + j] = columns[j * d_head + i];
}

void check_head(const ModelConfig& config, Index layer, Index head, const HeadForm& form) {
  check(layer >= 0 && layer < config.n_layers && head >= 0 && head < config.n_heads, ErrorCode::usage,
        "there is no head {}.{}: the model has {} layers of {} heads", layer, head, config.n_layers, config.n_heads);
  check(form.offset >= 0, ErrorCode::usage, "offset {} is negative: keys are behind their queries", form.offset);
  check(form.offset == 0 || config.positions == Positions::rotary, ErrorCode::usage,
        "offset {}: only rotary positions give a circuit for each offset, and this model has none", form.offset);
}

}  // namespace

HeadMatrices head_matrices(const Model& model, Index layer, Index head, const HeadForm& form, bool qk_gains) {
  const ModelConfig& config = model.config;
  check_head(config, layer, head, form);
  const LayerWeights& weights = model.weights.layers[static_cast<std::size_t>(layer)];
  const Index d_head = config.d_head, kv_head = head / (config.n_heads / config.n_kv_heads);
  HeadMatrices result{.layer = layer,
                      .head = head,
                      .q = read_directions(weights.W_Q, head, d_head),
                      .k = read_directions(weights.W_K, kv_head, d_head),
                      .v = read_directions(weights.W_V, kv_head, d_head),
                      .o = written_directions(weights.W_O, head, d_head),
                      .score_scale = 1.0};
  if (!form.raw) {
    result.score_scale = config.attn_scale_of_layer[static_cast<std::size_t>(layer)];
    if (config.pre_norm)
      for (TensorF64* rows : {&result.q, &result.k, &result.v}) fold_reader(config.norm, weights.ln1, rows->view<2>());
    if (config.qk_norm != QkNorm::none && qk_gains) {
      fold_qk_gain(weights.q_norm, head, result.q);
      fold_qk_gain(weights.k_norm, kv_head, result.k);
    }
    if (config.post_norm && config.norm != NormKind::none) {
      // (z W_O - mean) / s * w: centre, then the gain.
      if (config.norm == NormKind::layer_norm) centre_rows(result.o.view<2>());
      scale_columns(weights.ln1_post.w, result.o.view<2>());
    }
    if (readers_subtract_mean(config)) centre_rows(result.o.view<2>());
  }
  if (form.offset > 0) turn(config, layer, form.offset, result.q);
  return result;
}

}  // namespace folding

namespace {

TensorF64 transposed_copy(const TensorF64& a) {
  TensorF64 result = TensorF64::uninitialised({a.dim(1), a.dim(0)});
  for (Index i = 0; i < a.dim(0); ++i)
    for (Index j = 0; j < a.dim(1); ++j) result[j * a.dim(0) + i] = a[i * a.dim(1) + j];
  return result;
}

/// rows (of `reader`'s q, k or v) as they read what `writer` wrote, read by `writer`'s v: rows o^T v.
TensorF64 read_through(const TensorF64& rows, const HeadMatrices& writer) {
  const TensorF64 between = dense::product(rows.view<2>(), transposed(writer.o.view<2>()));  // [d_head, d_head]
  return dense::product(between.view<2>(), writer.v.view<2>());
}

}  // namespace

FactoredMatrix HeadMatrices::qk() const { return {transposed_copy(q), k.clone()}; }
FactoredMatrix HeadMatrices::ov() const { return {transposed_copy(v), o.clone()}; }

HeadMatrices head_matrices(const Model& model, Index layer, Index head, const HeadForm& form) {
  return folding::head_matrices(model, layer, head, form, true);
}

std::vector<std::string> head_form_notes(const Model& model, const HeadForm& form, bool scores) {
  const ModelConfig& config = model.config;
  const LayerWeights& first = model.weights.layers.front();
  std::vector<std::string> notes;
  const auto add = [&notes](bool applies, const char* sentence) {
    if (applies) notes.emplace_back(sentence);
  };
  const bool norm_before = config.norm != NormKind::none && config.pre_norm,
             layer_norm = config.norm == NormKind::layer_norm;
  if (form.raw) {
    notes.emplace_back("weights as in the file: no norm folded, nothing centred, scores not scaled");
  } else {
    add(norm_before && layer_norm,
        "the gain of the norm before the head is folded into its weights, which are then centred over d_model");
    add(norm_before && !layer_norm, "the gain of the norm before the head is folded into its weights");
    add(config.post_norm, "the gain of the norm behind the attention is folded into W_O; its divisor is left out");
    add(scores && config.qk_norm == QkNorm::full_width,
        "the gains of the q/k norm are folded in; its divisors, which all heads share, are left out");
    add(scores && config.qk_norm == QkNorm::per_head, "the gains of the q/k norm are folded in");
    add(scores && config.attn_softcap > 0.0, "scores are those before the soft-cap");
  }
  add(first.ln1.b.present() || (scores ? first.b_Q.present() || first.b_K.present() : first.b_V.present()),
      "biases, the norm's included, are left out");
  if (scores && config.positions == Positions::rotary)
    notes.push_back(form.offset == 0
                        ? "QK is that of a token with itself (offset 0): the rotation makes another for each distance"
                        : fmt::format("QK is that of keys {} positions behind the query", form.offset));
  add(scores && config.smeared_keys,
      "QK is that of keys by themselves: smeared, sigmoid(smear) of it counts with a key's own token, the rest with "
      "the "
      "token before");
  add(scores && config.positions == Positions::alibi, "the bias by distance (ALiBi) is left out");
  return notes;
}

HeadMatrices keys_through(const HeadMatrices& reader, const HeadMatrices& writer) {
  check(writer.layer < reader.layer, ErrorCode::usage, "head {}.{} does not see what {}.{} writes", reader.layer,
        reader.head, writer.layer, writer.head);
  return {.layer = reader.layer,
          .head = reader.head,
          .q = reader.q.clone(),
          .k = read_through(reader.k, writer),
          .v = reader.v.clone(),
          .o = reader.o.clone(),
          .score_scale = reader.score_scale};
}

HeadMatrices virtual_head(const HeadMatrices& second, const HeadMatrices& first) {
  check(first.layer < second.layer, ErrorCode::usage, "head {}.{} does not see what {}.{} writes", second.layer,
        second.head, first.layer, first.head);
  return {.layer = second.layer,
          .head = second.head,
          .q = second.q.clone(),
          .k = second.k.clone(),
          .v = read_through(second.v, first),
          .o = second.o.clone(),
          .score_scale = second.score_scale};
}

std::vector<RotaryPlane> rotary_planes(const ModelConfig& config, const HeadMatrices& head) {
  if (config.positions != Positions::rotary) return {};
  const Index half = config.rotary_dim / 2;
  const auto row_inner = [](const TensorF64& a, Index i, Index j) {
    return dense::inner(a.view<2>().rows(i, 1), a.view<2>().rows(j, 1));
  };
  std::vector<RotaryPlane> planes;
  for (Index f = 0; f < half; ++f) {
    RotaryPlane plane;
    plane.first = config.rotary_adjacent ? 2 * f : f;
    plane.second = config.rotary_adjacent ? 2 * f + 1 : f + half;
    plane.theta = folding::table_of(config, head.layer).inv_freq[static_cast<std::size_t>(f)];
    const Index a = plane.first, b = plane.second;
    // ||a_q a_k^T + b_q b_k^T||^2 = |a_q|^2 |a_k|^2 + |b_q|^2 |b_k|^2 + 2 (a_q . b_q)(a_k . b_k), and alike for S.
    const double aq = row_inner(head.q, a, a), bq = row_inner(head.q, b, b), abq = row_inner(head.q, a, b);
    const double ak = row_inner(head.k, a, a), bk = row_inner(head.k, b, b), abk = row_inner(head.k, a, b);
    plane.cos_norm = std::sqrt(std::max(0.0, aq * ak + bq * bk + 2.0 * abq * abk));
    plane.sin_norm = std::sqrt(std::max(0.0, aq * bk + bq * ak - 2.0 * abq * abk));
    planes.push_back(plane);
  }
  return planes;
}

}  // namespace kirchhoff
