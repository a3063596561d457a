#pragma once
#include <gtest/gtest.h>

#include <cmath>       // for sin
#include <cstdlib>     // for getenv
#include <cstring>     // for memcpy
#include <filesystem>  // for path
#include <map>         // for map
#include <string>      // for string
#include <vector>      // for vector

#include "kirchhoff/base/error.h"
#include "kirchhoff/io/json_file.h"
#include "kirchhoff/io/model_files.h"
#include "kirchhoff/model/load.h"

namespace kirchhoff::test {

inline std::string test_data(const std::string& name) { return std::string(KIRCHHOFF_TEST_DATA) + "/" + name; }
inline std::string golden(const std::string& name) { return test_data("golden/" + name); }

/// Data beside the repository; empty where it is absent.
inline std::string shared_data(const std::string& name) {
  const char* folder = std::getenv("KIRCHHOFF_SHARED");
  const std::string path =
      (folder != nullptr ? std::string(folder) : std::string(KIRCHHOFF_SOURCE_DIR) + "/../shared") + "/" + name;
  return std::filesystem::exists(path) ? path : std::string();
}

/// The Error that `action` throws; a test failure if it throws none.
template <class Action>
Error error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return {ErrorCode::internal, "no error"};
}

inline void expect_mentions(const Error& error, const std::vector<std::string>& words) {
  for (const std::string& word : words)
    EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
        << "'" << word << "' is not in: " << error.what();
}

/// A float32 tensor that lives in memory.
inline io::StoredTensor stored(const std::string& name, Shape shape, std::vector<float> values) {
  auto owner = std::make_shared<std::vector<float>>(std::move(values));
  EXPECT_EQ(static_cast<Index>(owner->size()), element_count(shape)) << name;
  return {name, DType::f32, std::move(shape), std::as_bytes(std::span(*owner)), 0, "memory", owner};
}

/// 0, 1, 2, ... so that every value says where it was.
inline io::StoredTensor counting(const std::string& name, Shape shape) {
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return stored(name, std::move(shape), std::move(values));
}

