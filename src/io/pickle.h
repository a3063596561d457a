#pragma once
#include <cstdint>  // for int64_t, uint64_t
#include <deque>    // for deque
#include <memory>   // for shared_ptr
#include <string>   // for string
#include <utility>  // for pair
#include <variant>  // for variant
#include <vector>   // for vector

#include "kirchhoff/io/mapped_file.h"
#include "kirchhoff/tensor/dtype.h"
#include "kirchhoff/tensor/tensor.h"

namespace kirchhoff::io {

struct PickleValue;

/// list, tuple or torch.Size.
struct PickleSequence {
  std::vector<const PickleValue*> items;
  bool is_tuple = false;
};

/// dict or OrderedDict.
struct PickleDict {
  std::vector<std::pair<const PickleValue*, const PickleValue*>> items;
};

/// bytes, bytearray, and integers of more than 64 bits (little-endian two's complement).
struct PickleBytes {
  std::string bytes;
  bool is_integer = false;
};

/// A torch storage, named by its record in the archive.
struct PickleStorage {
  std::string key;
  DType dtype{};
  Index count = 0;  ///< elements, as claimed
  bool is_view = false;
};

/// What _rebuild_tensor_v2 was asked for; nothing of it is checked yet.
struct PickleTensor {
  std::shared_ptr<const PickleStorage> storage;
  DType dtype{};  ///< the storage's, unless that is untyped
  Index offset = 0;
  Shape shape, strides;
};

/// The only functions that a pickle may name. They are understood, not called.
enum class PickleCallable {
  ordered_dict,
  rebuild_tensor,
  rebuild_tensor_v2,
  rebuild_tensor_v3,
  rebuild_parameter,
  size,
  device,
  encode,
};

/// A torch storage class or dtype.
struct PickleTypeName {
  DType dtype{};
  bool untyped = false;  ///< UntypedStorage: counts bytes
};

struct PickleValue {
  std::variant<std::monostate, bool, std::int64_t, double, std::string, std::unique_ptr<PickleBytes>, PickleSequence,
               PickleDict, PickleCallable, PickleTypeName, std::shared_ptr<const PickleStorage>,
               std::unique_ptr<PickleTensor>>
      data;
  /// "a list", for messages.
  std::string_view kind() const;
};

/// What a pickle describes. Values may refer to each other in cycles; the arena owns them all.
struct Pickle {
  const PickleValue* top = nullptr;
  std::uint64_t consumed = 0;  ///< bytes up to and with STOP
  std::deque<PickleValue> arena;
};

/// Reads the first pickle (protocols 0 to 5) in `bytes`. Nothing is imported or called: a name outside PickleCallable
/// and torch's storage classes and dtypes is Error{unsupported} that says it ("posix.system"). `member` is what
/// messages call the pickle ("archive/data.pkl"), empty if it is the whole file.
Pickle parse_pickle(const FileBytes& bytes, const std::string& member);

}  // namespace kirchhoff::io
