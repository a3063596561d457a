#include "weights/token_vectors.h"

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/kernels/norm.h"

namespace kirchhoff::token_vectors {
namespace {

constexpr Index kBlock = 64;

void normalise(NormKind kind, double eps, const NormWeights* weights, Matrix x) {
  if (kind == NormKind::none) return;
  kernels::NormProblem<float> problem{.x = x, .out = x};
  problem.eps = eps;
  if (weights != nullptr) {
    problem.gain = weights->w.f32_or_null();
    problem.bias = weights->b.f32_or_null();
  }
  if (kind == NormKind::layer_norm)
    kernels::layer_norm(problem);
  else
    kernels::rms_norm(problem);
}

/// Rows of a matrix's storage, each block followed by `finish(block)`.
template <class Finish>
void blocks_of(const WeightMatrix& W, Index begin, Index end, float* out, const Finish& finish) {
  const Index d = W.d_in();
  parallel_for_blocks(end - begin, kBlock, [&](Index first, Index last) {
    float* rows = out + first * d;
    W.rows(begin + first, begin + last, rows);
    finish(Matrix(rows, {last - first, d}));
  });
}

/// Embeddings as the stream holds them, then divided as a norm does if `divided`.
void embedded_rows(const Model& model, bool raw, bool divided, Index begin, Index end, float* out) {
  const ModelConfig& config = model.config;
  blocks_of(model.weights.W_E, begin, end, out, [&](Matrix x) {
    if (raw) return;
    const auto scale = static_cast<float>(config.embed_scale);
    for (Index i = 0; i < x.size(); ++i) x.data[i] *= scale;
    if (config.embed_norm) normalise(config.norm, config.norm_eps, &model.weights.ln_embed, x);
    if (divided) normalise(config.norm, config.norm_eps, nullptr, x);
  });
}

}  // namespace

void stream_rows(const Model& model, bool raw, Index begin, Index end, float* out) {
  embedded_rows(model, raw, false, begin, end, out);
}

void source_rows(const Model& model, bool raw, Index begin, Index end, float* out) {
  embedded_rows(model, raw, model.config.pre_norm, begin, end, out);
}

void direct_rows(const Model& model, bool raw, Index begin, Index end, float* out) {
  embedded_rows(model, raw, model.config.final_norm, begin, end, out);
}

void position_rows(const Model& model, Index begin, Index end, float* out) {
  blocks_of(model.weights.W_pos, begin, end, out, [](Matrix) {});
}

void logit_rows(const Model& model, bool raw, Index begin, Index end, float* out) {
  const ModelConfig& config = model.config;
  const bool norm = config.final_norm && config.norm != NormKind::none;
  const std::vector<double>& gain = model.weights.ln_final.w.f64();
  blocks_of(model.weights.W_U, begin, end, out, [&](Matrix x) {
    if (raw) return;
    const auto d = static_cast<std::size_t>(x.dim[1]);
    for (Index r = 0; r < x.dim[0]; ++r) {
      const std::span<float> row = x.row(r);
      double sum = 0.0;
      std::vector<double> folded(d);
      for (std::size_t i = 0; i < d; ++i) {
        folded[i] = config.logit_scale * static_cast<double>(row[i]) * (norm && !gain.empty() ? gain[i] : 1.0);
        sum += folded[i];
      }
      const double mean = norm && config.norm == NormKind::layer_norm ? sum / static_cast<double>(d) : 0.0;
      for (std::size_t i = 0; i < d; ++i) row[i] = static_cast<float>(folded[i] - mean);
    }
  });
}

}  // namespace kirchhoff::token_vectors
