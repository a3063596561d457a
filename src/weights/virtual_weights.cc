#include "kirchhoff/weights/virtual_weights.h"

#include <algorithm>  // for max, min
#include <cmath>      // for sqrt
#include <utility>    // for move

#include "weights/reduced.h"
#include "weights/stream_rows.h"

namespace kirchhoff {
namespace {

using stream_rows::Axis;

/// A side T [r, d_model] with T^T T its Gram, and T's pseudo-inverse transposed, [r, d_model]: rows times a row of it
/// are a column of Q where W = Q T.
struct Root {
  TensorF64 factor, inverse;
};

/// From a Gram's eigenvalues: T = diag(sqrt(l)) P^T, without those that rounding has made.
Root root_of(const TensorF64& gram, double least) {
  const dense::SymmetricEigen eigen = dense::symmetric_eigen(gram.view<2>());
  const Index d = gram.dim(0);
  Index rank = 0;
  while (rank < d && eigen.values[static_cast<std::size_t>(rank)] > least * eigen.values.front()) ++rank;
  Root root{TensorF64({rank, d}), TensorF64({rank, d})};
  for (Index r = 0; r < rank; ++r) {
    const double scale = std::sqrt(eigen.values[static_cast<std::size_t>(r)]);
    for (Index i = 0; i < d; ++i) {
      root.factor[r * d + i] = scale * eigen.vectors[i * d + r];
      root.inverse[r * d + i] = eigen.vectors[i * d + r] / scale;
    }
  }
  return root;
}

/// Of a head, whose factor is exact: its Gram has rank d_head.
Root root_of_factor(const TensorF64& factor) {
  const dense::Svd svd = dense::svd(factor.view<2>());  // factor = u s v^T; T = s v^T
  Index rank = 0;
  while (rank < static_cast<Index>(svd.s.size()) && svd.s[static_cast<std::size_t>(rank)] > 1e-12 * svd.s.front())
    ++rank;
  const Index d = factor.dim(1), columns = svd.v.dim(1);
  Root root{TensorF64({rank, d}), TensorF64({rank, d})};
  for (Index r = 0; r < rank; ++r)
    for (Index i = 0; i < d; ++i) {
      const double s = svd.s[static_cast<std::size_t>(r)];
      root.factor[r * d + i] = s * svd.v[i * columns + r];
      root.inverse[r * d + i] = svd.v[i * columns + r] / s;
    }
  return root;
}

constexpr double kLeastOfGram = 1e-6;  ///< eigenvalues below it, relative, are what float products leave

Root written_root(const Model& model, const Party& party, const HeadForm& form, const stream_rows::Rows& rows) {
  if (party.kind == PartyKind::head)
    return root_of_factor(reduced::written(head_matrices(model, party.chain, {.raw = form.raw, .offset = 0})));
  return root_of(stream_rows::gram(rows, model.config.d_model), kLeastOfGram);
}

Root read_root(const Model& model, const Party& party, StreamInput input, const HeadForm& form,
               const stream_rows::Rows& rows) {
  if (party.kind != PartyKind::head) return root_of(stream_rows::gram(rows, model.config.d_model), kLeastOfGram);
  const HeadMatrices head = head_matrices(model, party.chain, form);
  if (input == StreamInput::q) return root_of_factor(reduced::read_by_q(head));
  return root_of_factor(input == StreamInput::k ? reduced::read_by_k(head) : reduced::read_by_v(head));
}

/// |T^T T|^2 of a side scaled to a Gram of trace 1.
double evenness(const Root& root, double norm) {
  const TensorF64 inner = dense::product(root.factor.view<2>(), transposed(root.factor.view<2>()));
  return dense::inner(inner.view<2>(), inner.view<2>()) / (norm * norm * norm * norm);
}

/// Column j of `basis` [r, n] back in the stream: a row of [d_model] that the side's rows are multiplied with.
std::vector<double> in_the_stream(const Root& root, const TensorF64& basis, Index j) {
  const Index d = root.inverse.dim(1), n = basis.dim(1);
  std::vector<double> direction(static_cast<std::size_t>(d), 0.0);
  for (Index r = 0; r < root.inverse.dim(0); ++r)
    for (Index i = 0; i < d; ++i) direction[static_cast<std::size_t>(i)] += basis[r * n + j] * root.inverse[r * d + i];
  return direction;
}

WeightAxis axis_of(Axis axis) {
  switch (axis) {
    case Axis::token:
    case Axis::stream:
      return WeightAxis::token;
    case Axis::out_token:
    case Axis::written:
      return WeightAxis::out_token;
    case Axis::position:
      return WeightAxis::position;
    case Axis::neuron:
      return WeightAxis::neuron;
  }
  return WeightAxis::token;
}

bool of_stream(Axis axis) { return axis == Axis::stream || axis == Axis::written; }

/// A unit vector over the side's rows, or, where these are directions of the stream, what it is to the vocabulary.
DirectionSide side_of(const Model& model, const HeadForm& form, const stream_rows::Rows& rows,
                      std::span<const double> direction, Index top) {
  const std::vector<float> values = stream_rows::along(rows, direction);
  if (!of_stream(rows.axis)) return extremes(values, top);
  const stream_rows::Rows vocabulary =
      rows.axis == Axis::stream
          ? stream_rows::written_rows(model, {.kind = PartyKind::embed}, form)
          : stream_rows::read_rows(model, {.kind = PartyKind::unembed}, StreamInput::logits, form);
  const std::vector<double> unit(values.begin(), values.end());
  return extremes(stream_rows::along(vocabulary, unit), top);
}

}  // namespace

std::string name(WeightAxis axis) {
  switch (axis) {
    case WeightAxis::token:
      return "token";
    case WeightAxis::out_token:
      return "out";
    case WeightAxis::position:
      return "position";
    case WeightAxis::neuron:
      return "neuron";
  }
  return "";
}

VirtualWeights virtual_weights(const Model& model, const Party& from, const Party& to, StreamInput input,
                               const VirtualOptions& options) {
  const ModelConfig& config = model.config;
  stream_rows::check_party(config, from, true);
  stream_rows::check_party(config, to, false);
  check(sees(config, from, to, input), ErrorCode::usage, "'{}' does not see what '{}' writes", node(to), node(from));
  check(options.top >= 1 && options.directions >= 0, ErrorCode::usage, "{} directions of {} entries",
        options.directions, options.top);
  Index step = 0;
  const Index steps = 4 + options.directions;
  const auto next = [&] { report(options.progress, "virtual", step++, steps); };
  next();
  const stream_rows::Rows writes = stream_rows::written_rows(model, from, options.form);
  const stream_rows::Rows reads = stream_rows::read_rows(model, to, input, options.form);
  const Root W = written_root(model, from, options.form, writes);
  next();
  const Root R = read_root(model, to, input, options.form, reads);
  next();
  const TensorF64 between = dense::product(W.factor.view<2>(), transposed(R.factor.view<2>()));
  VirtualWeights result{.score = {.from = from, .to = to, .input = input},
                        .baseline = 1.0 / std::sqrt(static_cast<double>(config.d_model)),
                        .norm = dense::frobenius(between.view<2>()),
                        .from_norm = dense::frobenius(W.factor.view<2>()),
                        .to_norm = dense::frobenius(R.factor.view<2>()),
                        .rows = writes.count,
                        .columns = reads.count,
                        .singular_values = {},
                        .from_axis = axis_of(writes.axis),
                        .to_axis = axis_of(reads.axis),
                        .from_stream = of_stream(writes.axis),
                        .to_stream = of_stream(reads.axis),
                        .directions = {}};
  if (between.size() == 0) return result;
  result.score.score = result.norm / (result.from_norm * result.to_norm);
  result.score.chance_sd =
      stream_rows::turned_spread(evenness(W, result.from_norm), evenness(R, result.to_norm), config.d_model);
  const dense::Svd svd = dense::svd(between.view<2>());
  for (const double s : svd.s)
    if (s > 1e-6 * svd.s.front()) result.singular_values.push_back(s);
  next();
  const Index shown = std::min(options.directions, static_cast<Index>(result.singular_values.size()));
  for (Index j = 0; j < shown; ++j) {
    next();
    result.directions.push_back({.value = svd.s[static_cast<std::size_t>(j)],
                                 .from = side_of(model, options.form, writes, in_the_stream(W, svd.u, j), options.top),
                                 .to = side_of(model, options.form, reads, in_the_stream(R, svd.v, j), options.top)});
  }
  report(options.progress, "virtual", steps, steps);
  return result;
}

}  // namespace kirchhoff
