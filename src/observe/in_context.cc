#include "kirchhoff/observe/in_context.h"

#include <algorithm>  // for max, min
#include <cmath>      // for ceil, log, pow, sqrt

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/random.h"

namespace kirchhoff {
namespace {

/// The loss of a token of a window.
double loss_at(const std::vector<double>& window, Index token) { return window[static_cast<std::size_t>(token - 1)]; }

double mean_over(const std::vector<double>& window, const PositionBand& band) {
  double sum = 0.0;
  for (Index token = band.from; token < band.to; ++token) sum += loss_at(window, token);
  return sum / static_cast<double>(band.to - band.from);
}

}  // namespace

IclScore icl_score(std::span<const std::vector<double>> losses, Index late, Index early) {
  check(early >= 1 && late > early, ErrorCode::usage,
        "tokens {} and {}: the later one comes first, and nothing predicts token 0", late, early);
  IclScore result;
  result.late = late;
  result.early = early;
  WindowMean score, at_late, at_early;
  Index longest = 0;
  for (const std::vector<double>& window : losses) {
    longest = std::max(longest, static_cast<Index>(window.size()) + 1);
    if (static_cast<Index>(window.size()) < late) continue;
    ++result.windows;
    score.add(loss_at(window, late) - loss_at(window, early), 1);
    at_late.add(loss_at(window, late), 1);
    at_early.add(loss_at(window, early), 1);
  }
  check(result.windows > 0, ErrorCode::usage, "no window has a token {} (from 0): the longest has {} tokens", late,
        longest);
  result.score = score.mean();
  result.late_loss = at_late.mean();
  result.early_loss = at_early.mean();
  return result;
}

IclBands icl_bands(Index context) {
  check(context >= 32, ErrorCode::usage, "an in-context learning score needs windows of at least 32 tokens, not {}",
        context);
  return {{context / 16, context / 8}, {context - context / 8, context}};
}

BandedIclScore icl_score(std::span<const std::vector<double>> losses, const IclBands& bands) {
  const auto& [early, late] = bands;
  check(early.from >= 1 && early.from < early.to && early.to <= late.from && late.from < late.to, ErrorCode::usage,
        "bands of tokens [{}, {}) and [{}, {}): the first lies before the second, and nothing predicts token 0",
        early.from, early.to, late.from, late.to);
  BandedIclScore result{.early = early, .late = late, .score = {}};
  WindowMean score, at_early, at_late;
  for (const std::vector<double>& window : losses) {
    if (static_cast<Index>(window.size()) + 1 < late.to) continue;
    const double before = mean_over(window, early), after = mean_over(window, late);
    ++result.windows;
    score.add(after - before, 1);
    at_early.add(before, 1);
    at_late.add(after, 1);
  }
  check(result.windows > 0, ErrorCode::usage, "no window has {} tokens", late.to);
  result.score = score.mean();
  result.early_loss = at_early.mean().value;
  result.late_loss = at_late.mean().value;
  return result;
}

std::vector<PositionLoss> loss_by_position(std::span<const std::vector<double>> losses) {
  std::vector<WindowMean> means;
  std::vector<PositionLoss> result;
  for (const std::vector<double>& window : losses) {
    if (window.size() > means.size()) {
      means.resize(window.size());
      result.resize(window.size());
    }
    for (std::size_t i = 0; i < window.size(); ++i) {
      means[i].add(window[i], 1);
      ++result[i].windows;
    }
  }
  for (std::size_t i = 0; i < means.size(); ++i) {
    result[i].position = static_cast<Index>(i) + 1;
    result[i].loss = means[i].mean();
  }
  return result;
}

std::vector<PositionBin> loss_by_context(std::span<const PositionLoss> positions) {
  std::vector<PositionBin> bins;
  const Index end = positions.empty() ? 0 : positions.back().position + 1;
  for (Index half = 0, from = 1; from < end; ++half) {
    const auto to = std::min(end, static_cast<Index>(std::ceil(std::pow(2.0, static_cast<double>(half + 1) / 2.0))));
    if (to <= from) continue;
    PositionBin bin{from, to};
    for (Index p = from; p < to; ++p)
      bin.loss += positions[static_cast<std::size_t>(p - 1)].loss.value / static_cast<double>(to - from);
    bins.push_back(bin);
    from = to;
  }
  return with_slopes(std::move(bins));
}

std::vector<PositionBin> with_slopes(std::vector<PositionBin> bins) {
  for (PositionBin& bin : bins) {
    bin.log_position = 0.0;
    for (Index p = bin.from; p < bin.to; ++p)
      bin.log_position += std::log(static_cast<double>(p)) / static_cast<double>(bin.to - bin.from);
  }
  for (std::size_t i = 0; i + 1 < bins.size(); ++i)
    bins[i].slope = (bins[i + 1].loss - bins[i].loss) / (bins[i + 1].log_position - bins[i].log_position);
  return bins;
}

std::vector<ChosenToken> choose_tokens(std::span<const Tokens> windows, std::uint64_t seed) {
  Random random(seed);
  std::vector<ChosenToken> chosen;
  for (std::size_t w = 0; w < windows.size(); ++w) {
    const Index length = static_cast<Index>(windows[w].size());
    if (length > 1) chosen.push_back({static_cast<Index>(w), 1 + random.below(length - 1)});
  }
  return chosen;
}

std::vector<double> losses_of(std::span<const ChosenToken> chosen, std::span<const std::vector<double>> losses) {
  std::vector<double> vector;
  for (const ChosenToken& token : chosen)
    vector.push_back(loss_at(losses[static_cast<std::size_t>(token.window)], token.position));
  return vector;
}

std::vector<double> before_and_after(std::span<const double> start, std::span<const double> end) {
  check(start.size() == end.size(), ErrorCode::usage, "losses of {} and of {} tokens", start.size(), end.size());
  std::vector<double> u;
  double squares = 0.0;
  for (std::size_t i = 0; i < start.size(); ++i) {
    u.push_back(end[i] - start[i]);
    squares += u.back() * u.back();
  }
  check(squares > 0.0, ErrorCode::usage, "the losses before and after are the same: there is no direction of change");
  for (double& x : u) x /= std::sqrt(squares);
  return u;
}

double along_change(std::span<const double> u, std::span<const double> ablated, std::span<const double> own) {
  check(u.size() == ablated.size() && u.size() == own.size(), ErrorCode::usage, "losses of {}, {} and {} tokens",
        u.size(), ablated.size(), own.size());
  double sum = 0.0;
  for (std::size_t i = 0; i < u.size(); ++i) sum += u[i] * (ablated[i] - own[i]);
  return sum;
}

}  // namespace kirchhoff
