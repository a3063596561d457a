#pragma once
#include <string>       // for string
#include <string_view>  // for string_view

#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff::io {

/// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}
struct NumpyHeader {
  std::string descr;
  bool fortran_order = false;
  Shape shape;  ///< no negative sizes
};

/// Parses the header's Python literal. `subject` begins each message: "'FILE': array 'w'".
NumpyHeader parse_numpy_header(std::string_view text, const std::string& subject);

}  // namespace kirchhoff::io
