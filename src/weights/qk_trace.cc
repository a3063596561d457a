#include "kirchhoff/weights/qk_trace.h"

#include <algorithm>  // for min

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/kernels/gemm.h"
#include "weights/dense.h"
#include "weights/token_vectors.h"

namespace kirchhoff {
namespace {

/// sum over tokens of E_t^T E_t, [d_model, d_model]: float products of blocks of tokens, summed in double.
TensorF64 source_gram(const Model& model, bool raw, const Progress& progress) {
  constexpr Index kTokensOfBlock = 2048;
  const Index d = model.config.d_model, n = model.config.d_vocab, most = std::min(kTokensOfBlock, n);
  TensorF64 gram({d, d});
  Tensor source = Tensor::uninitialised({most, d}), part({d, d});
  for (Index begin = 0; begin < n; begin += most) {
    const Index count = std::min(most, n - begin);
    report(progress, "vocabulary", begin, n);
    token_vectors::source_rows(model, raw, begin, begin + count, source.data());
    const ConstMatrix e(source.data(), {count, d});
    kernels::gemm(kernels::GemmProblem{.a = transposed(e), .b = e, .c = part.view<2>()});
    for (Index i = 0; i < gram.size(); ++i) gram[i] += static_cast<double>(part[i]);
  }
  report(progress, "vocabulary", n, n);
  return gram;
}

}  // namespace

std::vector<double> qk_traces(const Model& model, std::span<const double> previous, const HeadForm& form,
                              const Progress& progress) {
  const ModelConfig& config = model.config;
  const Index heads = config.n_heads, d = config.d_model;
  check(static_cast<Index>(previous.size()) == config.n_layers * heads, ErrorCode::usage,
        "{} previous-token scores for {} heads", previous.size(), config.n_layers * heads);
  const TensorF64 gram = source_gram(model, form.raw, progress);
  TensorF64 moved({d, d});  // sum over earlier heads of previous W_O^T W_V^T = previous (W_OV)^T
  std::vector<double> traces(previous.size(), 0.0);
  for (Index layer = 0; layer < config.n_layers; ++layer) {
    report(progress, "traces", layer, config.n_layers);
    const TensorF64 through = layer > 0 ? dense::product(moved.view<2>(), gram.view<2>()) : TensorF64({d, d});
    for (Index head = 0; head < heads; ++head) {
      const HeadMatrices matrices = head_matrices(model, layer, head, form);  // rows [d_head, d_model]
      const auto at = static_cast<std::size_t>(layer * heads + head);
      if (layer > 0) {  // tr(W_Q W_K^T moved G) = sum of W_Q^T o (W_K^T moved G)
        const TensorF64 keys = dense::product(matrices.k.view<2>(), through.view<2>());
        for (Index i = 0; i < keys.size(); ++i) traces[at] += matrices.q[i] * keys[i];
      }
      if (layer + 1 == config.n_layers) continue;
      const TensorF64 own = dense::product(transposed(matrices.o.view<2>()), matrices.v.view<2>());
      for (Index i = 0; i < moved.size(); ++i) moved[i] += previous[at] * own[i];
    }
  }
  report(progress, "traces", config.n_layers, config.n_layers);
  return traces;
}

}  // namespace kirchhoff
