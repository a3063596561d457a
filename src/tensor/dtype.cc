#include "kirchhoff/tensor/dtype.h"

#include <array>    // for array
#include <cassert>  // for assert

namespace kirchhoff {
namespace {

/// In the order of the enum. Block sizes of the ggml types: ggml-common.h (block_q4_0, ...).
constexpr std::array kInfo = std::to_array<DTypeInfo>({
    {"F64", 1, 8},        {"F32", 1, 4},       {"F16", 1, 2},        {"BF16", 1, 2},       {"F8_E4M3", 1, 1},
    {"F8_E5M2", 1, 1},    {"I64", 1, 8},       {"I32", 1, 4},        {"I16", 1, 2},        {"I8", 1, 1},
    {"U64", 1, 8},        {"U32", 1, 4},       {"U16", 1, 2},        {"U8", 1, 1},         {"BOOL", 1, 1},
    {"Q4_0", 32, 18},     {"Q4_1", 32, 20},    {"Q5_0", 32, 22},     {"Q5_1", 32, 24},     {"Q8_0", 32, 34},
    {"Q2_K", 256, 84},    {"Q3_K", 256, 110},  {"Q4_K", 256, 144},   {"Q5_K", 256, 176},   {"Q6_K", 256, 210},
    {"IQ1_S", 256, 50},   {"IQ1_M", 256, 56},  {"IQ2_XXS", 256, 66}, {"IQ2_XS", 256, 74},  {"IQ2_S", 256, 82},
    {"IQ3_XXS", 256, 98}, {"IQ3_S", 256, 110}, {"IQ4_NL", 32, 18},   {"IQ4_XS", 256, 136}, {"TQ1_0", 256, 54},
    {"TQ2_0", 256, 66},   {"MXFP4", 32, 17},   {"NVFP4", 64, 36},
});
static_assert(kInfo.size() == static_cast<std::size_t>(DType::nvfp4) + 1);

}  // namespace

const DTypeInfo& info(DType type) { return kInfo[static_cast<std::size_t>(type)]; }

Index stored_bytes(DType type, Index count) {
  const DTypeInfo& facts = info(type);
  assert(count % facts.block == 0);
  return count / facts.block * facts.block_bytes;
}

}  // namespace kirchhoff
