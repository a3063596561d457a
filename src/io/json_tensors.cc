#include "io/json_tensors.h"

#include "io/base64.h"
#include "io/checked_size.h"
#include "io/dtype_names.h"
#include "io/json_members.h"
#include "io/printable.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/io/json_file.h"

namespace kirchhoff::io {
namespace {

using Json = nlohmann::ordered_json;

bool is_tensor(const Json& value) {
  return value.is_object() && value.contains("shape") && value.contains("dtype") && value.contains("data");
}

DType dtype_of(const Json& value, const std::string& subject) {
  check(value.is_string(), ErrorCode::format, "{}: dtype is {}, expected a text", subject, value.type_name());
  std::string_view name = value.get_ref<const std::string&>();
  if (constexpr std::string_view kPrefix = "torch."; name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  const auto dtype = dtype_from_torch(name);
  check(dtype.has_value(), ErrorCode::unsupported, "{}: dtype {} is not supported", subject, printable(name));
  return *dtype;
}

Shape shape_of(const Json& value, const std::string& subject) {
  check(value.is_array(), ErrorCode::format, "{}: shape is {}, expected an array", subject, value.type_name());
  Shape shape;
  for (const Json& size : value) {
    check(size.is_number_unsigned() && size.get<std::uint64_t>() < (std::uint64_t{1} << 63), ErrorCode::format,
          "{}: shape {}, expected integers >= 0", subject, value.dump());
    shape.push_back(size.get<Index>());
  }
  return shape;
}

StoredTensor tensor_of(const std::string& name, const Json& value, const std::string& path) {
  const std::string subject = fmt::format("'{}': tensor {}", path, printable(name));
  StoredTensor tensor;
  tensor.name = name;
  tensor.file = path;
  tensor.dtype = dtype_of(value["dtype"], subject);
  tensor.shape = shape_of(value["shape"], subject);
  const Json& data = value["data"];
  check(data.is_string(), ErrorCode::format, "{}: data is {}, expected a text in base64", subject, data.type_name());
  DecodedBase64 decoded = decode_base64(data.get_ref<const std::string&>());
  check(decoded.owner != nullptr, ErrorCode::format, "{}: data are not base64", subject);
  const std::optional<Index> needed = checked_stored_bytes(tensor.dtype, tensor.shape);
  check(needed && static_cast<std::uint64_t>(*needed) == decoded.bytes.size(), ErrorCode::format,
        "{}: shape {} of {} needs {} bytes, data have {}", subject, bracketed(tensor.shape), info(tensor.dtype).name,
        needed ? std::to_string(*needed) : "over 2^63", decoded.bytes.size());
  tensor.bytes = decoded.bytes;
  tensor.owner = std::move(decoded.owner);
  return tensor;
}

}  // namespace

JsonTensors parse_json_tensors(const FileBytes& file) {
  constexpr Index kMostBytes = Index{1} << 31;
  const Json document = parse_json(file.text(), file.path, {.max_bytes = kMostBytes, .object_at_top = true});
  JsonTensors result;
  result.checkpoint.path = file.path;
  result.checkpoint.format = "json";
  result.extra = Json::object();
  for (const auto& [name, value] : document.items()) {
    if (is_tensor(value))
      result.checkpoint.tensors.push_back(tensor_of(name, value, file.path));
    else
      members(result.extra).emplace_back(name, value);
  }
  return result;
}

}  // namespace kirchhoff::io
