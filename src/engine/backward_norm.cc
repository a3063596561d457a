// Norms, and how a sublayer reads the stream through one and writes to it.
#include "engine/backward.h"
#include "kirchhoff/kernels/embedding.h"
#include "kirchhoff/kernels/norm.h"
#include "kirchhoff/kernels/norm_backward.h"

namespace kirchhoff::engine {

template <class Real>
void Backward<Real>::norm(const NormCall& call) {
  if (call.sites && edits(*call.sites)) return edited_norm_backward(call);
  kernels::NormBackwardProblem<Real> problem{.x = call.x,
                                             .dout = call.dout,
                                             .dx = call.dx,
                                             .gain = values<Real>(call.weights.w),
                                             .eps = config_.norm_eps,
                                             .accumulate = call.accumulate,
                                             .detach_scale = options_.rules.detach_norm_scale};
  if (call.parameters) {
    problem.dgain = vector_gradient(call.name + ".w", call.weights.w);
    problem.dbias = vector_gradient(call.name + ".b", call.weights.b);
  }
  const Index rows = call.x.dim[0], width = call.x.dim[1];
  BasicTensor<Real> dscale, dnormalized, scale_seed, normalized_seed;
  const auto seed = [&](Site site, Index columns) {
    BasicTensor<Real> values({rows, columns});
    seeds_.add_to(site, call.sites->layer, values.template view<2>(), call.first_row);
    return values;
  };
  const bool records = call.sites && call.records;
  if (records && (passes(call.sites->scale, call.sites->layer) || call.dscale != nullptr)) {
    dscale = BasicTensor<Real>::uninitialised({rows, 1});
    problem.dscale = dscale.data();
    scale_seed = seed(call.sites->scale, 1);
    for (Index r = 0; r < rows && call.dscale != nullptr; ++r) scale_seed[r] += call.dscale[r];
    problem.scale_seed = scale_seed.data();
  }
  if (records && passes(call.sites->normalized, call.sites->layer)) {
    dnormalized = BasicTensor<Real>::uninitialised({rows, width});
    problem.dnormalized = dnormalized.template view<2>();
    normalized_seed = seed(call.sites->normalized, width);
    problem.normalized_seed = normalized_seed.template view<2>();
  }
  if (call.kind == NormKind::rms)
    kernels::rms_norm_backward(problem);
  else
    kernels::layer_norm_backward(problem);
  if (!dscale.empty()) recorder_(call.sites->scale, call.sites->layer, dscale.template view<2>(), call.first_row);
  if (!dnormalized.empty())
    recorder_(call.sites->normalized, call.sites->layer, dnormalized.template view<2>(), call.first_row);
}

template <class Real>
void Backward<Real>::write_stream(const NormWeights& post_norm, const std::string& name, const NormSites& sites,
                                  Site raw, Site added, const Real* dscale) {
  pass(added, sites.layer, dout_);
  if (config_.post_norm)
    norm({.kind = config_.norm,
          .weights = post_norm,
          .name = name,
          .x = kept(raw, sites.layer),
          .dout = dout_,
          .dx = dout_,
          .sites = sites,
          .dscale = dscale});
  pass(raw, sites.layer, dout_);
}

template <class Real>
void Backward<Real>::read_stream(const NormWeights& weights, const std::string& name, const NormSites& sites,
                                 Site input, ConstRows x, Rows dnormed) {
  const bool passes_here = input == Site::mlp_in && (passes(input, sites.layer) ||
                                                     own_mlp_input(sites.layer));  // attention's inputs are by head
  if (pre_norm())
    norm({.kind = config_.norm,
          .weights = weights,
          .name = name,
          .x = x,
          .dout = dnormed,
          .dx = passes_here ? dnormed : dx_,
          .sites = sites,
          .accumulate = !passes_here,
          .records = sites.scale != Site::ln1_scale || input == Site::attn_in});
  if (passes_here) {
    pass(input, sites.layer, dnormed);
    pull_edges({Reader::Kind::mlp, sites.layer}, dnormed);
  }
  if (passes_here || !pre_norm()) kernels::add(dx_, dnormed);
}

template <class Real>
View<const Real, 2> Backward<Real>::normed_input(const NormWeights& weights, const NormSites& sites, ConstRows x,
                                                 Rows buffer, Index first_row) {
  return pre_norm() ? norm_of(weights, sites, x, buffer, first_row) : x;
}

template <class Real>
View<const Real, 2> Backward<Real>::norm_of(const NormWeights& weights, const NormSites& sites, ConstRows x,
                                            Rows buffer, Index first_row) {
  if (edits(sites)) {
    edited_norm_forward(config_.norm, weights, sites, x, buffer, first_row);
    return buffer;
  }
  const kernels::NormProblem<Real> problem{
      .x = x, .out = buffer, .gain = values<Real>(weights.w), .bias = values<Real>(weights.b), .eps = config_.norm_eps};
  if (config_.norm == NormKind::rms)
    kernels::rms_norm(problem);
  else
    kernels::layer_norm(problem);
  return buffer;
}

// What the other files call.
template void Backward<float>::norm(const NormCall&);
template void Backward<float>::write_stream(const NormWeights&, const std::string&, const NormSites&, Site, Site,
                                            const float*);
template void Backward<float>::read_stream(const NormWeights&, const std::string&, const NormSites&, Site, ConstRows,
                                           Rows);
template View<const float, 2> Backward<float>::normed_input(const NormWeights&, const NormSites&, ConstRows, Rows,
                                                            Index);
template View<const float, 2> Backward<float>::norm_of(const NormWeights&, const NormSites&, ConstRows, Rows, Index);
template void Backward<double>::norm(const NormCall&);
template void Backward<double>::write_stream(const NormWeights&, const std::string&, const NormSites&, Site, Site,
                                             const double*);
template void Backward<double>::read_stream(const NormWeights&, const std::string&, const NormSites&, Site, ConstRows,
                                            Rows);
template View<const double, 2> Backward<double>::normed_input(const NormWeights&, const NormSites&, ConstRows, Rows,
                                                              Index);
template View<const double, 2> Backward<double>::norm_of(const NormWeights&, const NormSites&, ConstRows, Rows, Index);

}  // namespace kirchhoff::engine
