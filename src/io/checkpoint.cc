#include "kirchhoff/io/checkpoint.h"

#include <algorithm>  // for find

namespace kirchhoff::io {

const StoredTensor* Checkpoint::find(std::string_view name) const {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const StoredTensor& t) { return t.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

}  // namespace kirchhoff::io
