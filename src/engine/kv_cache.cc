#include "kirchhoff/engine/kv_cache.h"

#include <algorithm>  // for copy_n, max

namespace kirchhoff {

KvCache::KvCache(const ModelConfig& config)
    : width_(config.n_kv_heads * config.d_head),
      keys_(static_cast<std::size_t>(config.n_layers)),
      values_(static_cast<std::size_t>(config.n_layers)),
      unsmeared_(static_cast<std::size_t>(config.smeared_keys ? config.n_layers : 0)) {}

Index KvCache::bytes() const {
  const auto tensors = static_cast<Index>(keys_.size() + values_.size() + unsmeared_.size());
  return tensors * capacity_ * width_ * static_cast<Index>(sizeof(float));
}

void KvCache::truncate(Index length) {
  check(length >= 0 && length <= length_, ErrorCode::usage, "cannot keep {} tokens of a key-value cache that holds {}",
        length, length_);
  length_ = length;
}

void KvCache::reserve(Index tokens) {
  if (tokens <= capacity_) return;
  const Index capacity = std::max({tokens, 2 * capacity_, Index{64}});
  for (std::vector<Tensor>* tensors : {&keys_, &values_, &unsmeared_}) {
    for (Tensor& old : *tensors) {
      Tensor grown = Tensor::uninitialised({capacity, width_}, {"pos", "kv_head_d_head"});
      std::copy_n(old.data(), length_ * width_, grown.data());
      old = std::move(grown);
    }
  }
  capacity_ = capacity;
}

Matrix KvCache::keys(Index layer, Index tokens) {
  return keys_[static_cast<std::size_t>(layer)].view<2>().rows(0, tokens);
}

Matrix KvCache::values(Index layer, Index tokens) {
  return values_[static_cast<std::size_t>(layer)].view<2>().rows(0, tokens);
}

Matrix KvCache::unsmeared_keys(Index layer, Index tokens) {
  return unsmeared_[static_cast<std::size_t>(layer)].view<2>().rows(0, tokens);
}

bool KvCache::fits(const ModelConfig& config) const {
  return width_ == config.n_kv_heads * config.d_head && static_cast<Index>(keys_.size()) == config.n_layers &&
         unsmeared_.empty() != config.smeared_keys;
}

}  // namespace kirchhoff
