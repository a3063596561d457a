#include "io/pickle_names.h"

#include <array>  // for array

#include "io/dtype_names.h"

namespace kirchhoff::io {
namespace {

struct Known {
  std::string_view module, name;
  PickleCallable callable;
};

constexpr std::array kCallables = std::to_array<Known>({
    {"collections", "OrderedDict", PickleCallable::ordered_dict},
    {"torch._utils", "_rebuild_tensor", PickleCallable::rebuild_tensor},
    {"torch._utils", "_rebuild_tensor_v2", PickleCallable::rebuild_tensor_v2},
    {"torch._utils", "_rebuild_tensor_v3", PickleCallable::rebuild_tensor_v3},
    {"torch._utils", "_rebuild_parameter", PickleCallable::rebuild_parameter},
    {"torch", "Size", PickleCallable::size},
    {"torch", "device", PickleCallable::device},
    {"_codecs", "encode", PickleCallable::encode},  // how protocol 2 writes bytes
});

constexpr std::array kStorages = std::to_array<std::pair<std::string_view, DType>>({
    {"DoubleStorage", DType::f64},
    {"FloatStorage", DType::f32},
    {"HalfStorage", DType::f16},
    {"BFloat16Storage", DType::bf16},
    {"Float8_e4m3fnStorage", DType::f8_e4m3},
    {"Float8_e5m2Storage", DType::f8_e5m2},
    {"LongStorage", DType::i64},
    {"IntStorage", DType::i32},
    {"ShortStorage", DType::i16},
    {"CharStorage", DType::i8},
    {"ByteStorage", DType::u8},
    {"BoolStorage", DType::boolean},
});

}  // namespace

std::optional<PickleValue> pickle_global(std::string_view module, std::string_view name) {
  for (const Known& known : kCallables)
    if (known.module == module && known.name == name) return PickleValue{known.callable};
  if (module == "torch" || module == "torch.cuda")
    for (const auto& [storage, dtype] : kStorages)
      if (storage == name) return PickleValue{PickleTypeName{dtype}};
  if (module == "torch.storage" && name == "UntypedStorage") return PickleValue{PickleTypeName{DType::u8, true}};
  if (module == "torch")
    if (const auto dtype = dtype_from_torch(name)) return PickleValue{PickleTypeName{*dtype}};
  return std::nullopt;
}

}  // namespace kirchhoff::io
