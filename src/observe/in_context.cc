#include "kirchhoff/observe/in_context.h"

#include <algorithm>  // for max, min
#include <cmath>      // for ceil, log, pow, sqrt

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/random.h"

namespace kirchhoff {
namespace {

/// The loss of a token of a window.
double loss_at(const std::vector<double>& window, Index token) { return window[static_cast<std::size_t>(token - 1)]; }

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
    for (Index p = from; p < to; ++p) {
      bin.loss += positions[static_cast<std::size_t>(p - 1)].loss.value / static_cast<double>(to - from);
      bin.log_position += std::log(static_cast<double>(p)) / static_cast<double>(to - from);
    }
    bins.push_back(bin);
    from = to;
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
