#pragma once
#include <cstddef>  // for byte

#include "kirchhoff/tensor/dtype.h"

namespace kirchhoff::io {

/// Decodes `n` consecutive blocks at any address; writes n * info(type).block values. The products are rounded in the
/// order of gguf's quants.py, so that the values agree bit for bit; hence this module is compiled without fused
/// multiply-add
/// (-ffp-contract=off). Byte layouts: ggml-common.h (block_q4_0, ...).
using DecodeBlocks = void (*)(const std::byte* blocks, Index n, float* out);

/// Never null: every DType has one.
DecodeBlocks block_decoder(DType type);

void decode_f16(const std::byte* in, Index n, float* out);
void decode_bf16(const std::byte* in, Index n, float* out);
void decode_f8_e4m3(const std::byte* in, Index n, float* out);
void decode_f8_e5m2(const std::byte* in, Index n, float* out);

void decode_q4_0(const std::byte* in, Index n, float* out);
void decode_q4_1(const std::byte* in, Index n, float* out);
void decode_q5_0(const std::byte* in, Index n, float* out);
void decode_q5_1(const std::byte* in, Index n, float* out);
void decode_q8_0(const std::byte* in, Index n, float* out);

void decode_q2_k(const std::byte* in, Index n, float* out);
void decode_q3_k(const std::byte* in, Index n, float* out);
void decode_q4_k(const std::byte* in, Index n, float* out);
void decode_q5_k(const std::byte* in, Index n, float* out);
void decode_q6_k(const std::byte* in, Index n, float* out);

void decode_iq1_s(const std::byte* in, Index n, float* out);
void decode_iq1_m(const std::byte* in, Index n, float* out);
void decode_iq2_xxs(const std::byte* in, Index n, float* out);
void decode_iq2_xs(const std::byte* in, Index n, float* out);
void decode_iq2_s(const std::byte* in, Index n, float* out);
void decode_iq3_xxs(const std::byte* in, Index n, float* out);
void decode_iq3_s(const std::byte* in, Index n, float* out);

void decode_iq4_nl(const std::byte* in, Index n, float* out);
void decode_iq4_xs(const std::byte* in, Index n, float* out);
void decode_mxfp4(const std::byte* in, Index n, float* out);
void decode_nvfp4(const std::byte* in, Index n, float* out);

void decode_tq1_0(const std::byte* in, Index n, float* out);
void decode_tq2_0(const std::byte* in, Index n, float* out);

}  // namespace kirchhoff::io
