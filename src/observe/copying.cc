#include "observe/copying.h"

#include <algorithm>  // for find, max, max_element, min, copy_n

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/base/random.h"
#include "kirchhoff/engine/sites.h"
#include "kirchhoff/kernels/gemm.h"
#include "observe/stream_sources.h"

namespace kirchhoff::observe {

CopyingReader::CopyingReader(const Model& model)
    : model_(model), mean_(static_cast<std::size_t>(model.config.d_model), 0.0) {
  constexpr Index kRows = 256;
  const WeightMatrix& W_U = model.weights.W_U;
  std::vector<float> block(static_cast<std::size_t>(kRows * W_U.d_in()));
  for (Index begin = 0; begin < W_U.d_out(); begin += kRows) {
    const Index end = std::min(W_U.d_out(), begin + kRows);
    W_U.rows(begin, end, block.data());
    for (Index r = 0; r < end - begin; ++r)
      for (std::size_t j = 0; j < mean_.size(); ++j)
        mean_[j] += static_cast<double>(block[static_cast<std::size_t>(r) * mean_.size() + j]);
  }
  for (double& x : mean_) x /= static_cast<double>(W_U.d_out());
}

Tensor CopyingReader::directions(const Tokens& tokens) const {
  const ModelConfig& config = model_.config;
  Tensor result = Tensor::uninitialised({static_cast<Index>(tokens.size()), config.d_model});
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const std::span<float> row = result.view<2>().row(static_cast<Index>(t));
    model_.weights.W_U.rows(tokens[t], tokens[t] + 1, row.data());
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = static_cast<float>(static_cast<double>(row[j]) - mean_[j]);
    if (config.final_norm) back_through_norm(config.norm, model_.weights.ln_final, 1.0, row);
  }
  return result;
}

std::vector<CopyingScore> CopyingReader::score(const Tokens& block, std::uint64_t seed) const {
  const ModelConfig& config = model_.config;
  const Index n = static_cast<Index>(block.size()), heads = config.n_heads, d_head = config.d_head;
  const Trace trace =
      run(model_, block,
          {.capture = {"blocks.*.attn.hook_pattern", "blocks.*.attn.hook_z"}, .logits = LogitPositions::none});
  Tokens sample;  // each token once, so that T counts its raise once
  std::vector<Index> place;
  for (const TokenId token : block) {
    const auto found = std::find(sample.begin(), sample.end(), token);
    place.push_back(found - sample.begin());
    if (found == sample.end()) sample.push_back(token);
  }
  const Index m = static_cast<Index>(sample.size());
  const Tensor towards = directions(sample);
  Random random(seed);
  std::vector<Index> drawn(static_cast<std::size_t>(n));
  for (Index& d : drawn) d = random.below(m);

  std::vector<CopyingScore> scores(static_cast<std::size_t>(config.n_layers * heads));
  for (Index layer = 0; layer < config.n_layers; ++layer) {
    const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
    Tensor read = towards.clone();
    if (has_ln1_post(config))  // its divisor is one positive number a query: it cancels in r
      for (Index t = 0; t < m; ++t) back_through_norm(config.norm, w.ln1_post, 1.0, read.view<2>().row(t));
    Tensor expanded;
    if (w.W_O.packed()) {
      expanded = Tensor::uninitialised({w.W_O.d_out(), w.W_O.d_in()});
      w.W_O.rows(0, w.W_O.d_out(), expanded.data());
    }
    Tensor through = Tensor::uninitialised({m, heads * d_head});  // W_O u of every token
    const ConstMatrix W_O = w.W_O.packed() ? ConstMatrix(expanded.view<2>()) : w.W_O.storage();
    kernels::gemm({.a = read.view<2>(), .b = W_O, .c = through.view<2>()});
    const float* z = trace.at(site_name(Site::z, layer)).data();              // [1, pos, head, d_head]
    const float* pattern = trace.at(site_name(Site::pattern, layer)).data();  // [1, head, query, key]
    parallel_for(heads, [&](Index head) {
      CopyingScore& score = scores[static_cast<std::size_t>(layer * heads + head)];
      std::vector<double> logits(static_cast<std::size_t>(m));
      for (Index query = 0; query < n; ++query) {
        double raised = 0.0, lowered = 0.0;
        for (Index t = 0; t < m; ++t) {
          double logit = 0.0;
          for (Index i = 0; i < d_head; ++i)
            logit += static_cast<double>(z[(query * heads + head) * d_head + i]) *
                     static_cast<double>(through[t * heads * d_head + head * d_head + i]);
          logits[static_cast<std::size_t>(t)] = logit;
          raised += std::max(0.0, logit);
          lowered += std::max(0.0, -logit);
        }
        const float* row = pattern + (head * n + query) * n;
        const auto attended = static_cast<std::size_t>(std::max_element(row, row + n) - row);
        const double own = logits[static_cast<std::size_t>(place[attended])];
        const double chance = logits[static_cast<std::size_t>(drawn[static_cast<std::size_t>(query)])];
        if (raised > 0.0) {
          double weighted = 0.0;
          for (Index key = 0; key < n; ++key)
            weighted += static_cast<double>(row[key]) *
                        std::max(0.0, logits[static_cast<std::size_t>(place[static_cast<std::size_t>(key)])]);
          ++score.queries;
          score.value += copying_score(std::max(0.0, own), raised);
          score.weighted += copying_score(weighted, raised);
          score.null += copying_score(std::max(0.0, chance), raised);
        } else {
          ++score.skipped;
        }
        if (lowered > 0.0) {
          ++score.lowering;
          score.inhibition += copying_score(std::max(0.0, -own), lowered);
          score.inhibition_null += copying_score(std::max(0.0, -chance), lowered);
        }
      }
      const auto queries = static_cast<double>(std::max<Index>(1, score.queries));
      for (double* sum : {&score.value, &score.weighted, &score.null}) *sum /= queries;
      const auto lowering = static_cast<double>(std::max<Index>(1, score.lowering));
      for (double* sum : {&score.inhibition, &score.inhibition_null}) *sum /= lowering;
    });
  }
  return scores;
}

}  // namespace kirchhoff::observe
