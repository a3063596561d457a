#include "kirchhoff/observe/term_importance.h"

#include <algorithm>  // for max, min
#include <cmath>      // for abs, log, pow, sqrt
#include <numeric>    // for accumulate

#include "kirchhoff/engine/corpus_loss.h"
#include "kirchhoff/engine/sites.h"
#include "observe/graded_streams.h"

namespace kirchhoff {
namespace {

using observe::GradedStreams;

struct SplitMeans {
  WindowMean alone, added;
};

Trace run_windows(const Model& model, std::span<const Tokens> windows, const RunOptions& options, float) {
  return run(model, windows, options);
}
TraceF64 run_windows(const Model& model, std::span<const Tokens> windows, const RunOptions& options, double) {
  return run_f64(model, windows, options);
}

double binomial(Index n, Index k) {
  double result = 1.0;
  for (Index i = 1; i <= k; ++i) result = result * static_cast<double>(n - k + i) / static_cast<double>(i);
  return result;
}

double terms_of(const ModelConfig& config, Index order) {
  return binomial(config.n_layers, order) * std::pow(static_cast<double>(config.n_heads), static_cast<double>(order));
}

template <class Real>
class TermMeter {
 public:
  TermMeter(const Model& model, std::span<const Tokens> windows, const TermOptions& options)
      : model_(model), config_(model.config), windows_(windows), options_(options) {
    check_predicts_next(config_, "term importance");
    check(!windows.empty(), ErrorCode::usage, "there is no window of tokens");
    for (const Tokens& window : windows)
      check(window.size() > 1, ErrorCode::usage, "a window of one token predicts nothing");
    top_ = options.order < 0 ? config_.n_layers : std::min(options.order, config_.n_layers);
    check(top_ > 0 || (!options.by_layer && options.by_head.empty()), ErrorCode::usage,
          "layers and heads split the terms of order 1, and only order 0 is told apart");
    for (const auto& [layer, head] : options.by_head)
      check(layer >= 0 && layer < config_.n_layers && head >= 0 && head < config_.n_heads, ErrorCode::usage,
            "head {}.{} is not in a model of {} layers with {} heads", layer, head, config_.n_layers, config_.n_heads);
    if (options.by_layer)
      for (Index layer = 0; layer < config_.n_layers; ++layer) splits_.emplace_back(layer, -1);
    splits_.insert(splits_.end(), options.by_head.begin(), options.by_head.end());
    slots_ = top_ + 1 + (top_ < config_.n_layers);
    losses_.resize(static_cast<std::size_t>(slots_));
    marginals_.resize(losses_.size());
    split_means_.resize(splits_.size());
  }

  TermImportance measure() {
    const Index count = static_cast<Index>(windows_.size());
    for (Index first = 0; first < count;) {
      report(options_.progress, "terms", first, count);
      const Index length = static_cast<Index>(windows_[static_cast<std::size_t>(first)].size());
      const Index bytes =
          static_cast<Index>(sizeof(Real)) * (GradedStreams<Real>::numbers_per_token(config_, top_, length) + 2048);
      const Index batch = batch_of(windows_, first, bytes, options_.memory);
      measure(windows_.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(batch)), first);
      first += batch;
    }
    report(options_.progress, "terms", count, count);
    return summary();
  }

