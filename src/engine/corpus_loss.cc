#include "kirchhoff/engine/corpus_loss.h"

#include <algorithm>  // for max, min
#include <cmath>      // for exp, log1p, sqrt
#include <numeric>    // for accumulate

#include "engine/weight_reader.h"
#include "kirchhoff/base/parallel.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/kernels/activations.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/kernels/softmax.h"

namespace kirchhoff {
namespace {

const float* bias_values(const WeightVector& b, float) { return b.f32_or_null(); }
const double* bias_values(const WeightVector& b, double) { return b.f64_or_null(); }

/// log(exp(a) + exp(b)); either may be -inf.
double log_add(double a, double b) {
  const double high = std::max(a, b);
  return std::isinf(high) ? high : high + std::log1p(std::exp(std::min(a, b) - high));
}

/// logits = softcap(scale * logits), as the model's own.
template <class Real>
void scale_and_cap_slice(const ModelConfig& config, View<Real, 2> logits) {
  if (config.logit_scale != 1.0)
    parallel_for(logits.dim[0], [&](Index row) {
      for (Real& value : logits.row(row)) value *= static_cast<Real>(config.logit_scale);
    });
  if (config.logit_softcap > 0.0) kernels::soft_cap(logits, config.logit_softcap);
}

}  // namespace

template <class Real>
std::vector<double> unembed_losses(const Model& model, View<const Real, 2> read, std::span<const TokenId> targets) {
  constexpr Index kSlice = 2048;
  const WeightMatrix& W_U = model.weights.W_U;
  const Index rows = read.dim[0], vocabulary = W_U.d_out();
  check(static_cast<Index>(targets.size()) == rows, ErrorCode::internal, "{} rows have {} targets", rows,
        targets.size());
  for (const TokenId target : targets)
    check(target >= 0 && target < vocabulary, ErrorCode::usage, "token {} is not in the output vocabulary of {} tokens",
          target, vocabulary);
  const Real* bias = bias_values(model.weights.b_U, Real{});
  std::vector<double> total(targets.size(), -INFINITY), slice_total(targets.size()), own(targets.size());
  auto buffer = BasicTensor<Real>::uninitialised({rows, std::min(kSlice, vocabulary)});
  engine::WeightReader reader;
  for (Index begin = 0; begin < vocabulary && rows > 0; begin += kSlice) {
    const Index count = std::min(kSlice, vocabulary - begin);
    const View<Real, 2> logits(buffer.data(), {rows, count});
    kernels::gemm(kernels::BasicGemmProblem<Real>{.a = read,
                                                  .b = transposed(reader.rows(W_U, begin, count)),
                                                  .c = logits,
                                                  .bias = bias == nullptr ? nullptr : bias + begin});
    scale_and_cap_slice(model.config, logits);
    kernels::log_sum_exp(View<const Real, 2>(logits), slice_total);
    for (std::size_t r = 0; r < targets.size(); ++r) {
      total[r] = log_add(total[r], slice_total[r]);
      if (const Index at = Index{targets[r]} - begin; at >= 0 && at < count)
        own[r] = static_cast<double>(logits(static_cast<Index>(r), at));
    }
  }
  for (std::size_t r = 0; r < targets.size(); ++r) total[r] -= own[r];
  return total;
}

void WindowMean::add(double sum, Index count) {
  if (count == 0) return;
  sum_ += sum;
  count_ += count;
  means_.push_back(sum / static_cast<double>(count));
}

MeanLoss WindowMean::mean() const {
  if (means_.empty()) return {};
  MeanLoss result{sum_ / static_cast<double>(count_), 0.0};
  const double n = static_cast<double>(means_.size());
  if (means_.size() < 2) return result;
  const double average = std::accumulate(means_.begin(), means_.end(), 0.0) / n;
  double squares = 0.0;
  for (const double m : means_) squares += (m - average) * (m - average);
  result.error = std::sqrt(squares / (n - 1.0) / n);
  return result;
}

void check_predicts_next(const ModelConfig& config, std::string_view what) {
  check(config.causal, ErrorCode::unsupported,
        "{} is not defined here, because the model sees later tokens: it does not predict the next one", what);
  check(config.d_vocab_out >= config.d_vocab, ErrorCode::unsupported,
        "{} is not defined here, because the model predicts other tokens ({}) than it reads ({})", what,
        config.d_vocab_out, config.d_vocab);
}

Index batch_of(std::span<const Tokens> windows, Index first, Index bytes, Index memory) {
  const std::size_t begin = static_cast<std::size_t>(first), length = windows[begin].size();
  const Index most = std::max<Index>(1, memory / std::max<Index>(1, bytes * static_cast<Index>(length)));
  std::size_t end = begin + 1;
  while (end < windows.size() && windows[end].size() == length && static_cast<Index>(end - begin) < most) ++end;
  return static_cast<Index>(end - begin);
}

std::vector<std::vector<double>> corpus_losses(const Model& model, std::span<const Tokens> windows,
                                               const CorpusLossOptions& options) {
  const ModelConfig& config = model.config;
  check_predicts_next(config, "a loss over a text");
  const Index bytes = static_cast<Index>(sizeof(float)) *
                      (6 * config.d_model + 3 * config.n_heads * config.d_head + 2 * config.d_mlp + 2048);
  const Index count = static_cast<Index>(windows.size());
  std::vector<std::vector<double>> losses;
  for (Index first = 0; first < count;) {
    report(options.progress, "loss", first, count);
    const Index batch = batch_of(windows, first, bytes, options.memory);
    const std::span<const Tokens> part =
        windows.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(batch));
    const Trace trace = run(model, part, {.capture = {site_name(Site::unembed_in)}, .logits = LogitPositions::none});
    const Tensor& read = trace.at(site_name(Site::unembed_in));  // [batch, pos, d_model]
    const Index length = static_cast<Index>(part.front().size());
    for (Index s = 0; s < batch; ++s)
      losses.push_back(unembed_losses(model, read.view<3>().at(s).rows(0, length - 1),
                                      std::span(part[static_cast<std::size_t>(s)]).subspan(1)));
    first += batch;
  }
  report(options.progress, "loss", count, count);
  return losses;
}

template std::vector<double> unembed_losses(const Model&, View<const float, 2>, std::span<const TokenId>);
template std::vector<double> unembed_losses(const Model&, View<const double, 2>, std::span<const TokenId>);

}  // namespace kirchhoff
