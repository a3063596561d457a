#pragma once
#include <map>          // for map
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "kirchhoff/model/config.h"
#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff {

/// Sizes of the axes that patterns name.
using Dimensions = std::map<std::string, Index, std::less<>>;

/// v d_vocab, u d_vocab_out, p n_ctx, m d_model, f d_mlp, h n_heads, g n_kv_heads, r = h / g, d d_head, t = 2, e = d
/// / 2.
Dimensions dimensions(const ModelConfig& config);

/// How the values of a stored tensor lie in a canonical matrix: element (row, column) of [d_out, d_in] is source value
/// offset + sum over row axes + sum over column axes.
struct Gather {
  struct Axis {
    Index size, stride;
  };
  Shape source;                  ///< the shape that the stored tensor must have
  Index offset = 0;              ///< of the first value in the source
  std::vector<Axis> rows, cols;  ///< outermost first, neighbours merged where they can be
  Index d_out = 1, d_in = 1;

  bool identity() const;         ///< the source, as it lies
  bool contiguous_rows() const;  ///< every row is one run of the source
  Index row_offset(Index row) const;
  Index column_offset(Index column) const;
};

/// Compiles a rearrangement written in the manner of einops, `SOURCE -> TARGET`:
///
///   (h d) m                        stored [n_heads d_head, d_model]
///   h m d -> (h d) m               TransformerLens W_Q
///   m [*(h d) | (h d) | (h d)]     GPT-2's c_attn: three blocks of columns, of which the starred one is taken
///   (h [d | *d | d]) m             GPT-NeoX: per head q, k, v; here k
///   (g [*(r d) | d | d]) m -> (g r d) m     Falcon: per group its queries, its k, its v
///   (h e t) m -> (h t e) m         the rows of a llama GGUF file, un-permuted
///
/// SOURCE has one entry per axis of the stored tensor: a name, a number (that many, taken whole), a product in
/// parentheses (outermost first) or a concatenation in brackets with one starred part. TARGET orders the names of
/// SOURCE into rows and columns (one axis: a vector). Without an arrow the target is `target`. Errors: internal (a
/// pattern that makes no sense).
Gather compile_axes(std::string_view pattern, std::string_view target, const Dimensions& dimensions);

}  // namespace kirchhoff
