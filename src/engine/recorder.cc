#include "engine/recorder.h"

#include <algorithm>  // for copy, copy_n, fill_n, max, min
#include <cstring>    // for memmove

#include "kirchhoff/base/parallel.h"

namespace kirchhoff::engine {

template <class Real>
Recorder<Real>::Recorder(const ModelConfig& config, const BatchLayout& layout, const std::vector<std::string>& names,
                         BasicTrace<Real>& trace)
    : layout_(layout),
      n_layers_(std::max<Index>(1, config.n_layers)),
      slots_(static_cast<std::size_t>(kSiteCount * n_layers_)) {
  for (const std::string& pattern : names) {
    for (const SiteRef& ref : find_sites(config, pattern)) {
      auto [entry, is_new] = trace.sites.try_emplace(site_name(ref));
      if (is_new) entry->second = allocate(config, ref.site);
      slots_[static_cast<std::size_t>(static_cast<Index>(ref.site) * n_layers_ + ref.layer)] = &entry->second;
    }
  }
}

template <class Real>
BasicTensor<Real> Recorder<Real>::allocate(const ModelConfig& c, Site site) const {
  Shape shape{layout_.batch()};
  std::vector<std::string> axes{"batch"};
  for (const Axis axis : info(site).axes) {
    if (axis == Axis::none) continue;
    axes.emplace_back(name(axis));
    switch (axis) {
      case Axis::none:
        break;
      case Axis::pos:
      case Axis::query_pos:
        shape.push_back(layout_.longest());
        break;
      case Axis::key_pos:
        shape.push_back(layout_.keys());
        break;
      case Axis::head:
        shape.push_back(c.n_heads);
        break;
      case Axis::kv_head:
        shape.push_back(c.n_kv_heads);
        break;
      case Axis::one:
        shape.push_back(1);
        break;
      case Axis::d_head:
        shape.push_back(c.d_head);
        break;
      case Axis::d_model:
        shape.push_back(c.d_model);
        break;
      case Axis::d_mlp:
        shape.push_back(c.d_mlp);
        break;
      case Axis::d_vocab:
        shape.push_back(c.d_vocab_out);
        break;
    }
  }
  if (layout_.padded()) return BasicTensor<Real>(std::move(shape), std::move(axes));
  return BasicTensor<Real>::uninitialised(std::move(shape), std::move(axes));
}

template <class Real>
void Recorder<Real>::operator()(Site site, Index layer, View<const Real, 2> values, Index first_row) {
  if (also_ != nullptr) (*also_)(site, layer, values, first_row);
  BasicTensor<Real>* tensor = slot(site, layer);
  if (tensor == nullptr) return;
  const Index width = values.dim[1];
  constexpr Index kTaskValues = Index{1} << 16;
  const Index of_sequence = std::max<Index>(1, values.size() / layout_.batch());
  parallel_for_blocks(layout_.batch(), kTaskValues / of_sequence, [&](Index first, Index last) {
    for (Index s = first; s < last; ++s) {
      const Index begin = std::max(first_row, layout_.first_row(s));
      const Index end = std::min(first_row + values.dim[0], layout_.first_row(s + 1));
      for (Index row = begin; row < end; ++row)
        std::copy_n(values.row(row - first_row).data(), width, tensor->data() + layout_.padded_row(s, row) * width);
    }
  });
}

template <class Real>
void Recorder<Real>::for_each_head(Site site, Index layer, View<const Real, 2> values) {
  BasicTensor<Real>* tensor = slot(site, layer);
  if (tensor == nullptr) return;
  for (Index s = 0; s < layout_.batch(); ++s) {
    const View<Real, 3> out = pos_head(site, layer, s);
    for (Index row = layout_.first_row(s); row < layout_.first_row(s + 1); ++row)
      for (Index h = 0; h < out.dim[1]; ++h)
        std::copy_n(values.row(row).data(), values.dim[1], &out(layout_.token_of(s, row), h, 0));
  }
}

template <class Real>
void Recorder<Real>::head_of_row(Site site, Index layer, Index row, Index head, std::span<const Real> values) {
  if (!wants(site, layer)) return;
  const Index sequence = layout_.sequence_of(row);
  const View<Real, 3> heads = pos_head(site, layer, sequence);
  std::copy(values.begin(), values.end(), &heads(layout_.token_of(sequence, row), head, 0));
}

template <class Real>
View<Real, 3> Recorder<Real>::head_query_key(Site site, Index layer, Index sequence) {
  BasicTensor<Real>* tensor = slot(site, layer);
  if (tensor == nullptr) return {};
  // A padded sequence's keys are padded as its queries are (with a cache there is one sequence, and no padding).
  View<Real, 3> view = tensor->template view<4>().at(sequence);
  const Index pad = layout_.padding_before(sequence);
  view.data += pad * view.stride[1] + pad;
  view.dim[1] = layout_.length(sequence);
  view.dim[2] = layout_.past() + layout_.length(sequence);
  return view;
}

template <class Real>
View<Real, 3> Recorder<Real>::pos_head(Site site, Index layer, Index sequence) {
  BasicTensor<Real>* tensor = slot(site, layer);
  if (tensor == nullptr) return {};
  return tensor->template view<4>().at(sequence).rows(layout_.padding_before(sequence), layout_.length(sequence));
}

template <class Real>
View<Real, 2> Recorder<Real>::padded_rows(Site site, Index layer) {
  BasicTensor<Real>* tensor = slot(site, layer);
  if (tensor == nullptr) return {};
  const Index rows = layout_.batch() * layout_.longest();
  return {tensor->data(), {rows, tensor->size() / rows}};
}

template <class Real>
void spread_rows(const BatchLayout& layout, View<Real, 2> padded) {
  if (!layout.padded()) return;
  const Index width = padded.dim[1];
  for (Index s = layout.batch() - 1; s >= 0; --s) {  // from the last, because a row only ever moves down
    const Index length = layout.length(s), pad = layout.padding_before(s);
    Real* const from = padded.data + layout.first_row(s) * width;
    Real* const block = padded.data + s * layout.longest() * width;
    std::memmove(block + pad * width, from, static_cast<std::size_t>(length * width) * sizeof(Real));
    std::fill_n(block, pad * width, Real{});
    std::fill_n(block + (pad + length) * width, (layout.longest() - pad - length) * width, Real{});
  }
}

template class Recorder<float>;
template class Recorder<double>;
template void spread_rows(const BatchLayout&, View<float, 2>);
template void spread_rows(const BatchLayout&, View<double, 2>);

}  // namespace kirchhoff::engine
