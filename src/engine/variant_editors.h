#pragma once
#include <algorithm>  // for max
#include <map>        // for map
#include <memory>     // for make_unique, unique_ptr
#include <span>       // for span
#include <vector>     // for vector

#include "engine/edge_editor.h"
#include "engine/editor.h"

namespace kirchhoff::engine {

/// The editors of the variants that go through a resumed run together. Each knows the sequences of the base, and
/// nothing of the others.
template <class Real>
class VariantEditors {
 public:
  /// Error{usage} as Editor and EdgeEditor; `model` and `base` must outlive it.
  VariantEditors(const Model& model, const BatchLayout& base, std::span<const Interventions> variants)
      : base_(base),
        config_(model.config),
        n_layers_(std::max<Index>(1, config_.n_layers)),
        wanting_(static_cast<std::size_t>(kSiteCount * n_layers_)),
        gates_(static_cast<std::size_t>(n_layers_)) {
    for (const Interventions& variant : variants) {
      const Index number = count();
      const Editor<Real>& editor = *editors_.emplace_back(std::make_unique<Editor<Real>>(config_, base, variant));
      for (std::size_t slot = 0; slot < wanting_.size(); ++slot)
        if (editor.wants(static_cast<Site>(static_cast<Index>(slot) / n_layers_), static_cast<Index>(slot) % n_layers_))
          wanting_[slot].push_back(number);
      for (Index layer = 0; layer < n_layers_; ++layer)
        if (editor.wants_gates(layer)) gates_[static_cast<std::size_t>(layer)].push_back(number);

      edges_.push_back(std::make_unique<EdgeEditor<Real>>(model, base, variant, editor));
      for (const auto& reader : edges_.back()->readers()) reading_[reader].push_back(number);
      if (!edges_.back()->empty()) with_edges_.push_back(number);
    }
  }

  Index count() const { return static_cast<Index>(editors_.size()); }
  const BatchLayout& base() const { return base_; }
  const Editor<Real>& operator[](Index variant) const { return *editors_[static_cast<std::size_t>(variant)]; }
  /// The variants that edit a site, and the gates of an MLP.
  const std::vector<Index>& wanting(Site site, Index layer) const {
    return wanting_[static_cast<std::size_t>(static_cast<Index>(site) * n_layers_ + layer)];
  }
  const std::vector<Index>& wanting_gates(Index layer) const { return gates_[static_cast<std::size_t>(layer)]; }
  bool wants(Site site, Index layer) const { return !wanting(site, layer).empty(); }

  /// The variants that change what a reader sees; those with edges at all.
  const std::vector<Index>& reading(const Reader& reader) const {
    static const std::vector<Index> none;
    const auto found = reading_.find(EdgeEditor<Real>::key(config_, reader));
    return found == reading_.end() ? none : found->second;
  }
  const std::vector<Index>& with_edges() const { return with_edges_; }
  EdgeEditor<Real>& edges(Index variant) const { return *edges_[static_cast<std::size_t>(variant)]; }

 private:
  const BatchLayout& base_;
  const ModelConfig& config_;
  Index n_layers_;
  std::vector<std::unique_ptr<Editor<Real>>> editors_;
  std::vector<std::unique_ptr<EdgeEditor<Real>>> edges_;
  std::vector<std::vector<Index>> wanting_, gates_;  // by site and layer, by layer
  std::map<typename EdgeEditor<Real>::Key, std::vector<Index>> reading_;
  std::vector<Index> with_edges_;
};

}  // namespace kirchhoff::engine
