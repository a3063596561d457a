#pragma once
#include <cstdint>      // for uint32_t
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "kirchhoff/io/atomic_file.h"

namespace kirchhoff::tools {

/// The header of a GGUF 3 file, collected and written before the tensors' data, which follow in the order of
/// `add_tensor`.
class GgufWriter {
 public:
  void add_text(std::string_view key, std::string_view value);
  void add_integer(std::string_view key, std::uint32_t value);
  void add_number(std::string_view key, float value);
  void add_texts(std::string_view key, const std::vector<std::string>& values);
  void add_integers(std::string_view key, const std::vector<std::int32_t>& values);
  /// `ggml_dims`: the contiguous dimension first.
  void add_tensor(std::string_view name, const std::vector<std::uint64_t>& ggml_dims, std::uint32_t ggml_type,
                  std::uint64_t bytes);
  void write_header(io::AtomicFile& file) const;
  /// Zeros up to the next tensor's place.
  static void align(io::AtomicFile& file);

 private:
  template <class T>
  void put(std::string& to, T value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put_text(std::string& to, std::string_view value);
  void key(std::string_view name, std::uint32_t type);

  std::string values_, tensors_;
  std::uint64_t n_values_ = 0, n_tensors_ = 0, data_bytes_ = 0;
};

}  // namespace kirchhoff::tools
