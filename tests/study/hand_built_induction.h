#pragma once
#include <functional>  // for function
#include <memory>      // for make_shared
#include <vector>      // for vector

#include "kirchhoff/base/random.h"
#include "kirchhoff/observe/head_scores.h"

namespace kirchhoff::test {

/// An induction transformer written by hand (circuit-discovery, "Hand-built induction transformer"): two layers,
/// attention only, no norms, no biases, scores q . k. d_model = 3 V + P, in blocks
///   tok | pos | prev | out        of V, P, V and V dimensions.
/// a0.h0 attends from i to i - 1 (beta) and writes the token found there into prev; a1.h0 matches prev of a key with
/// tok of the query (beta) and writes the key's token into out, which the unembedding reads. Other heads are decoys:
/// random queries, keys and values, and no output. Token 0 stands for BOS.
struct HandBuiltInduction {
  static constexpr Index kVocabulary = 24, kPositions = 40;
  static constexpr double kBeta = 40.0;
  static constexpr Index kTok = 0, kPos = kVocabulary, kPrev = kPos + kPositions, kOut = kPrev + kVocabulary,
                         kModel = kOut + kVocabulary, kHead = kPositions;  // max(V, P)

  explicit HandBuiltInduction(Index decoys = 2) {
    ModelConfig& c = model.config;
    c.family = c.architecture = "hand-built";
    c.n_layers = 2;
    c.d_model = kModel;
    c.n_heads = c.n_kv_heads = 1 + decoys;
    c.d_head = kHead;
    c.d_vocab = c.d_vocab_out = kVocabulary;
    c.n_ctx = kPositions;
    c.positions = Positions::learned;
    c.norm = NormKind::none;
    c.final_norm = false;
    c.attn_only = true;
    c.window_of_layer = {0, 0};
    c.attn_scale_of_layer = {1.0, 1.0};
    c.validate();

    const auto one_if = [](bool condition) { return condition ? 1.0 : 0.0; };
    // y = x W with x, y row vectors: entry (i, o) of W.
    model.weights.W_E = matrix(kModel, kVocabulary, [&](Index o, Index t) { return one_if(o == kTok + t); });
    model.weights.W_pos = matrix(kModel, kPositions, [&](Index o, Index p) { return one_if(o == kPos + p); });
    model.weights.W_U = matrix(kModel, kVocabulary, [&](Index i, Index o) { return one_if(i == kOut + o); });
    const auto block = [&](Index from, Index i, Index o, Index n) { return one_if(o < n && i == from + o); };
    layer([&](Index i, Index o) { return o + 1 < kPositions && i == kPos + o + 1 ? kBeta : 0.0; },
          [&](Index i, Index o) { return block(kPos, i, o, kPositions); },
          [&](Index i, Index o) { return block(kTok, i, o, kVocabulary); }, kPrev);
    layer([&](Index i, Index o) { return kBeta * block(kTok, i, o, kVocabulary); },
          [&](Index i, Index o) { return block(kPrev, i, o, kVocabulary); },
          [&](Index i, Index o) { return block(kTok, i, o, kVocabulary); }, kOut);
  }

  /// BOS, `period` different tokens, and the same again.
  static PeriodicTokens repeated(Index period = 10, std::uint64_t seed = 1) {
    ModelConfig config;
    config.d_vocab = kVocabulary;
    return repeated_random_tokens(config,
                                  {.period = period, .repeats = 2, .samples = 1, .bos = TokenId{0}, .seed = seed})
        .front();
  }

  Model model;

 private:
  using Entry = std::function<double(Index, Index)>;  ///< W[i, o]

  /// Stored as [d_out, d_in]; an embedding is [d_model, entries] here, so that row t is entry t's.
  static WeightMatrix matrix(Index d_in, Index d_out, const Entry& entry) {
    auto values = std::make_shared<std::vector<float>>();
    for (Index o = 0; o < d_out; ++o)
      for (Index i = 0; i < d_in; ++i) values->push_back(static_cast<float>(entry(i, o)));
    return {d_out, d_in, values->data(), values};
  }

  /// Head 0 as given, with W_O from its d_head to the block at `out`; decoys behind it.
  void layer(const Entry& q, const Entry& k, const Entry& v, Index out) {
    const Index width = model.config.n_heads * kHead;
    const auto read = [&](const Entry& own) {
      return matrix(kModel, width, [&](Index i, Index o) { return o < kHead ? own(i, o) : 0.3 * random_.normal(); });
    };
    LayerWeights& w = model.weights.layers.emplace_back();
    w.W_Q = read(q);
    w.W_K = read(k);
    w.W_V = read(v);
    w.W_O = matrix(width, kModel, [&](Index i, Index o) { return i < kVocabulary && o == out + i ? 1.0 : 0.0; });
  }

  Random random_{7};
};

}  // namespace kirchhoff::test
