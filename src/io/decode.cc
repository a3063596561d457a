#include <algorithm>  // for min
#include <array>      // for array
#include <bit>        // for endian
#include <vector>     // for vector

#include "io/bytes.h"
#include "io/decode_blocks.h"
#include "kirchhoff/base/parallel.h"
#include "kirchhoff/io/checkpoint.h"
#include "kirchhoff/io/mapped_file.h"

namespace kirchhoff::io {
namespace {

static_assert(std::endian::native == std::endian::little, "stored numbers are read as they lie");

/// Values per task: enough to outweigh the hand-over, and a multiple of every block.
constexpr Index kGrain = 1 << 16;

template <class From, class To>
void convert(const std::byte* in, Index n, To* out) {
  for (Index i = 0; i < n; ++i) out[i] = static_cast<To>(load<From>(in + static_cast<Index>(sizeof(From)) * i));
}

/// bool: any byte but 0 is true, as in torch.
template <class To>
void convert_boolean(const std::byte* in, Index n, To* out) {
  for (Index i = 0; i < n; ++i) out[i] = in[i] == std::byte{0} ? To{0} : To{1};
}

template <class To>
using Convert = void (*)(const std::byte* in, Index n, To* out);

/// The types whose values a double holds better than a float, or which are no floats; null for the others.
template <class To>
Convert<To> converter(DType type) {
  switch (type) {
    case DType::f64:
      return convert<double, To>;
    case DType::f32:
      return convert<float, To>;
    case DType::i64:
      return convert<std::int64_t, To>;
    case DType::i32:
      return convert<std::int32_t, To>;
    case DType::i16:
      return convert<std::int16_t, To>;
    case DType::i8:
      return convert<std::int8_t, To>;
    case DType::u64:
      return convert<std::uint64_t, To>;
    case DType::u32:
      return convert<std::uint32_t, To>;
    case DType::u16:
      return convert<std::uint16_t, To>;
    case DType::u8:
      return convert<std::uint8_t, To>;
    case DType::boolean:
      return convert_boolean<To>;
    default:
      return nullptr;
  }
}

void check_borders(DType type, std::size_t bytes, Index first, Index count) {
  const Index block = info(type).block;
  check(first >= 0 && first % block == 0 && count % block == 0, ErrorCode::internal,
        "values {} to {} of a {} tensor do not lie on borders of its blocks of {}", first, first + count,
        info(type).name, block);
  check(stored_bytes(type, first + count) <= static_cast<Index>(bytes), ErrorCode::internal,
        "values {} to {} of a {} tensor of {} bytes", first, first + count, info(type).name, bytes);
}

void decode_f64(DType type, const std::byte* in, Index n, double* out) {
  if (const Convert<double> to_double = converter<double>(type)) return to_double(in, n, out);
  const auto [name, block, block_bytes] = info(type);
  std::array<float, 1024> values;  // a multiple of every block
  constexpr Index kAtOnce = static_cast<Index>(values.size());
  for (Index i = 0; i < n; i += kAtOnce) {
    const Index count = std::min(kAtOnce, n - i);
    block_decoder(type)(in + i / block * block_bytes, count / block, values.data());
    std::copy_n(values.begin(), count, out + i);
  }
}

}  // namespace

DecodeBlocks block_decoder(DType type) {
  if (const Convert<float> to_float = converter<float>(type)) return to_float;
  constexpr std::array kDecoders{
      decode_q4_0,    decode_q4_1,   decode_q5_0,  decode_q5_1,    decode_q8_0,  decode_q2_k,
      decode_q3_k,    decode_q4_k,   decode_q5_k,  decode_q6_k,    decode_iq1_s, decode_iq1_m,
      decode_iq2_xxs, decode_iq2_xs, decode_iq2_s, decode_iq3_xxs, decode_iq3_s, decode_iq4_nl,
      decode_iq4_xs,  decode_tq1_0,  decode_tq2_0, decode_mxfp4,   decode_nvfp4,
  };
  static_assert(kDecoders.size() == static_cast<std::size_t>(DType::nvfp4) - static_cast<std::size_t>(DType::q4_0) + 1);
  switch (type) {
    case DType::f16:
      return decode_f16;
    case DType::bf16:
      return decode_bf16;
    case DType::f8_e4m3:
      return decode_f8_e4m3;
    case DType::f8_e5m2:
      return decode_f8_e5m2;
    default:
      return kDecoders[static_cast<std::size_t>(type) - static_cast<std::size_t>(DType::q4_0)];
  }
}

void decode(DType type, Bytes bytes, std::span<float> out) {
  const Index count = static_cast<Index>(out.size());
  check_borders(type, bytes.size(), 0, count);
  block_decoder(type)(bytes.data(), count / info(type).block, out.data());
}

void decode(const StoredTensor& tensor, Index first, std::span<float> out) {
  check_borders(tensor.dtype, tensor.bytes.size(), first, static_cast<Index>(out.size()));
  decode(tensor.dtype, tensor.bytes.subspan(static_cast<std::size_t>(stored_bytes(tensor.dtype, first))), out);
}

Tensor decode(const StoredTensor& tensor) {
  Tensor result = Tensor::uninitialised(tensor.shape);
  parallel_for_blocks(result.size(), kGrain, [&](Index begin, Index end) {
    decode(tensor, begin,
           result.values().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  });
  return result;
}

TensorF64 decode_f64(const StoredTensor& tensor) {
  TensorF64 result = TensorF64::uninitialised(tensor.shape);
  check_borders(tensor.dtype, tensor.bytes.size(), 0, result.size());
  parallel_for_blocks(result.size(), kGrain, [&](Index begin, Index end) {
    decode_f64(tensor.dtype, tensor.bytes.data() + stored_bytes(tensor.dtype, begin), end - begin,
               result.data() + begin);
  });
  return result;
}

}  // namespace kirchhoff::io
