#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for uint8_t

#include "kirchhoff/base/error.h"
#include "kirchhoff/io/checkpoint.h"
#include "kirchhoff/io/mapped_file.h"

namespace kirchhoff::fuzz {

inline io::FileBytes input(const std::uint8_t* data, std::size_t size) {
  return {"input", std::as_bytes(std::span(data, size)), nullptr, 0};
}

/// Runs `parse`; an Error about the input is the right answer to most inputs, one about our own invariants is a bug.
template <class Parse>
int expect_value_or_error(Parse&& parse) {
  try {
    parse();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal) throw;
  }
  return 0;
}

/// What a parser accepted must decode.
inline void decode_all(const io::Checkpoint& checkpoint) {
  for (const io::StoredTensor& tensor : checkpoint.tensors) io::decode(tensor);
}

}  // namespace kirchhoff::fuzz
