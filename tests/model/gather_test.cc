#include "model/gather.h"

#include <cmath>   // for nan
#include <limits>  // for infinity

#include "model/support.h"

namespace kirchhoff {
namespace {

std::vector<float> gathered(const io::StoredTensor& tensor, const Gather& gather, Index begin, Index end) {
  std::vector<float> rows(static_cast<std::size_t>((end - begin) * gather.d_in), -1.0F);
  gather_rows(tensor, gather, begin, end, rows.data());
  return rows;
}

/// Every range of rows of `pattern` gives the values that its offsets name, where value i of the source is i.
void expect_rows(const std::string& pattern, const Dimensions& sizes) {
  const Gather gather = compile_axes(pattern, "", sizes);
  const io::StoredTensor tensor = test::counting("t", gather.source);
  for (const auto& [begin, end] :
       {std::pair<Index, Index>{0, gather.d_out}, {1, gather.d_out - 1}, {gather.d_out / 2, gather.d_out / 2 + 1}}) {
    const std::vector<float> rows = gathered(tensor, gather, begin, end);
    for (Index r = begin; r < end; ++r)
      for (Index c = 0; c < gather.d_in; ++c)
        ASSERT_EQ(rows[static_cast<std::size_t>((r - begin) * gather.d_in + c)],
                  static_cast<float>(gather.row_offset(r) + gather.column_offset(c)))
            << pattern << " rows " << begin << " to " << end << " at " << r << ", " << c;
  }
}

// Sizes beyond one tile of a transposition (64) and no multiples of it.
const Dimensions kSizes = {{"h", 3}, {"d", 70}, {"m", 131}, {"t", 2}, {"e", 35}, {"p", 2}};

TEST(Gather, Identity) { expect_rows("(h d) m -> (h d) m", kSizes); }
TEST(Gather, Transposed) { expect_rows("m (h d) -> (h d) m", kSizes); }
TEST(Gather, HeadsOutside) { expect_rows("h m d -> (h d) m", kSizes); }
TEST(Gather, HeadsJoinedInColumns) { expect_rows("h d m -> m (h d)", kSizes); }
TEST(Gather, FusedColumns) { expect_rows("m [(h d) | *(h d)] -> (h d) m", kSizes); }
TEST(Gather, InterleavedRows) { expect_rows("(h [d | *d | d]) m -> (h d) m", kSizes); }
TEST(Gather, AlternatingRows) { expect_rows("(h e t) m -> (h t e) m", kSizes); }
TEST(Gather, AlternatingRowsTransposed) { expect_rows("m (h e t) -> (h t e) m", kSizes); }
TEST(Gather, ColumnsOfTwoStrides) { expect_rows("p h m -> h (p m)", kSizes); }

TEST(Gather, VectorsKeepDoubles) {
  const double exact = 0.1;
  auto owner = std::make_shared<std::vector<double>>(std::vector<double>{1.0, exact, 2.0, 1e300});
  const io::StoredTensor tensor{"v", DType::f64, {4}, std::as_bytes(std::span(*owner)), 0, "memory", owner};
  EXPECT_EQ(gather_vector(tensor, compile_axes("(e t) -> (t e)", "", {{"t", 2}, {"e", 2}})),
            (std::vector<double>{1.0, 2.0, exact, 1e300}));
}

TEST(Gather, BlocksCannotBeTransposed) {
  const io::GgufFile file = io::read_gguf(test::test_data("golden-gguf/q8_0.gguf"));
  const io::StoredTensor& a = *file.checkpoint.find("a");  // [8, 256], blocks of 32
  const Gather transposed = compile_axes("f m -> m f", "", {{"f", 8}, {"m", 256}});
  const Error error = test::error_of([&] { gathered(a, transposed, 0, 1); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  test::expect_mentions(error, {"q8_0.gguf", "'a'", "Q8_0"});
  const Gather torn = compile_axes("f [p | *m] -> f m", "", {{"f", 8}, {"p", 16}, {"m", 240}});
  EXPECT_EQ(test::error_of([&] { gathered(a, torn, 0, 1); }).code(), ErrorCode::unsupported);
}

TEST(Gather, CountsWhatIsNotFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> values = {0.0F, -0.0F, 3e38F, 1e-45F, inf, -inf, std::nanf(""), -std::nanf("1")};
  EXPECT_EQ(count_nonfinite(values), 4);
}

}  // namespace
}  // namespace kirchhoff
