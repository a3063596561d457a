#include "kirchhoff/engine/metric.h"

#include <cmath>  // for exp, log

#include "engine/support.h"
#include "kirchhoff/engine/loss.h"

namespace kirchhoff {
namespace {

/// A trace of one sequence of three tokens over a vocabulary of three, whose last logits are ln 1, ln 2, ln 5.
TraceF64 hand_worked() {
  TraceF64 trace;
  trace.tokens = {{0, 1, 2}};
  trace.logits = TensorF64({1, 3, 3});
  const double logits[] = {0, 0, 0, std::log(2.0), 0, 0, 0, std::log(2.0), std::log(5.0)};
  std::copy(logits, logits + 9, trace.logits.data());
  return trace;
}

TEST(Metric, ValuesByHand) {
  const TraceF64 trace = hand_worked();
  const auto value = [&](const Metric& metric) { return metric.values(trace).at(0); };
  const double ln2 = std::log(2.0), ln5 = std::log(5.0);
  EXPECT_DOUBLE_EQ(value(Metric::logit({{.targets = {2}}})), ln5);
  EXPECT_DOUBLE_EQ(value(Metric::logit({{.targets = {1, 2}}})), (ln2 + ln5) / 2);
  EXPECT_DOUBLE_EQ(value(Metric::logit_difference({{.targets = {2}, .foils = {1}}})), ln5 - ln2);
  EXPECT_DOUBLE_EQ(value(Metric::logit_difference({{.targets = {2}, .foils = {0, 1}}})), ln5 - ln2 / 2);
  EXPECT_DOUBLE_EQ(value(Metric::logit_difference({{.targets = {0}, .foils = {1}, .position = 1}})), ln2);
  EXPECT_DOUBLE_EQ(value(Metric::logit_difference({{.targets = {0}, .foils = {1}, .position = -2}})), ln2);
  EXPECT_NEAR(value(Metric::probability_difference({{.targets = {2}, .foils = {0, 1}}})), 5.0 / 8 - 3.0 / 8, 1e-15);
  EXPECT_NEAR(value(Metric::probability_difference({{.targets = {1, 2}}})), 7.0 / 8, 1e-15);
  EXPECT_NEAR(value(Metric::log_probability({{.targets = {1, 2}}})), std::log(7.0 / 8), 1e-15);
  // Token 1 after three equal logits, token 2 after ln 2, 0, 0: probabilities 1/3 and 1/4.
  EXPECT_NEAR(value(Metric::cross_entropy()), (std::log(3.0) + std::log(4.0)) / 2, 1e-15);
  EXPECT_NEAR(value(Metric::cross_entropy(LogitPositions::last)), std::log(4.0), 1e-15);
  EXPECT_NEAR(value(Metric::cross_entropy()), mean_loss(token_losses(trace)), 1e-15);

  TraceF64 uniform = hand_worked();
  std::fill_n(uniform.logits.data(), 9, 1.0);
  const double last = -std::log(3.0) + 3 * std::log(2.0) - (ln2 + ln5) / 3;  // sum of 1/3 log(1/3 / (1/8, 2/8, 5/8))
  EXPECT_NEAR(value(Metric::kl_divergence(uniform)), last, 1e-15);
  const double middle = -std::log(3.0) + std::log(4.0) - ln2 / 3;
  EXPECT_NEAR(value(Metric::kl_divergence(uniform, LogitPositions::all)), (last + middle) / 3, 1e-15);
  EXPECT_EQ(value(Metric::kl_divergence(trace)), 0.0);

  TensorF64 coefficients({1, 2, 3});
  for (Index i = 0; i < 6; ++i) coefficients[i] = static_cast<double>(i + 1);
  EXPECT_DOUBLE_EQ(value(Metric::linear(std::move(coefficients))), ln2 + 5 * ln2 + 6 * ln5);
}

/// One of each kind for a batch of three sequences of 5, 1 and 3 tokens.
std::vector<Metric> every_metric(const TraceF64& reference, Index d_vocab) {
  Random random(7);
  TensorF64 coefficients({3, 1, d_vocab});
  for (double& c : coefficients.values()) c = random.normal();
  return {Metric::logit({{.targets = {3, 8}}}),
          Metric::logit_difference({{.targets = {3}, .foils = {4, 5}},
                                    {.targets = {1, 2}, .foils = {5}},
                                    {.targets = {9}, .foils = {3}, .position = 1}}),
          Metric::probability_difference({{.targets = {3, 4}, .foils = {5}, .position = 0}}),
          Metric::probability_difference({{.targets = {6}}}),
          Metric::log_probability({{.targets = {3, 4, 7}}}),
          Metric::cross_entropy(),
          Metric::cross_entropy(LogitPositions::last),
          Metric::kl_divergence(reference),
          Metric::kl_divergence(reference, LogitPositions::all),
          Metric::linear(std::move(coefficients))};
}

class MetricGradient : public ::testing::Test {
 protected:
  MetricGradient() : model_(random_model(capability_shapes().front().config, 3)) {
    batch_ = {test::random_tokens(5, 97, 1), test::random_tokens(1, 97, 2), test::random_tokens(3, 97, 3)};
    trace_ = run_f64(model_, batch_);
    const std::vector<Tokens> other = {test::random_tokens(5, 97, 4), test::random_tokens(1, 97, 5),
                                       test::random_tokens(3, 97, 6)};
    reference_ = run_f64(model_, other);
  }
  template <class Real>
  TensorF64 gradient_of(const Metric& metric, const BasicTrace<Real>& trace, Index s) const {
    const Tokens& tokens = batch_[static_cast<std::size_t>(s)];
    const auto rows = static_cast<Index>(metric.positions(s, static_cast<Index>(tokens.size())).size());
    BasicTensor<Real> gradient({std::max<Index>(rows, 1), 97});
    metric.gradient(s, tokens, trace.logits_of(s), gradient.template view<2>().rows(0, rows));
    TensorF64 wide({rows, 97});
    for (Index i = 0; i < wide.size(); ++i) wide[i] = static_cast<double>(gradient[i]);
    return wide;
  }

