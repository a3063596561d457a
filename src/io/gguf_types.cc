#include "io/gguf_types.h"

#include <array>  // for array

namespace kirchhoff::io {
namespace {

constexpr std::string_view kRemoved = "was removed from the format";
constexpr std::string_view kIntermediate = "is only ever an intermediate of a computation, never stored";

constexpr std::array kTypes = std::to_array<GgmlType>({
    {0, "F32", DType::f32, {}},          {1, "F16", DType::f16, {}},          {2, "Q4_0", DType::q4_0, {}},
    {3, "Q4_1", DType::q4_1, {}},        {4, "Q4_2", {}, kRemoved},           {5, "Q4_3", {}, kRemoved},
    {6, "Q5_0", DType::q5_0, {}},        {7, "Q5_1", DType::q5_1, {}},        {8, "Q8_0", DType::q8_0, {}},
    {9, "Q8_1", {}, kIntermediate},      {10, "Q2_K", DType::q2_k, {}},       {11, "Q3_K", DType::q3_k, {}},
    {12, "Q4_K", DType::q4_k, {}},       {13, "Q5_K", DType::q5_k, {}},       {14, "Q6_K", DType::q6_k, {}},
    {15, "Q8_K", {}, kIntermediate},     {16, "IQ2_XXS", DType::iq2_xxs, {}}, {17, "IQ2_XS", DType::iq2_xs, {}},
    {18, "IQ3_XXS", DType::iq3_xxs, {}}, {19, "IQ1_S", DType::iq1_s, {}},     {20, "IQ4_NL", DType::iq4_nl, {}},
    {21, "IQ3_S", DType::iq3_s, {}},     {22, "IQ2_S", DType::iq2_s, {}},     {23, "IQ4_XS", DType::iq4_xs, {}},
    {24, "I8", DType::i8, {}},           {25, "I16", DType::i16, {}},         {26, "I32", DType::i32, {}},
    {27, "I64", DType::i64, {}},         {28, "F64", DType::f64, {}},         {29, "IQ1_M", DType::iq1_m, {}},
    {30, "BF16", DType::bf16, {}},       {31, "Q4_0_4_4", {}, kRemoved},      {32, "Q4_0_4_8", {}, kRemoved},
    {33, "Q4_0_8_8", {}, kRemoved},      {34, "TQ1_0", DType::tq1_0, {}},     {35, "TQ2_0", DType::tq2_0, {}},
    {36, "IQ4_NL_4_4", {}, kRemoved},    {37, "IQ4_NL_4_8", {}, kRemoved},    {38, "IQ4_NL_8_8", {}, kRemoved},
    {39, "MXFP4", DType::mxfp4, {}},     {40, "NVFP4", DType::nvfp4, {}},     {41, "Q1_0", {}, "is not implemented"},
});

}  // namespace

const GgmlType* find_ggml_type(std::uint32_t number) {
  for (const GgmlType& type : kTypes)
    if (type.number == number) return &type;
  return nullptr;
}

}  // namespace kirchhoff::io
