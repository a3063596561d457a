#include "kirchhoff/observe/ov_logits.h"

#include <algorithm>  // for min
#include <numeric>    // for accumulate

#include "kirchhoff/base/parallel.h"
#include "observe/one_sequence.h"
#include "observe/stream_sources.h"

namespace kirchhoff {
namespace {

using namespace observe;

constexpr Index kBlock = 256;  // rows of a matrix that are expanded at a time

/// v W_O of one head, [d_model].
template <class Real>
std::vector<double> head_output(const WeightMatrix& W_O, Index head, std::span<const Real> v) {
  const Index width = W_O.d_in(), d_head = static_cast<Index>(v.size());
  std::vector<double> out(static_cast<std::size_t>(W_O.d_out()), 0.0);
  std::vector<float> block(static_cast<std::size_t>(kBlock * width));
  for (Index begin = 0; begin < W_O.d_out(); begin += kBlock) {
    const Index end = std::min(W_O.d_out(), begin + kBlock);
    W_O.rows(begin, end, block.data());
    for (Index r = begin; r < end; ++r) {
      const float* row = block.data() + (r - begin) * width + head * d_head;
      for (Index i = 0; i < d_head; ++i)
        out[static_cast<std::size_t>(r)] +=
            static_cast<double>(row[i]) * static_cast<double>(v[static_cast<std::size_t>(i)]);
    }
  }
  return out;
}

/// x W_U, [d_vocab_out].
std::vector<double> through_unembedding(const WeightMatrix& W_U, const std::vector<double>& x) {
  std::vector<double> logits(static_cast<std::size_t>(W_U.d_out()));
  parallel_for_blocks(W_U.d_out(), kBlock, [&](Index begin, Index end) {
    std::vector<float> rows(static_cast<std::size_t>((end - begin) * W_U.d_in()));
    W_U.rows(begin, end, rows.data());
    for (Index t = begin; t < end; ++t) {
      const float* row = rows.data() + (t - begin) * W_U.d_in();
      double sum = 0.0;
      for (std::size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(row[i]) * x[i];
      logits[static_cast<std::size_t>(t)] = sum;
    }
  });
  return logits;
}

}  // namespace

std::vector<std::string> ov_logit_sites(const ModelConfig& config, Index layer) {
  std::vector<std::string> sites = {site_name(Site::v, layer)};
  if (has_ln1_post(config)) sites.push_back(site_name(Site::ln1_post_scale, layer));
  if (config.has_final_norm()) sites.push_back(site_name(Site::final_scale));
  return sites;
}

template <class Real>
std::vector<double> ov_logits(const Model& model, const BasicTrace<Real>& trace, const HeadLink& link) {
  const ModelConfig& config = model.config;
  check(link.layer >= 0 && link.layer < config.n_layers && link.head >= 0 && link.head < config.n_heads,
        ErrorCode::usage, "head {}.{} is not in a model of {} layers with {} heads", link.layer, link.head,
        config.n_layers, config.n_heads);
  const Index length = sequence_length(trace);
  const Index query = resolve_position(link.query_pos, length), key = resolve_position(link.key_pos, length);
  const LayerWeights& w = model.weights.layers[static_cast<std::size_t>(link.layer)];
  const Index kv_head = link.head / (config.n_heads / config.n_kv_heads);
  const std::span<const Real> values = at_position(trace, Site::v, link.layer, key);
  std::vector<double> x = head_output(
      w.W_O, link.head,
      values.subspan(static_cast<std::size_t>(kv_head * config.d_head), static_cast<std::size_t>(config.d_head)));
  if (has_ln1_post(config))
    through_norm(config.norm, w.ln1_post, ln1_post_scale(config, trace, link.layer, query), std::span<double>(x));
  if (config.has_final_norm())
    through_norm(config.norm, model.weights.ln_final,
                 static_cast<double>(at_position(trace, Site::final_scale, 0, query).front()), std::span<double>(x));
  std::vector<double> logits = through_unembedding(model.weights.W_U, x);
  const double mean = std::accumulate(logits.begin(), logits.end(), 0.0) / static_cast<double>(logits.size());
  for (double& logit : logits) logit = (logit - mean) * config.logit_scale;
  return logits;
}

template std::vector<double> ov_logits(const Model&, const Trace&, const HeadLink&);
template std::vector<double> ov_logits(const Model&, const TraceF64&, const HeadLink&);

}  // namespace kirchhoff
