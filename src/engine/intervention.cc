#include "kirchhoff/engine/intervention.h"

#include <algorithm>  // for find

#include "kirchhoff/engine/sites.h"

namespace kirchhoff {
namespace {

template <class From, class To>
void read_strided(const BasicTensor<From>& values, Index first, Index step, std::span<To> out) {
  const From* from = values.data() + first;
  for (To& to : out) {
    to = static_cast<To>(*from);
    from += step;
  }
}

template <class To>
void read_either(const Tensor* f32, const TensorF64* f64, Index first, Index step, std::span<To> out) {
  if (f32 != nullptr)
    read_strided(*f32, first, step, out);
  else
    read_strided(*f64, first, step, out);
}

template <class T>
BasicTensor<T> tensor_of(std::span<const T> values) {
  auto tensor = BasicTensor<T>::uninitialised({static_cast<Index>(values.size())});
  std::copy(values.begin(), values.end(), tensor.data());
  return tensor;
}

void append_once(std::vector<std::string>& names, std::string name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
}

}  // namespace

Values::Values(double everywhere) {
  TensorF64 scalar{Shape{}};
  scalar[0] = everywhere;
  f64_ = std::make_shared<const TensorF64>(std::move(scalar));
}

Values Values::row(std::span<const double> values) { return Values(tensor_of(values)); }
Values Values::row(std::span<const float> values) { return Values(tensor_of(values)); }

const Shape& Values::shape() const { return f32_ != nullptr ? f32_->shape() : f64_->shape(); }

void Values::read(Index first, Index step, std::span<float> out) const {
  read_either(f32_.get(), f64_.get(), first, step, out);
}
void Values::read(Index first, Index step, std::span<double> out) const {
  read_either(f32_.get(), f64_.get(), first, step, out);
}

std::string_view name(Edit edit) {
  switch (edit) {
    case Edit::set:
      return "set";
    case Edit::add:
      return "add";
    case Edit::scale:
      return "scale";
    case Edit::zero:
      return "zero";
    case Edit::mean:
      return "mean";
    case Edit::mean_all:
      return "mean over all positions";
    case Edit::resample:
      return "resample";
    case Edit::project_out:
      return "project out";
  }
  return {};
}

std::vector<std::string> edge_sites(const ModelConfig& config, std::span<const Edge> edges) {
  std::vector<std::string> names;
  for (const Edge& edge : edges) {
    const Writer& w = edge.writer;
    switch (w.kind) {
      case Writer::Kind::embed:
        append_once(names, site_name(Site::resid_pre, 0));
        break;
      case Writer::Kind::token:
        append_once(names, site_name(Site::embed));
        break;
      case Writer::Kind::position:
        append_once(names, site_name(Site::pos_embed));
        break;
      case Writer::Kind::head:
        append_once(names, site_name(Site::z, w.layer));
        if (config.post_norm) append_once(names, site_name(Site::ln1_post_scale, w.layer));
        break;
      case Writer::Kind::mlp:
        append_once(names, site_name(Site::mlp_out, w.layer));
        break;
    }
  }
  return names;
}

}  // namespace kirchhoff
