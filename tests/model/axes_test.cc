// The pattern language of rearrangements, against offsets worked out by hand.
#include "model/axes.h"

#include "model/support.h"

namespace kirchhoff {
namespace {

/// 4 query heads of width 6 in 2 groups, d_model 5, d_mlp 7, vocabulary 9, context 3.
Dimensions sizes() {
  ModelConfig c;
  c.n_heads = 4;
  c.n_kv_heads = 2;
  c.d_head = 6;
  c.d_model = 5;
  c.d_mlp = 7;
  c.d_vocab = c.d_vocab_out = 9;
  c.n_ctx = 3;
  return dimensions(c);
}

Index at(const Gather& g, Index row, Index column) { return g.row_offset(row) + g.column_offset(column); }

TEST(Axes, LinearLayerLiesAsItIs) {
  const Gather g = compile_axes("(h d) m", "(h d) m", sizes());
  EXPECT_EQ(g.source, (Shape{24, 5}));
  EXPECT_EQ(g.d_out, 24);
  EXPECT_EQ(g.d_in, 5);
  EXPECT_TRUE(g.identity());
  EXPECT_EQ(at(g, 7, 3), 7 * 5 + 3);
}

TEST(Axes, TransposeIsNoIdentity) {
  const Gather g = compile_axes("m f", "f m", sizes());
  EXPECT_EQ(g.source, (Shape{5, 7}));
  EXPECT_FALSE(g.identity());
  EXPECT_FALSE(g.contiguous_rows());
  EXPECT_EQ(at(g, 2, 4), 4 * 7 + 2);
}

TEST(Axes, TransformerLensHeads) {
  const Gather q = compile_axes("h m d", "(h d) m", sizes());
  EXPECT_EQ(q.source, (Shape{4, 5, 6}));
  // Head 2, dimension 4 is row 16; column 3.
  EXPECT_EQ(at(q, 16, 3), 2 * 30 + 3 * 6 + 4);
  const Gather o = compile_axes("h d m", "m (h d)", sizes());
  EXPECT_EQ(o.source, (Shape{4, 6, 5}));
  EXPECT_EQ(at(o, 3, 16), 2 * 30 + 4 * 5 + 3);
}

TEST(Axes, Gpt2BlocksOfColumns) {
  const Gather k = compile_axes("m [(h d) | *(h d) | (h d)]", "(h d) m", sizes());
  EXPECT_EQ(k.source, (Shape{5, 72}));
  EXPECT_EQ(k.d_out, 24);
  EXPECT_EQ(at(k, 1, 2), 2 * 72 + 24 + 1);
  const Gather bias = compile_axes("[(h d) | (h d) | *(h d)]", "(h d)", sizes());
  EXPECT_EQ(bias.d_out, 24);
  EXPECT_EQ(bias.row_offset(5), 48 + 5);
}

TEST(Axes, NeoxInterleavesPerHead) {
  const Gather v = compile_axes("(h [d | d | *d]) m", "(h d) m", sizes());
  EXPECT_EQ(v.source, (Shape{72, 5}));
  EXPECT_TRUE(v.contiguous_rows());
  EXPECT_FALSE(v.identity());
  // Head 3, dimension 2: 3 * 18 rows of earlier heads, 12 of its q and k.
  EXPECT_EQ(at(v, 3 * 6 + 2, 1), (3 * 18 + 12 + 2) * 5 + 1);
}

TEST(Axes, FalconGroups) {
  const Gather q = compile_axes("(g [*(r d) | d | d]) m -> (g r d) m", "(h d) m", sizes());
  EXPECT_EQ(q.source, (Shape{48, 5}));
  EXPECT_EQ(q.d_out, 24);
  // Query head 3 is the second of group 1: 24 rows of group 0, 6 of its first query.
  EXPECT_EQ(at(q, 3 * 6 + 5, 0), (24 + 6 + 5) * 5);
  const Gather k = compile_axes("(g [(r d) | *d | d]) m", "(g d) m", sizes());
  EXPECT_EQ(k.d_out, 12);
  EXPECT_EQ(at(k, 6 + 1, 4), (24 + 12 + 1) * 5 + 4);
}

TEST(Axes, UnequalThirds) {
  const Gather k = compile_axes("[(h d) | *(g d) | (g d)] m", "(g d) m", sizes());
  EXPECT_EQ(k.source, (Shape{48, 5}));
  EXPECT_EQ(at(k, 0, 0), 24 * 5);
  const Gather up = compile_axes("[f | *f] m", "f m", sizes());
  EXPECT_EQ(up.source, (Shape{14, 5}));
  EXPECT_EQ(at(up, 6, 0), 13 * 5);
}

TEST(Axes, GgufLlamaRowsAlternate) {
  // gguf = hf.reshape(h, 2, d/2).swapaxes(1, 2): row 2 i + s of a head is row s d/2 + i of the original.
  const Gather q = compile_axes("(h e t) m -> (h t e) m", "(h d) m", sizes());
  EXPECT_EQ(q.source, (Shape{24, 5}));
  EXPECT_TRUE(q.contiguous_rows());
  for (Index half = 0; half < 2; ++half)
    for (Index i = 0; i < 3; ++i) EXPECT_EQ(at(q, 6 + half * 3 + i, 0), (6 + 2 * i + half) * 5);
}

TEST(Axes, DropsLeadingRows) {
  const Gather g = compile_axes("[2 | *p] m", "p m", sizes());
  EXPECT_EQ(g.source, (Shape{5, 5}));
  EXPECT_EQ(g.d_out, 3);
  EXPECT_EQ(at(g, 0, 0), 10);
}

TEST(Axes, SizeOneAxesDoNotHideAnIdentity) {
  Dimensions one = sizes();
  one["h"] = 1;
  EXPECT_TRUE(compile_axes("h d m -> (h d) m", "", one).identity());
}

TEST(Axes, NonsenseIsABug) {
  for (const char* pattern : {"(h d) m x", "(h q) m", "[h | d] m", "h m d -> h d", "(h d) m -> m", "h h m"})
    EXPECT_EQ(test::error_of([&] { compile_axes(pattern, "(h d) m", sizes()); }).code(), ErrorCode::internal)
        << pattern;
}

}  // namespace
}  // namespace kirchhoff
