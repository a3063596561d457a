#include "kirchhoff/io/torch_file.h"

#include <algorithm>      // for max
#include <unordered_set>  // for unordered_set

#include "io/checked_size.h"
#include "io/json_members.h"
#include "io/printable.h"
#include "io/strided_copy.h"
#include "io/torch_storages.h"
#include "kirchhoff/base/error.h"

namespace kirchhoff::io {
namespace {

using Json = nlohmann::ordered_json;

/// Walks through what the pickle describes and sorts it into tensors and the rest.
class Collector {
 public:
  Collector(const FileBytes& file, const StorageReader& storages) : path_(file.path), storages_(storages) {
    copies_left_ = 2 * file.size() + (std::uint64_t{64} << 20);
    // Each reference to a value takes two bytes; more visits than bytes are made only where shared parts contain shared
    // parts, so that a small pickle describes a huge tree.
    visits_left_ = std::max<std::uint64_t>(std::uint64_t{1} << 16, file.size());
  }

  TorchFile collect(const Pickle& pickle) {
    check(std::holds_alternative<PickleDict>(pickle.top->data), ErrorCode::format,
          "'{}': the top level is {}, expected a dict of named tensors (a state_dict)", path_, pickle.top->kind());
    result_.checkpoint.path = path_;
    result_.checkpoint.format = "torch";
    std::optional<Json> extra = visit(*pickle.top, "", 0);
    if (extra) result_.extra = std::move(*extra);
    return std::move(result_);
  }

 private:
  /// Collects the tensors below `value`; the rest as JSON, nothing where there are only tensors.
  std::optional<Json> visit(const PickleValue& value, const std::string& name, int depth) {
    constexpr int kDeepest = 64;
    check(depth <= kDeepest, ErrorCode::format, "'{}': {} is nested deeper than {}", path_, printable(name), kDeepest);
    check(visits_left_-- > 0, ErrorCode::format, "'{}': more values than a model file has use for", path_);
    if (const auto* tensor = std::get_if<std::unique_ptr<PickleTensor>>(&value.data)) {
      add_tensor(**tensor, name);
      return std::nullopt;
    }
    if (const auto* dict = std::get_if<PickleDict>(&value.data)) return visit_dict(*dict, name, depth);
    if (const auto* sequence = std::get_if<PickleSequence>(&value.data)) return visit_sequence(*sequence, name, depth);
    if (const auto* text = std::get_if<std::string>(&value.data)) {
      charge_text(text->size());
      return Json(*text);
    }
    if (const auto* number = std::get_if<std::int64_t>(&value.data)) return Json(*number);
    if (const auto* number = std::get_if<double>(&value.data)) return Json(*number);
    if (const auto* flag = std::get_if<bool>(&value.data)) return Json(*flag);
    if (const auto* type = std::get_if<PickleTypeName>(&value.data)) return Json(std::string(info(type->dtype).name));
    return Json(nullptr);  // None, bytes, huge integers, bare storages: nothing that a layout could use
  }

  std::optional<Json> visit_dict(const PickleDict& dict, const std::string& name, int depth) {
    Json result = Json::object();
    for (const auto& [key, value] : dict.items) {
      const std::string part = key_text(*key, name);
      charge_text(name.size() + part.size());
      if (std::optional<Json> rest = visit(*value, name.empty() ? part : name + "." + part, depth + 1))
        members(result).emplace_back(part, std::move(*rest));
    }
    if (result.empty() && !dict.items.empty()) return std::nullopt;
    return result;
  }

  std::optional<Json> visit_sequence(const PickleSequence& sequence, const std::string& name, int depth) {
    Json result = Json::array();
    bool only_tensors = !sequence.items.empty();
    for (std::size_t i = 0; i < sequence.items.size(); ++i) {
      std::optional<Json> rest = visit(*sequence.items[i], fmt::format("{}.{}", name, i), depth + 1);
      only_tensors = only_tensors && !rest;
      result.push_back(rest ? std::move(*rest) : Json(nullptr));
    }
    if (only_tensors) return std::nullopt;
    return result;
  }

