#pragma once
#include <string_view>  // for string_view

#include "kirchhoff/base/types.h"

namespace kirchhoff {

/// How the values of a stored tensor are encoded: plain numbers, and ggml's blocks.
enum class DType {
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq1_s,
  iq1_m,
  iq2_xxs,
  iq2_xs,
  iq2_s,
  iq3_xxs,
  iq3_s,
  iq4_nl,
  iq4_xs,
  tq1_0,
  tq2_0,
  mxfp4,
  nvfp4,
};

/// Facts about a DType. A block holds `block` consecutive values of a row in `block_bytes` bytes (block = 1: plain).
struct DTypeInfo {
  std::string_view name;  ///< "F32", "Q4_K": upper case, as safetensors and ggml write it
  Index block;
  Index block_bytes;
};

const DTypeInfo& info(DType type);

/// Bytes of `count` values (a multiple of the block).
Index stored_bytes(DType type, Index count);

}  // namespace kirchhoff
