#include "engine/tape.h"

#include <algorithm>  // for max, min

#include "kirchhoff/kernels/embedding.h"

namespace kirchhoff::engine {

template <class Real>
Tape<Real>::Tape(const ModelConfig& config, const BatchLayout& layout, const std::vector<std::string>& sites)
    : one_sequence_{Tokens(static_cast<std::size_t>(layout.rows()))},
      layout_(one_sequence_, 0, true),
      recorder_(config, layout_, sites, trace_) {}

template <class Real>
View<const Real, 2> Tape<Real>::at(Site site, Index layer) const {
  const BasicTensor<Real>& tensor = trace_.at(site_name(site, layer));
  return {tensor.data(), {layout_.rows(), tensor.size() / layout_.rows()}};
}

template <class Real>
void Tape<Real>::forget(Index layer) {
  const std::string prefix =
      site_name(Site::resid_pre, layer).substr(0, site_name(Site::resid_pre, layer).find("hook"));
  for (auto& [name, tensor] : trace_.sites)
    if (name.starts_with(prefix)) tensor = {};
}

template <class Real>
Seeds<Real>::Seeds(const ModelConfig& config, const BatchLayout& layout, const std::string& site,
                   const TensorF64* coefficients)
    : layout_(layout),
      recorder_(config, layout, site.empty() ? std::vector<std::string>{} : std::vector<std::string>{site}, trace_) {
  if (site.empty()) return;
  check(trace_.sites.contains(site), ErrorCode::usage,
        "metric: '{}' is no site's full name, as a metric that reads one site needs it", site);
  BasicTensor<Real>& seeds = trace_.sites.at(site);
  const Index each = seeds.size() / seeds.dim(0);
  for (Index s = 0; s < seeds.dim(0); ++s)
    for (Index i = 0; i < each; ++i)
      seeds[s * each + i] = static_cast<Real>((*coefficients)[(coefficients->dim(0) == 1 ? 0 : s * each) + i]);
}

template <class Real>
void Seeds<Real>::add_to(Site site, Index layer, View<Real, 2> d, Index first_row) {
  if (!wants(site, layer)) return;
  const View<const Real, 2> padded = recorder_.padded_rows(site, layer);
  for (Index s = 0; s < layout_.batch(); ++s) {
    const Index begin = std::max(first_row, layout_.first_row(s));
    const Index end = std::min(first_row + d.dim[0], layout_.first_row(s) + layout_.length(s));
    if (begin >= end) continue;
    const Index at = s * layout_.longest() + layout_.padding_before(s) + begin - layout_.first_row(s);
    kernels::add(d.rows(begin - first_row, end - begin), padded.rows(at, end - begin));
  }
}

template <class Real>
void Seeds<Real>::add_sum_of_heads(Site site, Index layer, View<Real, 2> d) {
  if (!wants(site, layer)) return;
  for (Index s = 0; s < layout_.batch(); ++s) {
    const View<const Real, 3> seed = pos_head(site, layer, s);
    const View<Real, 2> rows = d.rows(layout_.first_row(s), layout_.length(s));
    for (Index h = 0; h < seed.dim[1]; ++h)
      kernels::add(rows, View<const Real, 2>(seed.data + h * seed.stride[1], rows.dim, {seed.stride[0], 1}));
  }
}

template class Tape<float>;
template class Tape<double>;
template class Seeds<float>;
template class Seeds<double>;

}  // namespace kirchhoff::engine
