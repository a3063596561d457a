#include "weights/stream_rows.h"

#include <algorithm>  // for copy, min
#include <memory>     // for make_shared

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/kernels/gemm.h"
#include "weights/dense.h"
#include "weights/folding.h"
#include "weights/token_vectors.h"

namespace kirchhoff::stream_rows {
namespace {

constexpr Index kRowsAtATime = 2048;

/// Rows that lie in memory as a whole.
Rows stored(Axis axis, TensorF64 rows) {
  const Index count = rows.dim(0), d = rows.dim(1);
  const auto shared = std::make_shared<TensorF64>(std::move(rows));
  return {.axis = axis, .count = count, .block = [shared, d](Index begin, Index end, float* out) {
            std::transform(shared->data() + begin * d, shared->data() + end * d, out,
                           [](double x) { return static_cast<float>(x); });
          }};
}

/// x^T y of a head's x and y [d_head, d_model], block by block.
Rows head_product(Axis axis, TensorF64 x, TensorF64 y) {
  struct Factors {
    TensorF64 x, y;
  };
  const Index d = x.dim(1);
  const auto factors = std::make_shared<Factors>(Factors{std::move(x), std::move(y)});
  return {.axis = axis, .count = d, .block = [factors](Index begin, Index end, float* out) {
            const View<const double, 2> columns = transposed(factors->x.view<2>()).rows(begin, end - begin);
            const TensorF64 product = dense::product(columns, factors->y.view<2>());
            std::transform(product.data(), product.data() + product.size(), out,
                           [](double value) { return static_cast<float>(value); });
          }};
}

/// Rows of an MLP's W_out, [d_mlp, d_model]: columns of its storage.
TensorF64 written_neurons(const Model& model, Index layer, bool raw) {
  const ModelConfig& config = model.config;
  const LayerWeights& weights = model.weights.layers[static_cast<std::size_t>(layer)];
  const WeightMatrix& W = weights.W_out;
  const Index d = W.d_out(), n = W.d_in();
  TensorF64 rows = TensorF64::uninitialised({n, d});
  std::vector<float> storage(static_cast<std::size_t>(n));
  for (Index m = 0; m < d; ++m) {
    W.rows(m, m + 1, storage.data());
    for (Index i = 0; i < n; ++i) rows[i * d + m] = static_cast<double>(storage[static_cast<std::size_t>(i)]);
  }
  if (raw) return rows;
  if (weights.mlp_ln_w.present())
    for (Index i = 0; i < n; ++i)
      for (Index m = 0; m < d; ++m) rows[i * d + m] *= weights.mlp_ln_w.f64()[static_cast<std::size_t>(i)];
  if (config.post_norm && config.norm != NormKind::none) {
    if (config.norm == NormKind::layer_norm) folding::centre_rows(rows.view<2>());
    folding::scale_columns(weights.ln2_post.w, rows.view<2>());
  }
  if (folding::readers_subtract_mean(config)) folding::centre_rows(rows.view<2>());
  return rows;
}

TensorF64 read_neurons(const Model& model, Index layer, bool gate, bool raw) {
  const ModelConfig& config = model.config;
  const LayerWeights& weights = model.weights.layers[static_cast<std::size_t>(layer)];
  const WeightMatrix& W = gate ? weights.W_gate : weights.W_in;
  Tensor storage = Tensor::uninitialised({W.d_out(), W.d_in()});
  W.rows(0, W.d_out(), storage.data());
  TensorF64 rows = TensorF64::uninitialised(storage.shape());
  std::copy(storage.data(), storage.data() + storage.size(), rows.data());
  if (!raw && config.pre_norm)
    folding::fold_reader(config.norm, config.shared_norm ? weights.ln1 : weights.ln2, rows.view<2>());
  return rows;
}

Rows unembedding(const Model& model, bool raw) {
  const Index n = model.config.d_vocab_out, d = model.config.d_model;
  Rows rows{.axis = Axis::out_token, .count = n, .block = [&model, raw](Index begin, Index end, float* out) {
              token_vectors::logit_rows(model, raw, begin, end, out);
            }};
  if (raw) return rows;
  std::vector<double> mean(static_cast<std::size_t>(d), 0.0);
  Tensor block = Tensor::uninitialised({std::min(kRowsAtATime, n), d});
  for (Index begin = 0; begin < n; begin += kRowsAtATime) {
    const Index count = std::min(kRowsAtATime, n - begin);
    rows.block(begin, begin + count, block.data());
    for (Index r = 0; r < count; ++r)
      for (Index i = 0; i < d; ++i) mean[static_cast<std::size_t>(i)] += static_cast<double>(block[r * d + i]);
  }
  for (double& x : mean) x /= static_cast<double>(n);
  rows.mean = std::move(mean);
  return rows;
}

}  // namespace

void check_party(const ModelConfig& config, const Party& party, bool writes) {
  const auto refuse = [&](bool absent, const char* why) {
    check(!absent, ErrorCode::usage, "'{}' {} the stream of this model: {}", node(party),
          writes ? "does not write into" : "does not read from", why);
  };
  switch (party.kind) {
    case PartyKind::embed:
      return refuse(!writes, "it only writes");
    case PartyKind::pos:
      refuse(!writes, "it only writes");
      return refuse(config.positions != Positions::learned, "no position vectors are added to it");
    case PartyKind::unembed:
      return refuse(writes, "it only reads");
    case PartyKind::mlp:
      refuse(config.attn_only, "it has no MLPs");
      return refuse(party.layer < 0 || party.layer >= config.n_layers, "there is no such layer");
    case PartyKind::head:
      return;  // head_matrices looks
  }
}

Rows written_rows(const Model& model, const Party& party, const HeadForm& form) {
  check_party(model.config, party, true);
  const bool raw = form.raw;
  switch (party.kind) {
    case PartyKind::pos: {
      TensorF64 rows({model.config.n_ctx, model.config.d_model});
      Tensor positions(rows.shape());
      token_vectors::position_rows(model, 0, model.config.n_ctx, positions.data());
      std::copy(positions.data(), positions.data() + positions.size(), rows.data());
      if (!raw && folding::readers_subtract_mean(model.config)) folding::centre_rows(rows.view<2>());
      return stored(Axis::position, std::move(rows));
    }
    case PartyKind::head: {
      HeadMatrices head = head_matrices(model, party.chain, {.raw = raw, .offset = 0});
      return head_product(Axis::stream, std::move(head.v), std::move(head.o));
    }
    case PartyKind::mlp:
      return stored(Axis::neuron, written_neurons(model, party.layer, raw));
    case PartyKind::embed:
    case PartyKind::unembed:
      break;
  }
  return {
      .axis = Axis::token, .count = model.config.d_vocab, .block = [&model, raw](Index begin, Index end, float* out) {
        token_vectors::source_rows(model, raw, begin, end, out);
      }};
}

Rows read_rows(const Model& model, const Party& party, StreamInput input, const HeadForm& form) {
  check_party(model.config, party, false);
  if (party.kind == PartyKind::unembed) return unembedding(model, form.raw);
  if (party.kind == PartyKind::mlp)
    return stored(Axis::neuron, read_neurons(model, party.layer, input == StreamInput::gate, form.raw));
  HeadMatrices head = head_matrices(model, party.chain, form);
  // W_QK = q^T k is read as rows of its transpose, k^T q.
  if (input == StreamInput::q) return head_product(Axis::stream, std::move(head.k), std::move(head.q));
  if (input == StreamInput::k) return head_product(Axis::stream, std::move(head.q), std::move(head.k));
  return head_product(Axis::written, std::move(head.o), std::move(head.v));
}

TensorF64 gram(const Rows& rows, Index d_model) {
  TensorF64 sum({d_model, d_model});
  Tensor block = Tensor::uninitialised({std::min(kRowsAtATime, rows.count), d_model}), part({d_model, d_model});
  for (Index begin = 0; begin < rows.count; begin += kRowsAtATime) {
    throw_if_interrupted();
    const Index count = std::min(kRowsAtATime, rows.count - begin);
    rows.block(begin, begin + count, block.data());
    const ConstMatrix x(block.data(), {count, d_model});
    kernels::gemm(kernels::GemmProblem{.a = transposed(x), .b = x, .c = part.view<2>()});
    for (Index i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(part[i]);
  }
  if (rows.mean.empty()) return sum;
  for (Index i = 0; i < d_model; ++i)
    for (Index j = 0; j < d_model; ++j)
      sum[i * d_model + j] -= static_cast<double>(rows.count) * rows.mean[static_cast<std::size_t>(i)] *
                              rows.mean[static_cast<std::size_t>(j)];
  return sum;
}

std::vector<float> along(const Rows& rows, std::span<const double> direction) {
  const auto d = static_cast<Index>(direction.size());
  std::vector<float> values(static_cast<std::size_t>(rows.count));
  Tensor block = Tensor::uninitialised({std::min(kRowsAtATime, rows.count), d});
  double offset = 0.0;
  for (std::size_t i = 0; i < rows.mean.size(); ++i) offset += rows.mean[i] * direction[i];
  for (Index begin = 0; begin < rows.count; begin += kRowsAtATime) {
    const Index count = std::min(kRowsAtATime, rows.count - begin);
    rows.block(begin, begin + count, block.data());
    parallel_for_blocks(count, 64, [&](Index first, Index last) {
      for (Index r = first; r < last; ++r) {
        double sum = -offset;
        for (Index i = 0; i < d; ++i)
          sum += static_cast<double>(block[r * d + i]) * direction[static_cast<std::size_t>(i)];
        values[static_cast<std::size_t>(begin + r)] = static_cast<float>(sum);
      }
    });
  }
  return values;
}

}  // namespace kirchhoff::stream_rows