  std::string key_text(const PickleValue& key, const std::string& where) const {
    if (const auto* text = std::get_if<std::string>(&key.data)) return *text;
    if (const auto* number = std::get_if<std::int64_t>(&key.data)) return std::to_string(*number);
    if (const auto* number = std::get_if<double>(&key.data)) return fmt::format("{}", *number);
    if (const auto* flag = std::get_if<bool>(&key.data)) return *flag ? "True" : "False";
    if (std::holds_alternative<std::monostate>(key.data)) return "None";
    fail(ErrorCode::unsupported, "'{}': a key of the dict {} is {}, expected a text or a number", path_,
         printable(where), key.kind());
  }

  void charge_text(std::size_t bytes) {
    const std::uint64_t visits = bytes / 64;
    check(visits <= visits_left_, ErrorCode::format, "'{}': more text than a model file has use for", path_);
    visits_left_ -= visits;
  }

  void add_tensor(const PickleTensor& tensor, const std::string& name) {
    const std::string subject = fmt::format("'{}': tensor {}", path_, printable(name));
    check(names_.insert(name).second, ErrorCode::format, "{} appears twice", subject);
    check(tensor.shape.size() == tensor.strides.size(), ErrorCode::format, "{}: shape {} with strides {}", subject,
          bracketed(tensor.shape), bracketed(tensor.strides));
    check(tensor.offset >= 0, ErrorCode::format, "{}: negative storage offset {}", subject, tensor.offset);
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      check(tensor.shape[i] >= 0, ErrorCode::format, "{}: negative size in shape {}", subject, bracketed(tensor.shape));
      check(tensor.strides[i] >= 0, ErrorCode::format, "{}: negative stride in {}", subject, bracketed(tensor.strides));
    }
    const std::optional<Index> bytes = checked_stored_bytes(tensor.dtype, tensor.shape);
    check(bytes.has_value(), ErrorCode::format, "{}: the size of shape {} overflows 64 bits", subject,
          bracketed(tensor.shape));
    StoredTensor stored{name, tensor.dtype, tensor.shape, {}, 0, path_, nullptr};
    if (*bytes > 0) place(tensor, name, subject, static_cast<std::uint64_t>(*bytes), stored);
    result_.checkpoint.tensors.push_back(std::move(stored));
  }

  /// Borrows or copies the elements out of the storage.
  void place(const PickleTensor& tensor, const std::string& name, const std::string& subject, std::uint64_t bytes,
             StoredTensor& stored) {
    const FileBytes storage = storages_(*tensor.storage, name);
    const Index element = info(tensor.dtype).block_bytes;
    const Index elements = static_cast<Index>(storage.size()) / element;
    Index last = tensor.offset;  // the furthest element that is reached
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      Index step = 0;
      const bool overflows = __builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &step) ||
                             __builtin_add_overflow(last, step, &last);
      check(!overflows, ErrorCode::format, "{}: strides {} overflow 64 bits", subject, bracketed(tensor.strides));
    }
    check(last < elements, ErrorCode::format,
          "{}: shape {}, strides {} and offset {} reach element {} of a storage of {}", subject,
          bracketed(tensor.shape), bracketed(tensor.strides), tensor.offset, last, elements);
    const auto first = static_cast<std::uint64_t>(tensor.offset * element);
    if (is_row_major(tensor.shape, tensor.strides)) {
      stored.bytes = storage.bytes.subspan(first, bytes);
      stored.owner = storage.owner;
      stored.file_offset = storage.offset == 0 ? 0 : storage.offset + first;
      return;
    }
    check(bytes <= copies_left_, ErrorCode::unsupported,
          "{}: shape {} with strides {} expands to {} bytes, too much for its file", subject, bracketed(tensor.shape),
          bracketed(tensor.strides), bytes);
    copies_left_ -= bytes;
    const auto memory = copy_row_major(storage.bytes.data() + first, tensor.shape, tensor.strides, element);
    stored.bytes = {memory.get(), bytes};
    stored.owner = memory;
  }

  const std::string& path_;
  const StorageReader& storages_;
  TorchFile result_;
  std::unordered_set<std::string> names_;
  std::uint64_t copies_left_ = 0, visits_left_ = 0;
};

}  // namespace

TorchFile parse_torch(const FileBytes& file) {
  const TorchParts parts = file.text().starts_with("PK") ? open_torch_zip(file) : open_torch_legacy(file);
  return Collector(file, parts.storages).collect(parts.pickle);
}

TorchFile read_torch(const std::string& path) { return parse_torch(map_file(path)); }

}  // namespace kirchhoff::io