 private:
  /// One batch of windows of one length.
  void measure(std::span<const Tokens> batch, Index first) {
    const Index count = static_cast<Index>(windows_.size());
    length_ = static_cast<Index>(batch.front().size());
    RunOptions options{.capture = GradedStreams<Real>::sites(config_), .logits = LogitPositions::none};
    options.capture.push_back(site_name(final_stream(config_)));
    options.capture.push_back(site_name(Site::unembed_in));
    const BasicTrace<Real> trace = run_windows(model_, batch, options, Real{});
    GradedStreams<Real> streams(model_, trace, top_, options_.norms == TermNorms::recomputed);
    streams.sweep();
    report(options_.progress, "terms", first, count);
    close(streams.stream(slots_ - 1), trace.at(site_name(final_stream(config_))));

    const Index rows = static_cast<Index>(batch.size()) * length_;
    const View<const Real, 2> read(trace.at(site_name(Site::unembed_in)).data(), {rows, config_.d_model});
    add(full_, losses_of(batch, read));

    std::vector<double> before(batch.size(), std::log(static_cast<double>(config_.d_vocab_out)));
    std::vector<std::vector<double>> by_order;
    auto normed = BasicTensor<Real>::uninitialised({rows, config_.d_model});
    const auto of_stream = [&](View<const Real, 2> stream) {
      report(options_.progress, "terms", first, count);
      streams.final_norm(stream, normed.template view<2>());
      return losses_of(batch, normed.template view<2>());
    };
    for (Index slot = 0; slot < slots_; ++slot) {
      const std::vector<double> now = of_stream(streams.stream(slot));
      add(losses_[static_cast<std::size_t>(slot)], now);
      add(marginals_[static_cast<std::size_t>(slot)], difference(before, now));
      before = now;
      by_order.push_back(now);
    }
    if (splits_.empty()) return;
    auto part = BasicTensor<Real>::uninitialised({rows, config_.d_model});
    auto stream = BasicTensor<Real>::uninitialised({rows, config_.d_model});
    for (std::size_t i = 0; i < splits_.size(); ++i) {
      streams.first_order(splits_[i].first, splits_[i].second, part.template view<2>());
      const auto with = [&](Index order, Real sign) {
        const View<const Real, 2> from = streams.stream(order);
        for (Index j = 0; j < stream.size(); ++j) stream[j] = from.data[j] + sign * part[j];
        return of_stream(stream.template view<2>());
      };
      add(split_means_[i].alone, difference(by_order[0], with(0, Real{1})));
      add(split_means_[i].added, difference(with(1, Real{-1}), by_order[1]));
    }
  }

  /// The mean loss of each window, from what the unembedding reads at all of their positions.
  std::vector<double> losses_of(std::span<const Tokens> batch, View<const Real, 2> read) const {
    Tokens targets;  // of each position; the last ones of windows have none, and theirs is not counted
    for (const Tokens& window : batch) {
      targets.insert(targets.end(), window.begin() + 1, window.end());
      targets.push_back(0);
    }
    const std::vector<double> losses = unembed_losses(model_, read, targets);
    std::vector<double> means;
    for (std::size_t w = 0; w < batch.size(); ++w) {
      const auto begin = losses.begin() + static_cast<std::ptrdiff_t>(w) * length_;
      means.push_back(std::accumulate(begin, begin + length_ - 1, 0.0) / static_cast<double>(length_ - 1));
    }
    return means;
  }

  static std::vector<double> difference(const std::vector<double>& a, const std::vector<double>& b) {
    std::vector<double> result(a);
    for (std::size_t i = 0; i < b.size(); ++i) result[i] -= b[i];
    return result;
  }

  void add(WindowMean& mean, const std::vector<double>& windows) const {
    for (const double value : windows) mean.add(value * static_cast<double>(length_ - 1), length_ - 1);
  }

  void close(View<const Real, 2> stream, const BasicTensor<Real>& own) {
    double size = 0.0, off = 0.0;
    for (Index i = 0; i < own.size(); ++i) {
      size = std::max(size, std::abs(static_cast<double>(own[i])));
      off = std::max(off, std::abs(static_cast<double>(stream.data[i]) - static_cast<double>(own[i])));
    }
    closure_ = std::max(closure_, size > 0.0 ? off / size : off);
    check(closure_ <= 1e-3, ErrorCode::numerical,
          "the terms do not sum to the model's stream: they differ by {:.1e} of it", closure_);
  }