  Model model_;
  std::vector<Tokens> batch_;
  TraceF64 trace_, reference_;
};

TEST_F(MetricGradient, IsTheDerivative) {
  std::size_t which = 0;
  for (const Metric& metric : every_metric(reference_, 97)) {
    for (Index s = 0; s < 3; ++s) {
      const auto length = static_cast<Index>(batch_[static_cast<std::size_t>(s)].size());
      if (which == 1 && length == 1 && s == 2) continue;
      const TensorF64 gradient = gradient_of(metric, trace_, s);
      const std::vector<Index> positions = metric.positions(s, length);
      double error = 0.0, largest = 0.0;
      for (Index p = 0; p < length; ++p)
        for (Index i = 0; i < 97; ++i) {
          double& logit = trace_.logits.view<3>()(s, 5 - length + p, i);
          const double at = logit, h = 1e-5;
          logit = at + h;
          const double above = metric.values(trace_)[static_cast<std::size_t>(s)];
          logit = at - h;
          const double want = (above - metric.values(trace_)[static_cast<std::size_t>(s)]) / (2 * h);
          logit = at;
          const auto found = std::find(positions.begin(), positions.end(), p);
          const double got = found == positions.end() ? 0.0 : gradient.view<2>()(found - positions.begin(), i);
          error = std::max(error, std::abs(got - want));
          largest = std::max(largest, std::abs(want));
        }
      EXPECT_LE(error, 1e-9 * std::max(largest, 1.0)) << "metric " << which << " sequence " << s;
    }
    ++which;
  }
}

TEST_F(MetricGradient, FloatAgreesWithDouble) {
  const Trace fast = run(model_, batch_);
  std::size_t which = 0;
  for (const Metric& metric : every_metric(reference_, 97)) {
    EXPECT_LE(test::relative_error(metric.values(fast), metric.values(trace_)), 3e-6) << which;
    for (Index s = 0; s < 3; ++s) {
      const TensorF64 want = gradient_of(metric, trace_, s), got = gradient_of(metric, fast, s);
      EXPECT_LE(test::relative_error(got.values(), want.values()), 1e-5) << "metric " << which << " sequence " << s;
    }
    ++which;
  }
}

TEST_F(MetricGradient, AsksForTheLogitsThatItReads) {
  EXPECT_EQ(Metric::logit({{.targets = {1}}}).logits(), LogitPositions::last);
  EXPECT_EQ(Metric::logit({{.targets = {1}}, {.targets = {1}, .position = 0}}).logits(), LogitPositions::all);
  EXPECT_EQ(Metric::cross_entropy(LogitPositions::last).logits(), LogitPositions::all);
  EXPECT_EQ(Metric::kl_divergence(reference_).logits(), LogitPositions::last);
  EXPECT_EQ(Metric::linear("blocks.0.attn.hook_z", TensorF64({1, 5, 4, 8})).logits(), LogitPositions::none);
  const Metric metric = Metric::logit_difference({{.targets = {3}, .foils = {4}}});
  const TraceF64 last = run_f64(model_, batch_, {.logits = LogitPositions::last});
  EXPECT_EQ(metric.values(last), metric.values(trace_));
}

TEST_F(MetricGradient, LinearOfASiteIsItsSum) {
  const TraceF64 trace = run_f64(model_, batch_[0], {.capture = {"blocks.0.attn.hook_attn_scores"}});
  TensorF64 coefficients({1, 4, 5, 5});
  coefficients.view<4>()(0, 2, 3, 1) = 2.0;
  coefficients.view<4>()(0, 2, 1, 3) = 5.0;  // hidden
  const Metric metric = Metric::linear("blocks.0.attn.hook_attn_scores", std::move(coefficients));
  EXPECT_DOUBLE_EQ(metric.values(trace)[0], 2.0 * trace.at("blocks.0.attn.hook_attn_scores").view<4>()(0, 2, 3, 1));
}

TEST_F(MetricGradient, RefusesWhatDoesNotFit) {
  const auto message = [&](const Metric& metric, const TraceF64& trace) {
    try {
      metric.values(trace);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::usage);
      return std::string(e.what());
    }
    return std::string("nothing was thrown");
  };
  using ::testing::Test;
  const auto expect = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(message(Metric::logit({{.targets = {97}}}), trace_), "token id 97");
  expect(message(Metric::logit({{.targets = {1}, .position = -2}}), trace_), "position -2");
  expect(message(Metric::logit({{.targets = {1}}, {.targets = {2}}}), trace_), "2 answers for 3 sequences");
  expect(message(Metric::kl_divergence(run_f64(model_, batch_[0]), LogitPositions::all), trace_), "its reference 5");
  expect(message(Metric::linear(TensorF64({1, 2, 97})), trace_), "coefficients for 2 positions");
  expect(message(Metric::linear(TensorF64({1, 1, 96})), trace_), "do not fit");
  expect(message(Metric::linear("hook_embed", TensorF64({1, 5, 32})), trace_), "hook_embed");
  EXPECT_THROW(Metric::logit({}), Error);
  EXPECT_THROW(Metric::logit({{.targets = {}}}), Error);
  EXPECT_THROW(Metric::logit_difference({{.targets = {1}}}), Error);
}

}  // namespace
}  // namespace kirchhoff
