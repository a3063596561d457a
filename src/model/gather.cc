#include "model/gather.h"

#include <algorithm>  // for min
#include <array>      // for array
#include <bit>        // for bit_cast
#include <cmath>      // for isfinite

namespace kirchhoff {
namespace {

/// Runs of the source become runs of rows.
void gather_runs(const io::StoredTensor& tensor, const Gather& gather, Index begin, Index end, float* out) {
  const Index d_in = gather.d_in;
  // Rows that follow each other in the source are decoded as one run.
  const bool dense = gather.rows.empty() || gather.rows.back().stride == d_in;
  const Index dense_rows = !dense ? 1 : gather.rows.empty() ? 1 : gather.rows.back().size;
  for (Index row = begin; row < end;) {
    const Index count = std::min(end - row, dense_rows - row % dense_rows);
    io::decode(tensor, gather.row_offset(row), {out + (row - begin) * d_in, static_cast<std::size_t>(count * d_in)});
    row += count;
  }
}

/// A transposition: the source is contiguous along rows of the result (the last row axis has stride 1). Square tiles,
/// so that both sides stay in the first-level cache.
void gather_transposed(const io::StoredTensor& tensor, const Gather& gather, Index begin, Index end, float* out) {
  constexpr Index kTile = 64;
  std::array<float, kTile * kTile> tile;
  const Index run = gather.rows.back().size;
  for (Index row = begin; row < end;) {
    const Index n_rows = std::min({end - row, run - row % run, kTile});
    const Index offset = gather.row_offset(row);
    for (Index column = 0; column < gather.d_in; column += kTile) {
      const Index n_columns = std::min(gather.d_in - column, kTile);
      for (Index c = 0; c < n_columns; ++c)
        io::decode(tensor, offset + gather.column_offset(column + c),
                   {tile.data() + c * kTile, static_cast<std::size_t>(n_rows)});
      for (Index r = 0; r < n_rows; ++r)
        for (Index c = 0; c < n_columns; ++c)
          out[(row - begin + r) * gather.d_in + column + c] = tile[static_cast<std::size_t>(c * kTile + r)];
    }
    row += n_rows;
  }
}

/// Any other order, value by value.
void gather_scattered(const io::StoredTensor& tensor, const Gather& gather, Index begin, Index end, float* out) {
  for (Index row = begin; row < end; ++row)
    for (Index column = 0; column < gather.d_in; ++column, ++out)
      io::decode(tensor, gather.row_offset(row) + gather.column_offset(column), {out, 1});
}

}  // namespace

void gather_rows(const io::StoredTensor& tensor, const Gather& gather, Index begin, Index end, float* out) {
  const Index block = info(tensor.dtype).block;
  if (gather.contiguous_rows()) {
    check(gather.offset % block == 0 && gather.d_in % block == 0, ErrorCode::unsupported,
          "'{}': tensor '{}' is {}: its blocks of {} values do not end where rows of {} do", tensor.file, tensor.name,
          info(tensor.dtype).name, block, gather.d_in);
    return gather_runs(tensor, gather, begin, end, out);
  }
  check(block == 1, ErrorCode::unsupported, "'{}': tensor '{}' is {} and would have to be transposed within its blocks",
        tensor.file, tensor.name, info(tensor.dtype).name);
  if (!gather.rows.empty() && gather.rows.back().stride == 1) return gather_transposed(tensor, gather, begin, end, out);
  gather_scattered(tensor, gather, begin, end, out);
}

std::vector<double> gather_vector(const io::StoredTensor& tensor, const Gather& gather) {
  const TensorF64 all = io::decode_f64(tensor);
  std::vector<double> values(static_cast<std::size_t>(gather.d_out));
  for (Index i = 0; i < gather.d_out; ++i) values[static_cast<std::size_t>(i)] = all[gather.row_offset(i)];
  return values;
}

Index count_nonfinite(std::span<const float> values) {
  // An exponent of all ones: an integer test, which the compiler turns into vector code whatever the float flags.
  Index n = 0;
  for (float value : values) n += (std::bit_cast<std::uint32_t>(value) & 0x7f800000u) == 0x7f800000u;
  return n;
}

}  // namespace kirchhoff
