#include "engine/edge_editor.h"
#include "engine/head_views.h"
#include "kirchhoff/kernels/gemm.h"

// What a backward does where a forward has replaced edges: difference = replacement - contribution has the gradient of
// all inputs that it was added to, and the writer's contribution minus that.
namespace kirchhoff::engine {

template <class Real>
void EdgeEditor<Real>::pull(const Reader& reader, View<const Real, 2> d) {
  const auto found = links_.find(key(reader));
  if (found == links_.end()) return;
  for (const Link& link : found->second) {
    const Set& set = sets_[link.set];
    Replaced& writer = sets_[link.set].writers[link.writer];
    if (writer.gradient.empty())
      writer.gradient = BasicTensor<Real>({static_cast<Index>(set.rows.size()), config_.d_model});
    const View<Real, 2> gradient = writer.gradient.template view<2>();
    for (std::size_t i = 0; i < set.rows.size(); ++i) {
      const std::span<const Real> from = d.row(set.rows[i].row);
      const std::span<Real> to = gradient.row(static_cast<Index>(i));
      for (std::size_t j = 0; j < to.size(); ++j) to[j] += from[j];
    }
  }
}

template <class Real>
void EdgeEditor<Real>::pull_writer(Writer::Kind kind, Index layer, View<Real, 2> d) const {
  for (const Set& set : sets_)
    for (const Replaced& writer : set.writers) {
      if (writer.writer.kind != kind || writer.writer.layer != layer || writer.gradient.empty()) continue;
      const View<const Real, 2> gradient = writer.gradient.template view<2>();
      for (std::size_t i = 0; i < set.rows.size(); ++i) {
        const std::span<const Real> from = gradient.row(static_cast<Index>(i));
        const std::span<Real> to = d.row(set.rows[i].row);
        for (std::size_t j = 0; j < to.size(); ++j) to[j] -= from[j];
      }
    }
}

/// With du = (gain * gradient, less its mean) W_O^h^T the gradient of -z / s: dz -= du / s, ds += du.z / s^2.
template <class Real>
void EdgeEditor<Real>::pull_heads(Index layer, ConstMatrix W_O, View<const Real, 2> z, const Real* scale, Real* dscale,
                                  View<Real, 2> dz) const {
  const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
  const Index d = config_.d_model, dh = config_.d_head;
  for (const Set& set : sets_)
    for (const Replaced& writer : set.writers) {
      if (writer.writer.kind != Writer::Kind::head || writer.writer.layer != layer || writer.gradient.empty()) continue;
      BasicTensor<Real> through = writer.gradient.clone();
      const View<Real, 2> rows = through.template view<2>();
      for (Index row = 0; row < rows.dim[0] && config_.post_norm; ++row) {
        Real mean{};
        for (Index i = 0; i < d; ++i) {
          if (w.ln1_post.w.present())
            rows(row, i) *= static_cast<Real>(w.ln1_post.w.f64()[static_cast<std::size_t>(i)]);
          mean += rows(row, i) / static_cast<Real>(d);
        }
        for (Index i = 0; i < d && config_.norm == NormKind::layer_norm; ++i) rows(row, i) -= mean;
      }
      auto du = BasicTensor<Real>::uninitialised({rows.dim[0], dh});
      const Index first = writer.writer.head * dh;
      kernels::gemm(
          kernels::BasicGemmProblem<Real>{.a = rows, .b = transposed(W_O.rows(first, dh)), .c = du.template view<2>()});
      for (std::size_t i = 0; i < set.rows.size(); ++i) {
        const Index row = set.rows[i].row;
        const Real s = scale == nullptr ? Real{1} : scale[row];
        for (Index j = 0; j < dh; ++j) {
          const Real value = du[static_cast<Index>(i) * dh + j];
          if (dz.data != nullptr) dz(row, first + j) -= value / s;
          if (dscale != nullptr) dscale[row] += value * z(row, first + j) / (s * s);
        }
      }
    }
}

template void EdgeEditor<float>::pull(const Reader&, View<const float, 2>);
template void EdgeEditor<double>::pull(const Reader&, View<const double, 2>);
template void EdgeEditor<float>::pull_writer(Writer::Kind, Index, View<float, 2>) const;
template void EdgeEditor<double>::pull_writer(Writer::Kind, Index, View<double, 2>) const;
template void EdgeEditor<float>::pull_heads(Index, ConstMatrix, View<const float, 2>, const float*, float*,
                                            View<float, 2>) const;
template void EdgeEditor<double>::pull_heads(Index, ConstMatrix, View<const double, 2>, const double*, double*,
                                             View<double, 2>) const;

}  // namespace kirchhoff::engine
