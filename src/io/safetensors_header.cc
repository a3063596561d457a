#include "io/safetensors_header.h"

#include <nlohmann/json.hpp>

#include "io/checked_size.h"
#include "io/dtype_names.h"
#include "io/json_error.h"
#include "io/printable.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::io {
namespace {

/// {"name": {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}, ..., "__metadata__": {"key": "text"}}
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  bool null() { return refuse("null"); }
  bool boolean(bool value) { return refuse(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) { return refuse(std::to_string(value)); }
  bool number_float(double, const std::string& value) { return refuse(value); }
  bool binary(nlohmann::json::binary_t&) { return false; }

  bool number_unsigned(std::uint64_t value) {
    if (place_ != Place::array) return refuse(std::to_string(value));
    if (field_ == Field::shape) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<Index>::max())) {
        fail(ErrorCode::format, "'{}': tensor {}: shape with the size {} overflows 64 bits", path_,
             printable(entry().name), value);
      }
      entry().shape.push_back(static_cast<Index>(value));
    } else {
      if (offsets_ == 2) return refuse("more than two numbers");
      entry().offsets[offsets_++] = value;
    }
    return true;
  }

  bool string(std::string& value) {
    if (place_ == Place::metadata) {
      const bool is_new = header_.metadata.emplace(metadata_key_, std::move(value)).second;
      check(is_new, ErrorCode::format, "'{}': duplicate key {} in __metadata__", path_, printable(metadata_key_));
      return true;
    }
    if (place_ != Place::tensor || field_ != Field::dtype) return refuse(printable(value));
    entry().dtype_name = value;
    entry().dtype = dtype_from_safetensors(value);
    return true;
  }

  bool start_object(std::size_t) {
    if (place_ == Place::outside) {
      place_ = Place::top;
    } else if (place_ == Place::top) {
      place_ = key_ == "__metadata__" ? Place::metadata : Place::tensor;
      if (place_ == Place::tensor) {
        check(header_.entries.size() < most_tensors(text_.size()), ErrorCode::format,
              "'{}': more than {} tensors in a header of {} bytes", path_, header_.entries.size(), text_.size());
        header_.entries.emplace_back().name = std::move(key_);
        seen_ = {};
      } else {
        check(!has_metadata_, ErrorCode::format, "'{}': duplicate key '__metadata__' in the header", path_);
        has_metadata_ = true;
      }
    } else {
      return refuse("an object");
    }
    return true;
  }

  bool key(std::string& name) {
    if (place_ == Place::top) {
      key_ = std::move(name);
    } else if (place_ == Place::metadata) {
      metadata_key_ = std::move(name);
    } else {
      field_ = name == "dtype" ? Field::dtype : name == "shape" ? Field::shape : Field::data_offsets;
      check(field_ != Field::data_offsets || name == "data_offsets", ErrorCode::format,
            "'{}': tensor {}: unknown key {} (expected dtype, shape, data_offsets)", path_, printable(entry().name),
            printable(name));
      bool& seen = seen_[static_cast<std::size_t>(field_)];
      check(!seen, ErrorCode::format, "'{}': tensor {}: duplicate key '{}'", path_, printable(entry().name), name);
      seen = true;
    }
    return true;
  }

  bool end_object() {
    if (place_ == Place::tensor) {
      constexpr std::array<std::string_view, 3> kFields{"dtype", "shape", "data_offsets"};
      for (std::size_t i = 0; i < kFields.size(); ++i)
        check(seen_[i], ErrorCode::format, "'{}': tensor {}: '{}' is missing", path_, printable(entry().name),
              kFields[i]);
    }
    place_ = place_ == Place::top ? Place::outside : Place::top;
    return true;
  }

  bool start_array(std::size_t) {
    check(place_ != Place::outside, ErrorCode::format, "'{}': the header is a JSON array, expected a JSON object",
          path_);
    if (place_ != Place::tensor || field_ == Field::dtype) return refuse("an array");
    place_ = Place::array;
    offsets_ = 0;
    return true;
  }

  bool end_array() {
    check(field_ == Field::shape || offsets_ == 2, ErrorCode::format,
          "'{}': tensor {}: data_offsets has {} numbers, expected 2", path_, printable(entry().name), offsets_);
    place_ = Place::tensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) {
    fail(ErrorCode::format, "'{}': the header is not valid JSON at its byte {}: {}", path_, position,
         json_complaint(text_, position, error.what()));
  }

  SafetensorsHeader take() { return std::move(header_); }

 private:
  enum class Place { outside, top, metadata, tensor, array };
  enum class Field { dtype, shape, data_offsets };

  HeaderEntry& entry() { return header_.entries.back(); }

  /// A value of a type that does not belong where it stands.
  bool refuse(const std::string& value) {
    constexpr std::array<std::string_view, 3> kExpected{"dtype with a text", "shape with integers >= 0",
                                                        "data_offsets with two integers >= 0"};
    switch (place_) {
      case Place::outside:
        fail(ErrorCode::format, "'{}': the header is {}, expected a JSON object", path_, value);
      case Place::top:
        fail(ErrorCode::format, "'{}': header key {} is {}, expected an object", path_, printable(key_), value);
      case Place::metadata:
        fail(ErrorCode::format, "'{}': __metadata__ key {} is {}, expected a text", path_, printable(metadata_key_),
             value);
      case Place::tensor:
      case Place::array:
        fail(ErrorCode::format, "'{}': tensor {}: found {}, expected {}", path_, printable(entry().name), value,
             kExpected[static_cast<std::size_t>(field_)]);
    }
    return false;
  }

  std::string_view text_;
  const std::string& path_;
  SafetensorsHeader header_;
  Place place_ = Place::outside;
  Field field_ = Field::dtype;
  std::array<bool, 3> seen_{};
  std::size_t offsets_ = 0;
  std::string key_, metadata_key_;
  bool has_metadata_ = false;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, const std::string& path) {
  refuse_nul(text, fmt::format("'{}': the header", path));
  HeaderReader reader(text, path);
  nlohmann::json::sax_parse(text, &reader);
  return reader.take();
}

}  // namespace kirchhoff::io