  TermImportance summary() const {
    TermImportance result;
    result.norms = options_.norms;
    result.uniform = std::log(static_cast<double>(config_.d_vocab_out));
    for (Index order = 0; order <= top_; ++order) result.orders.push_back(order_of(order));
    result.longer.order = top_ + 1;
    if (slots_ > top_ + 1) {
      result.longer = order_of(top_ + 1);
      result.longer.terms = 0.0;
      for (Index order = top_ + 1; order <= config_.n_layers; ++order) result.longer.terms += terms_of(config_, order);
    } else {
      result.longer.loss = result.orders.back().loss;
    }
    result.full = full_.mean();
    for (std::size_t i = 0; i < splits_.size(); ++i) {
      const auto [layer, head] = splits_[i];
      TermSplit split{fmt::format("a{}", layer),   layer, head, 1.0, split_means_[i].alone.mean(),
                      split_means_[i].added.mean()};
      if (head < 0) split.terms = static_cast<double>(config_.n_heads);
      if (head >= 0) split.node += fmt::format(".h{}", head);
      (head < 0 ? result.layers : result.heads).push_back(std::move(split));
    }
    result.closure = closure_;
    result.windows = static_cast<Index>(windows_.size());
    for (const Tokens& window : windows_) result.predictions += static_cast<Index>(window.size()) - 1;
    result.cost = cost();
    return result;
  }

  TermOrder order_of(Index order) const {
    const auto slot = static_cast<std::size_t>(order);
    return {order, terms_of(config_, order), losses_[slot].mean(), marginals_[slot].mean()};
  }

  TermCost cost() const {
    TermCost cost;
    cost.forwards = 1;
    for (Index layer = 0; layer < config_.n_layers; ++layer) {
      const Index distinct = std::min(layer + 1, slots_);
      cost.attention_layers += distinct - (distinct > top_ + 1);
    }
    cost.unembeddings = slots_ + 2 * static_cast<Index>(splits_.size());
    // Multiplications and additions a token; attention reads half of the longest window on average.
    double length = 0.0;
    for (const Tokens& window : windows_) length = std::max(length, static_cast<double>(window.size()));
    const auto d = static_cast<double>(config_.d_model), heads = static_cast<double>(config_.n_heads * config_.d_head),
               values = static_cast<double>(config_.n_kv_heads * config_.d_head),
               mlp = config_.attn_only ? 0.0 : static_cast<double>(config_.d_mlp) * (config_.gated_mlp ? 3.0 : 2.0);
    const double moving = d * values + heads * d + heads * length / 2.0,
                 scoring = d * values + d * heads + heads * length / 2.0;
    const double unembedding = d * static_cast<double>(config_.d_vocab_out);
    const double forward = static_cast<double>(config_.n_layers) * (moving + scoring + d * mlp) + unembedding;
    // The model's own unembedding is inside the forward. A split also multiplies with W_O.
    cost.equivalent = 1.0 + (static_cast<double>(cost.attention_layers) * moving +
                             static_cast<double>(cost.unembeddings) * unembedding) /
                                forward;
    return cost;
  }

  const Model& model_;
  const ModelConfig& config_;
  std::span<const Tokens> windows_;
  const TermOptions& options_;
  Index top_ = 0, slots_ = 0;
  Index length_ = 0;                            ///< of the windows of the batch
  std::vector<WindowMean> losses_, marginals_;  ///< by order, the whole model last
  WindowMean full_;
  std::vector<std::pair<Index, Index>> splits_;  ///< layer, head or -1
  std::vector<SplitMeans> split_means_;
  double closure_ = 0.0;
};

}  // namespace

std::string_view name(TermNorms norms) { return norms == TermNorms::frozen ? "frozen" : "recomputed"; }

TermImportance term_importance(const Model& model, std::span<const Tokens> windows, const TermOptions& options) {
  return TermMeter<float>(model, windows, options).measure();
}

TermImportance term_importance_f64(const Model& model, std::span<const Tokens> windows, const TermOptions& options) {
  return TermMeter<double>(model, windows, options).measure();
}

}  // namespace kirchhoff
