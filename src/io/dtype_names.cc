#include "io/dtype_names.h"

#include <algorithm>  // for find
#include <array>      // for array
#include <utility>    // for pair

namespace kirchhoff::io {

std::optional<DType> dtype_from_safetensors(std::string_view name) {
  // The plain types come first in the enum, under the names that safetensors gives them.
  for (int i = 0; i <= static_cast<int>(DType::boolean); ++i)
    if (info(static_cast<DType>(i)).name == name) return static_cast<DType>(i);
  return std::nullopt;
}

bool is_known_safetensors_dtype(std::string_view name) {
  constexpr std::array<std::string_view, 7> kOthers{"F4",          "F6_E2M3",     "F6_E3M2", "F8_E8M0",
                                                    "F8_E4M3FNUZ", "F8_E5M2FNUZ", "C64"};
  return dtype_from_safetensors(name) || std::find(kOthers.begin(), kOthers.end(), name) != kOthers.end();
}

std::optional<DType> dtype_from_torch(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, DType>, 22> kNames{{
      {"float64", DType::f64},
      {"double", DType::f64},
      {"float32", DType::f32},
      {"float", DType::f32},
      {"float16", DType::f16},
      {"half", DType::f16},
      {"bfloat16", DType::bf16},
      {"float8_e4m3fn", DType::f8_e4m3},
      {"float8_e5m2", DType::f8_e5m2},
      {"int64", DType::i64},
      {"long", DType::i64},
      {"int32", DType::i32},
      {"int", DType::i32},
      {"int16", DType::i16},
      {"short", DType::i16},
      {"int8", DType::i8},
      {"uint64", DType::u64},
      {"uint32", DType::u32},
      {"uint16", DType::u16},
      {"uint8", DType::u8},
      {"bool", DType::boolean},
      {"char", DType::i8},
  }};
  for (const auto& [known, type] : kNames)
    if (known == name) return type;
  return std::nullopt;
}

}  // namespace kirchhoff::io
