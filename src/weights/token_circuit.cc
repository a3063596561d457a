#include "kirchhoff/weights/token_circuit.h"

#include <algorithm>   // for copy, min
#include <cmath>       // for sqrt
#include <functional>  // for function

#include "kirchhoff/kernels/gemm.h"
#include "weights/folding.h"
#include "weights/token_vectors.h"

namespace kirchhoff {
namespace {

/// Tokens whose vectors are in memory at a time.
constexpr Index kTokens = 1024;

using Rows = std::function<void(Index begin, Index end, float* out)>;

/// rows directions^T: [count, d_head].
Tensor table(const Rows& rows, Index count, const TensorF64& directions, const Progress& progress) {
  const Index d_head = directions.dim(0), d_model = directions.dim(1);
  Tensor b = Tensor::uninitialised({d_head, d_model});
  std::transform(directions.data(), directions.data() + directions.size(), b.data(),
                 [](double x) { return static_cast<float>(x); });
  Tensor result = Tensor::uninitialised({count, d_head});
  Tensor block = Tensor::uninitialised({std::min(kTokens, count), d_model});
  for (Index begin = 0; begin < count; begin += kTokens) {
    const Index n = std::min(kTokens, count - begin);
    report(progress, "expand", begin, count);
    rows(begin, begin + n, block.data());
    kernels::gemm(kernels::GemmProblem{.a = ConstMatrix(block.data(), {n, d_model}),
                                       .b = transposed(ConstMatrix(b.view<2>())),
                                       .c = result.view<2>().rows(begin, n)});
  }
  report(progress, "expand", count, count);
  return result;
}

/// Each row of `x` divided by sqrt(mean(plain^2) + eps), plain: the same rows without the norm's gain and rotation.
void divide_by_rms(const Tensor& plain, double eps, Tensor& x) {
  const Index d = x.dim(1);
  for (Index r = 0; r < x.dim(0); ++r) {
    double square = 0.0;
    for (Index i = 0; i < d; ++i)
      square += static_cast<double>(plain[r * d + i]) * static_cast<double>(plain[r * d + i]);
    const double scale = 1.0 / std::sqrt(square / static_cast<double>(d) + eps);
    for (Index i = 0; i < d; ++i) x[r * d + i] = static_cast<float>(static_cast<double>(x[r * d + i]) * scale);
  }
}

void centre_over_rows(Tensor& x) {
  const Index n = x.dim(0), d = x.dim(1);
  std::vector<double> mean(static_cast<std::size_t>(d), 0.0);
  for (Index r = 0; r < n; ++r)
    for (Index i = 0; i < d; ++i) mean[static_cast<std::size_t>(i)] += static_cast<double>(x[r * d + i]);
  for (Index r = 0; r < n; ++r)
    for (Index i = 0; i < d; ++i)
      x[r * d + i] = static_cast<float>(static_cast<double>(x[r * d + i]) -
                                        mean[static_cast<std::size_t>(i)] / static_cast<double>(n));
}

enum class Side { query, key };

/// One side of a QK circuit: what queries or keys come from tokens or positions.
Tensor qk_side(const Model& model, const HeadMatrices& head, Side side, const CircuitOptions& options) {
  const ModelConfig& config = model.config;
  const auto directions = [side](const HeadMatrices& h) -> const TensorF64& { return side == Side::query ? h.q : h.k; };
  if ((side == Side::query ? options.query : options.key) == CircuitInput::position) {
    check(config.positions == Positions::learned || config.positions == Positions::shortformer, ErrorCode::usage,
          "positions are not vectors that this model adds: there is no circuit of positions");
    const Rows rows = [&](Index begin, Index end, float* out) { token_vectors::position_rows(model, begin, end, out); };
    if (config.positions == Positions::learned) return table(rows, config.n_ctx, directions(head), options.progress);
    const HeadMatrices plain = head_matrices(model, head.layer, head.head, {.raw = true});
    return table(rows, config.n_ctx, directions(plain), options.progress);
  }
  const Rows rows = [&](Index begin, Index end, float* out) {
    token_vectors::source_rows(model, options.form.raw, begin, end, out);
  };
  Tensor result = table(rows, config.d_vocab, directions(head), options.progress);
  if (config.qk_norm == QkNorm::per_head && !options.form.raw) {
    const HeadMatrices plain = folding::head_matrices(model, head.layer, head.head, {.raw = false, .offset = 0}, false);
    divide_by_rms(table(rows, config.d_vocab, directions(plain), options.progress), config.norm_eps, result);
  }
  return result;
}

}  // namespace

FactoredMatrix TokenCircuit::factored() const {
  TensorF64 l = TensorF64::uninitialised(left.shape());
  std::copy(left.data(), left.data() + left.size(), l.data());
  TensorF64 r = TensorF64::uninitialised({right.dim(1), right.dim(0)});
  for (Index j = 0; j < right.dim(0); ++j)
    for (Index i = 0; i < right.dim(1); ++i) r[i * right.dim(0) + j] = static_cast<double>(right[j * right.dim(1) + i]);
  return {std::move(l), std::move(r)};
}

TokenCircuit token_circuit(const Model& model, const HeadMatrices& head, CircuitKind kind,
                           const CircuitOptions& options) {
  const ModelConfig& config = model.config;
  const bool raw = options.form.raw;
  TokenCircuit circuit;
  circuit.kind = kind;
  if (kind == CircuitKind::ov) {
    circuit.left =
        table([&](Index begin, Index end, float* out) { token_vectors::source_rows(model, raw, begin, end, out); },
              config.d_vocab, head.v, options.progress);
    circuit.right =
        table([&](Index begin, Index end, float* out) { token_vectors::logit_rows(model, raw, begin, end, out); },
              config.d_vocab_out, head.o, options.progress);
  } else {
    circuit.left = qk_side(model, head, Side::query, options);
    circuit.right = qk_side(model, head, Side::key, options);
    for (float& x : circuit.left.values()) x = static_cast<float>(static_cast<double>(x) * head.score_scale);
  }
  circuit.centred = options.centre && !raw;
  if (circuit.centred) centre_over_rows(circuit.right);
  return circuit;
}

std::vector<std::string> circuit_notes(const Model& model, CircuitKind kind, const CircuitOptions& options) {
  const ModelConfig& config = model.config;
  std::vector<std::string> notes = head_form_notes(model, options.form, kind == CircuitKind::qk);
  const bool qk = kind == CircuitKind::qk;
  const bool of_positions = qk && (options.query == CircuitInput::position || options.key == CircuitInput::position),
             of_tokens = !qk || options.query == CircuitInput::token || options.key == CircuitInput::token;
  if (of_positions)
    notes.emplace_back(of_tokens ? "one side are tokens, one positions: the other three parts of a score are left out"
                                 : "positions alone: what tokens contribute is left out");
  else if (config.positions == Positions::learned || (qk && config.positions == Positions::shortformer))
    notes.emplace_back("tokens alone: what positions contribute is left out");
  if (options.form.raw) return notes;
  const bool norm = config.norm != NormKind::none;
  if (norm && config.pre_norm && of_tokens)
    notes.push_back("embeddings are divided as the norm divides them when the stream holds nothing else");
  if (norm && config.pre_norm && of_positions && config.positions == Positions::learned)
    notes.push_back("position vectors are not divided by a norm: their circuit is theirs up to a factor for each");
  if (!qk && norm && config.final_norm)
    notes.push_back(
        "the final norm's gain is folded into W_U; its divisor is left out, so rows are logits up to a factor");
  if (qk && config.qk_norm == QkNorm::per_head)
    notes.push_back("queries and keys are divided by their own q/k norm, token by token");
  if (options.centre)
    notes.push_back(!qk ? "each row has its mean over the output vocabulary subtracted"
                        : "each query's row has its mean over the keys subtracted");
  return notes;
}

}  // namespace kirchhoff
