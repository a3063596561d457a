// Direct logit attribution of every head at every position, GPT-2 small's shape at 128 tokens: z . (W_O u), with one
// direction for all positions and with one a position, beside the way over every head's output.
#include <benchmark/benchmark.h>

#include "kirchhoff/base/random.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/kernels/gemm.h"
#include "kirchhoff/model/random_model.h"
#include "kirchhoff/observe/attribution.h"

namespace kirchhoff {
namespace {

constexpr Index kTokens = 128;

struct Recorded {
  Model model = random_model(shape_of("gpt2-small"), 1);
  Trace trace;

  Recorded() {
    Random random(2);
    Tokens tokens;
    for (Index i = 0; i < kTokens; ++i) tokens.push_back(static_cast<TokenId>(random.below(model.config.d_vocab)));
    trace = run(model, tokens, {.capture = attribution_sites(model.config)});
  }
};
const Recorded& recorded() {
  static const Recorded once;
  return once;
}

/// `next`: the token that follows (at the last position: token 11); otherwise tokens 11 - 13 everywhere.
std::vector<LogitTarget> targets(bool next) {
  const Tokens& tokens = recorded().trace.tokens.front();
  std::vector<LogitTarget> all;
  for (Index pos = 0; pos < kTokens; ++pos) {
    if (next)
      all.push_back({pos + 1 < kTokens ? tokens[static_cast<std::size_t>(pos) + 1] : 11, {}, pos});
    else
      all.push_back({11, 13, pos});
  }
  return all;
}

void heads_one_direction(benchmark::State& state) {
  const auto all = targets(false);
  for (auto _ : state) benchmark::DoNotOptimize(attribute_heads<float>(recorded().model, recorded().trace, all));
}
BENCHMARK(heads_one_direction)->UseRealTime()->Unit(benchmark::kMillisecond);

void heads_next_tokens(benchmark::State& state) {
  const auto all = targets(true);
  for (auto _ : state) benchmark::DoNotOptimize(attribute_heads<float>(recorded().model, recorded().trace, all));
}
BENCHMARK(heads_next_tokens)->UseRealTime()->Unit(benchmark::kMillisecond);

void every_part_one_direction(benchmark::State& state) {
  const auto all = targets(false);
  for (auto _ : state) benchmark::DoNotOptimize(attribute_logits<float>(recorded().model, recorded().trace, all));
}
BENCHMARK(every_part_one_direction)->UseRealTime()->Unit(benchmark::kMillisecond);

/// Every head's output first, [head, pos, d_model] a layer, then a direction.
void heads_stacked(benchmark::State& state) {
  const Model& model = recorded().model;
  const Index heads = model.config.n_heads, dh = model.config.d_head, d = model.config.d_model;
  std::vector<float> direction(static_cast<std::size_t>(d), 0.5F);
  for (auto _ : state) {
    std::vector<Tensor> stacked;
    for (Index layer = 0; layer < model.config.n_layers; ++layer) {
      const ConstMatrix z(recorded().trace.at(site_name(Site::z, layer)).data(), {kTokens, heads * dh});
      const ConstMatrix W_O = model.weights.layers[static_cast<std::size_t>(layer)].W_O.matrix();
      stacked.push_back(Tensor({heads, kTokens, d}));
      std::vector<kernels::GemmProblem> problems;
      for (Index h = 0; h < heads; ++h)
        problems.push_back({.a = ConstMatrix(z.data + h * dh, {kTokens, dh}, z.stride),
                            .b = W_O.rows(h * dh, dh),
                            .c = stacked.back().view<3>().at(h)});
      kernels::gemm(std::span<const kernels::GemmProblem>(problems));
    }
    Tensor values({model.config.n_layers * heads * kTokens, 1});
    for (std::size_t layer = 0; layer < stacked.size(); ++layer)
      kernels::gemm({.a = ConstMatrix(stacked[layer].data(), {heads * kTokens, d}),
                     .b = ConstMatrix(direction.data(), {d, 1}),
                     .c = values.view<2>().rows(static_cast<Index>(layer) * heads * kTokens, heads * kTokens)});
    benchmark::DoNotOptimize(values.data());
  }
}
BENCHMARK(heads_stacked)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace kirchhoff