/// Different values in different tensors and places.
inline io::StoredTensor wavy(const std::string& name, Shape shape, double phase) {
  std::vector<float> values(static_cast<std::size_t>(element_count(shape)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(phase + 0.7 * static_cast<double>(i)));
  return stored(name, std::move(shape), std::move(values));
}

/// A mutable view of one tensor of files: a copy of its values that replaces it.
inline void replace(io::ModelFiles& files, const std::string& name, io::StoredTensor tensor) {
  for (io::StoredTensor& t : files.checkpoint.tensors)
    if (t.name == name) {
      t = std::move(tensor);
      return;
    }
  ADD_FAILURE() << "no tensor " << name;
}

/// All rows of a weight matrix, whether packed or not.
inline std::vector<float> values_of(const WeightMatrix& matrix) {
  std::vector<float> values(static_cast<std::size_t>(matrix.d_out() * matrix.d_in()));
  if (matrix.present()) matrix.rows(0, matrix.d_out(), values.data());
  return values;
}

/// Calls visit(name, matrix_a, matrix_b) for every matrix of two models of the same shape.
template <class Visit>
void for_each_matrix(const Weights& a, const Weights& b, const Visit& visit) {
  visit("W_E", a.W_E, b.W_E);
  visit("W_pos", a.W_pos, b.W_pos);
  visit("W_U", a.W_U, b.W_U);
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (std::size_t l = 0; l < a.layers.size(); ++l) {
    const LayerWeights& x = a.layers[l];
    const LayerWeights& y = b.layers[l];
    visit("W_Q", x.W_Q, y.W_Q);
    visit("W_K", x.W_K, y.W_K);
    visit("W_V", x.W_V, y.W_V);
    visit("W_O", x.W_O, y.W_O);
    visit("W_in", x.W_in, y.W_in);
    visit("W_gate", x.W_gate, y.W_gate);
    visit("W_out", x.W_out, y.W_out);
  }
}

template <class Visit>
void for_each_vector(const Weights& a, const Weights& b, const Visit& visit) {
  const auto norm = [&](const char* name, const NormWeights& x, const NormWeights& y) {
    visit(name, x.w, y.w);
    visit(name, x.b, y.b);
  };
  norm("ln_embed", a.ln_embed, b.ln_embed);
  norm("ln_final", a.ln_final, b.ln_final);
  visit("b_U", a.b_U, b.b_U);
  for (std::size_t l = 0; l < a.layers.size(); ++l) {
    const LayerWeights& x = a.layers[l];
    const LayerWeights& y = b.layers[l];
    norm("ln1", x.ln1, y.ln1);
    norm("ln2", x.ln2, y.ln2);
    norm("ln1_post", x.ln1_post, y.ln1_post);
    norm("ln2_post", x.ln2_post, y.ln2_post);
    visit("b_Q", x.b_Q, y.b_Q);
    visit("b_K", x.b_K, y.b_K);
    visit("b_V", x.b_V, y.b_V);
    visit("b_O", x.b_O, y.b_O);
    visit("q_norm", x.q_norm, y.q_norm);
    visit("k_norm", x.k_norm, y.k_norm);
    visit("b_in", x.b_in, y.b_in);
    visit("b_gate", x.b_gate, y.b_gate);
    visit("b_out", x.b_out, y.b_out);
  }
}

/// Every weight has the same float32 bits.
inline void expect_same_weights(const Model& a, const Model& b) {
  for_each_matrix(a.weights, b.weights, [](const char* name, const WeightMatrix& x, const WeightMatrix& y) {
    EXPECT_EQ(x.d_out(), y.d_out()) << name;
    EXPECT_EQ(x.d_in(), y.d_in()) << name;
    EXPECT_EQ(values_of(x), values_of(y)) << name;
  });
  for_each_vector(a.weights, b.weights, [](const char* name, const WeightVector& x, const WeightVector& y) {
    EXPECT_EQ(x.f32(), y.f32()) << name;
  });
}

/// The same facts about the network, names apart.
inline void expect_same_config(const ModelConfig& a, const ModelConfig& b) {
  EXPECT_EQ(a.n_layers, b.n_layers);
  EXPECT_EQ(a.d_model, b.d_model);
  EXPECT_EQ(a.n_heads, b.n_heads);
  EXPECT_EQ(a.n_kv_heads, b.n_kv_heads);
  EXPECT_EQ(a.d_head, b.d_head);
  EXPECT_EQ(a.d_mlp, b.d_mlp);
  EXPECT_EQ(a.d_vocab, b.d_vocab);
  EXPECT_EQ(a.d_vocab_out, b.d_vocab_out);
  EXPECT_EQ(a.n_ctx, b.n_ctx);
  EXPECT_EQ(a.positions, b.positions);
  EXPECT_EQ(a.embed_scale, b.embed_scale);
  EXPECT_EQ(a.embed_norm, b.embed_norm);
  EXPECT_EQ(a.rotary_dim, b.rotary_dim);
  EXPECT_EQ(a.rotary_adjacent, b.rotary_adjacent);
  ASSERT_EQ(a.rotary_tables.size(), b.rotary_tables.size());
  for (std::size_t t = 0; t < a.rotary_tables.size(); ++t) {
    ASSERT_EQ(a.rotary_tables[t].inv_freq.size(), b.rotary_tables[t].inv_freq.size());
    for (std::size_t j = 0; j < a.rotary_tables[t].inv_freq.size(); ++j)
      EXPECT_NEAR(a.rotary_tables[t].inv_freq[j] / b.rotary_tables[t].inv_freq[j], 1.0, 1e-12);
  }
  EXPECT_EQ(a.rotary_table_of_layer, b.rotary_table_of_layer);
  EXPECT_EQ(a.alibi_slopes, b.alibi_slopes);
  EXPECT_EQ(a.norm, b.norm);
  EXPECT_NEAR(a.norm_eps, b.norm_eps, 1e-7 * a.norm_eps);  // GGUF stores float32
  EXPECT_EQ(a.pre_norm, b.pre_norm);
  EXPECT_EQ(a.post_norm, b.post_norm);
  EXPECT_EQ(a.final_norm, b.final_norm);
  EXPECT_EQ(a.parallel, b.parallel);
  EXPECT_EQ(a.shared_norm, b.shared_norm);
  EXPECT_EQ(a.attn_only, b.attn_only);
  EXPECT_EQ(a.causal, b.causal);
  EXPECT_EQ(a.window_of_layer, b.window_of_layer);
  EXPECT_EQ(a.attn_scale_of_layer, b.attn_scale_of_layer);
  EXPECT_EQ(a.attn_softcap, b.attn_softcap);
  EXPECT_EQ(a.qk_norm, b.qk_norm);
  EXPECT_EQ(a.gated_mlp, b.gated_mlp);
  EXPECT_EQ(a.activation, b.activation);
  EXPECT_EQ(a.logit_softcap, b.logit_softcap);
}

}  // namespace kirchhoff::test
