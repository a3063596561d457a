#include "kirchhoff/weights/head_chain.h"

#include "weights/support.h"

namespace kirchhoff {
namespace {

// Three heads in turn, dense (row vectors): OV is the product of theirs in the order in which they act, QK of the last
// has its keys read through the others.
TEST(HeadChain, IsTheProductOfItsHeads) {
  const Model m = load_model(test::golden("tl-ln-mlp"));
  const HeadChain chain{{{0, 3}, {1, 0}, {2, 1}}};
  EXPECT_EQ(name(chain), "2.1*1.0*0.3");
  EXPECT_EQ(node(chain), "a2.h1*a1.h0*a0.h3");
  const HeadMatrices a = head_matrices(m, 0, 3), b = head_matrices(m, 1, 0), c = head_matrices(m, 2, 1),
                     all = head_matrices(m, chain);
  const TensorF64 before = test::multiply(a.ov().dense(), b.ov().dense());
  EXPECT_LE(test::relative_error(all.ov().dense().values(), test::multiply(before, c.ov().dense()).values()), 1e-12);
  const TensorF64 want = test::multiply(c.qk().dense(), test::transposed_copy(before));
  EXPECT_LE(test::relative_error(all.qk().dense().values(), want.values()), 1e-12);
  EXPECT_EQ(all.score_scale, c.score_scale);
}

TEST(HeadChain, LayersRise) {
  const Model m = load_model(test::golden("tl-ln-mlp"));
  EXPECT_THROW(head_matrices(m, HeadChain{{{1, 0}, {1, 1}}}), Error);
  EXPECT_THROW(head_matrices(m, HeadChain{{{2, 0}, {1, 1}}}), Error);
  EXPECT_THROW(head_matrices(m, HeadChain{}), Error);
}

}  // namespace
}  // namespace kirchhoff
