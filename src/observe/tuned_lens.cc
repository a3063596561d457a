#include "kirchhoff/observe/tuned_lens.h"

#include <algorithm>  // for clamp, max, min, swap
#include <cmath>      // for isfinite, sqrt
#include <numeric>    // for iota
#include <utility>    // for move

#include "kirchhoff/base/random.h"
#include "observe/logit_direction.h"
#include "observe/one_sequence.h"
#include "observe/translator_gradient.h"

namespace kirchhoff {
namespace {

using namespace observe;

/// Rows of logits that are held at once, four times: 128 MiB each at most.
Index rows_at_once(Index vocabulary) { return std::clamp<Index>((Index{1} << 23) / vocabulary, 16, 512); }

/// Calls each(layer, states of its input [rows, d_model], the model's distributions) for blocks of a window's
/// positions.
template <class Each>
void for_each_block(const Model& model, const Tokens& window, const Each& each) {
  const Trace trace = run(model, window, {.capture = {"blocks.*.hook_resid_pre"}, .logits = LogitPositions::all});
  const View<const float, 2> logits = trace.logits_of(0);
  const Index n = logits.dim[0], block = rows_at_once(logits.dim[1]);
  for (Index begin = 0; begin < n; begin += block) {
    const Index rows = std::min(block, n - begin);
    const LensTarget<float> target(logits.rows(begin, rows));
    for (Index layer = 0; layer < model.config.n_layers; ++layer)
      each(layer, trace.at(site_name(Site::resid_pre, layer)).view<3>().at(0).rows(begin, rows), target);
  }
}

TunedLens zeros_like(const TunedLens& lens) {
  TunedLens zeros;
  for (std::size_t l = 0; l < lens.W.size(); ++l) {
    zeros.W.emplace_back(lens.W[l].shape());
    zeros.b.emplace_back(lens.b[l].shape());
  }
  return zeros;
}

Index window_tokens(std::span<const Tokens> windows) {
  Index total = 0;
  for (const Tokens& window : windows) total += static_cast<Index>(window.size());
  return total;
}

}  // namespace

TunedLens zero_tuned_lens(const ModelConfig& config) {
  TunedLens lens;
  for (Index layer = 0; layer < config.n_layers; ++layer) {
    lens.W.emplace_back(Shape{config.d_model, config.d_model});
    lens.b.emplace_back(Shape{config.d_model});
  }
  return lens;
}

void check_fits(const TunedLens& lens, const ModelConfig& config) {
  const Index width = lens.b.empty() ? 0 : lens.b.front().dim(0);
  check(static_cast<Index>(lens.W.size()) == config.n_layers && width == config.d_model, ErrorCode::usage,
        "the tuned lens has {} translators of width {}; the model has {} layers of width {}", lens.W.size(), width,
        config.n_layers, config.d_model);
}

template <class Real>
std::vector<LensRow> tuned_lens(const Model& model, const BasicTrace<Real>& trace, const TunedLens& lens,
                                const LensOptions& options) {
  const ModelConfig& config = model.config;
  check_fits(lens, config);
  check(!options.mid && options.reading == LensReading::lens, ErrorCode::usage,
        "a tuned lens has translators for the inputs of layers alone, and one reading");
  const Index pos = resolve_position(options.pos, sequence_length(trace)), d = config.d_model;
  // A trace of one position with the translated states in it, which the logit lens reads.
  BasicTrace<Real> translated;
  translated.tokens = {{trace.tokens.front()[static_cast<std::size_t>(pos)]}};
  const auto put = [&](Site site, Index layer, auto&& change) {
    const std::span<const Real> x = at_position(trace, site, layer, pos);
    auto y = BasicTensor<Real>::uninitialised({1, 1, d});
    for (Index i = 0; i < d; ++i)
      y[i] = static_cast<Real>(static_cast<double>(x[static_cast<std::size_t>(i)]) + change(i, x));
    translated.sites.emplace(site_name(site, layer), std::move(y));
  };
  for (Index layer = 0; layer < config.n_layers; ++layer) {
    const Tensor &W = lens.W[static_cast<std::size_t>(layer)], &b = lens.b[static_cast<std::size_t>(layer)];
    put(Site::resid_pre, layer, [&](Index out, std::span<const Real> x) {
      double sum = static_cast<double>(b[out]);
      for (Index in = 0; in < d; ++in)
        sum += static_cast<double>(W[out * d + in]) * static_cast<double>(x[static_cast<std::size_t>(in)]);
      return sum;
    });
  }
  put(final_stream(config).site, final_stream(config).layer, [](Index, std::span<const Real>) { return 0.0; });
  LensOptions at = options;
  at.pos = 0;
  return logit_lens(model, translated, at);
}

template std::vector<LensRow> tuned_lens(const Model&, const Trace&, const TunedLens&, const LensOptions&);
template std::vector<LensRow> tuned_lens(const Model&, const TraceF64&, const TunedLens&, const LensOptions&);

std::vector<double> tuned_lens_divergence(const Model& model, const TunedLens& lens, std::span<const Tokens> windows,
                                          const Progress& progress) {
  check_fits(lens, model.config);
  check(!windows.empty(), ErrorCode::usage, "no window to compare the lens with the model on");
  Tensor scratch;
  const ConstMatrix W_U = storage_rows(model.weights.W_U, 0, model.weights.W_U.d_out(), scratch);
  std::vector<double> sums(lens.W.size(), 0.0);
  for (std::size_t w = 0; w < windows.size(); ++w) {
    report(progress, "divergence", static_cast<Index>(w), static_cast<Index>(windows.size()));
    for_each_block(model, windows[w], [&](Index layer, ConstMatrix x, const LensTarget<float>& target) {
      const auto l = static_cast<std::size_t>(layer);
      sums[l] += translator_loss(model, W_U, lens.W[l].view<2>(), lens.b[l].data(), x, target);
    });
  }
  for (double& sum : sums) sum /= static_cast<double>(window_tokens(windows));
  return sums;
}

TunedLensTrainer::TunedLensTrainer(const Model& model, std::span<const Tokens> windows,
                                   const TunedLensTraining& options)
    : model_(model), windows_(windows), options_(options), lens_(zero_tuned_lens(model.config)) {
  check(model.config.n_layers > 0, ErrorCode::unsupported, "a tuned lens needs a model with layers");
  check(!windows.empty(), ErrorCode::usage, "no window to train the lens on");
  for (const Tokens& window : windows) check(!window.empty(), ErrorCode::usage, "a window to train on is empty");
  check(options.steps >= 1 && options.step_tokens >= 1, ErrorCode::usage, "{} steps of {} tokens: at least one of each",
        options.steps, options.step_tokens);
  check(options.learning_rate > 0.0 && std::isfinite(options.learning_rate) && options.momentum >= 0.0 &&
            options.momentum < 1.0 && options.weight_decay >= 0.0 && options.clip > 0.0,
        ErrorCode::usage,
        "a learning rate of {}, momentum {}, weight decay {}, clip {}: a rate and clip above 0, momentum "
        "in [0, 1), decay at least 0",
        options.learning_rate, options.momentum, options.weight_decay, options.clip);
  velocity_ = zeros_like(lens_);
}

std::vector<std::size_t> TunedLensTrainer::windows_of(Index step) const {
  const auto n = static_cast<Index>(windows_.size());
  const Index longest = static_cast<Index>(windows_.front().size());
  const Index per_step = (options_.step_tokens + longest - 1) / longest;
  std::vector<std::size_t> chosen, order(windows_.size());
  Index epoch = -1;
  for (Index i = step * per_step; i < (step + 1) * per_step; ++i) {
    if (i / n != epoch) {  // each epoch has an order of its own, so that a step's windows depend on nothing before
      epoch = i / n;
      std::iota(order.begin(), order.end(), std::size_t{0});
      Random random(options_.seed + static_cast<std::uint64_t>(epoch));
      for (Index k = n - 1; k > 0; --k)
        std::swap(order[static_cast<std::size_t>(k)], order[static_cast<std::size_t>(random.below(k + 1))]);
    }
    chosen.push_back(order[static_cast<std::size_t>(i % n)]);
  }
  return chosen;
}

double TunedLensTrainer::advance() {
  check(!done(), ErrorCode::usage, "the training has made all of its {} steps", options_.steps);
  std::vector<Tokens> batch;
  for (const std::size_t w : windows_of(step_)) batch.push_back(windows_[w]);
  const double weight = 1.0 / static_cast<double>(window_tokens(batch));
  TunedLens gradient = zeros_like(lens_);
  std::vector<std::vector<double>> db(lens_.b.size(),
                                      std::vector<double>(static_cast<std::size_t>(model_.config.d_model), 0.0));
  const WeightMatrix& W_U = model_.weights.W_U;
  if (unembedding_.empty() && W_U.packed()) {
    unembedding_ = Tensor::uninitialised({W_U.d_out(), W_U.d_in()});
    W_U.rows(0, W_U.d_out(), unembedding_.data());
  }
  const ConstMatrix storage = W_U.packed() ? ConstMatrix(std::as_const(unembedding_).view<2>()) : W_U.storage();
  double loss = 0.0;
  for (const Tokens& window : batch)
    for_each_block(model_, window, [&](Index layer, ConstMatrix x, const LensTarget<float>& target) {
      throw_if_interrupted();
      const auto l = static_cast<std::size_t>(layer);
      const TranslatorGradient<float> into{gradient.W[l].view<2>(), db[l]};
      loss += translator_loss(model_, storage, std::as_const(lens_.W[l]).view<2>(), lens_.b[l].data(), x, target,
                              weight, &into);
    });
  for (std::size_t l = 0; l < db.size(); ++l)
    for (std::size_t i = 0; i < db[l].size(); ++i) gradient.b[l][static_cast<Index>(i)] = static_cast<float>(db[l][i]);
  apply(gradient);
  ++step_;
  return loss * weight / static_cast<double>(lens_.W.size());
}

void TunedLensTrainer::apply(const TunedLens& gradient) {
  double squares = 0.0;
  for (std::size_t l = 0; l < gradient.W.size(); ++l)
    for (const Tensor* tensor : {&gradient.W[l], &gradient.b[l]})
      for (const float g : tensor->values()) squares += static_cast<double>(g) * static_cast<double>(g);
  check(std::isfinite(squares), ErrorCode::numerical, "the gradients of step {} are not finite", step_);
  const double clip = std::min(1.0, options_.clip / (std::sqrt(squares) + 1e-6));
  const double rate = options_.learning_rate * (1.0 - options_.momentum) * static_cast<double>(options_.steps - step_) /
                      static_cast<double>(options_.steps);
  const auto update = [&](Tensor& parameter, Tensor& velocity, const Tensor& of) {
    for (Index i = 0; i < parameter.size(); ++i) {
      const double p = static_cast<double>(parameter[i]);
      const double g = static_cast<double>(of[i]) * clip + options_.weight_decay * p;
      velocity[i] = static_cast<float>(options_.momentum * static_cast<double>(velocity[i]) + g);
      parameter[i] = static_cast<float>(p - rate * (g + options_.momentum * static_cast<double>(velocity[i])));
    }
  };
  for (std::size_t l = 0; l < gradient.W.size(); ++l) {
    update(lens_.W[l], velocity_.W[l], gradient.W[l]);
    update(lens_.b[l], velocity_.b[l], gradient.b[l]);
  }
}

void TunedLensTrainer::restore(TunedLens lens, TunedLens velocity, Index step) {
  check_fits(lens, model_.config);
  check_fits(velocity, model_.config);
  check(step >= 0 && step <= options_.steps, ErrorCode::usage, "step {} of {}", step, options_.steps);
  lens_ = std::move(lens);
  velocity_ = std::move(velocity);
  step_ = step;
}

}  // namespace kirchhoff
