#include "kirchhoff/weights/composition.h"

#include <cmath>    // for sqrt
#include <utility>  // for move

#include "kirchhoff/base/parallel.h"
#include "kirchhoff/base/random.h"
#include "kirchhoff/kernels/gemm.h"
#include "weights/dense.h"
#include "weights/reduced.h"

namespace kirchhoff {
namespace {

using reduced::read_by_k, reduced::read_by_q, reduced::read_by_v, reduced::written;

double ratio(double norm, double a, double b) { return a > 0.0 && b > 0.0 ? norm / (a * b) : 0.0; }

double score(const TensorF64& write, const TensorF64& read) {
  const TensorF64 between = dense::product(write.view<2>(), transposed(read.view<2>()));
  return ratio(dense::frobenius(between.view<2>()), dense::frobenius(write.view<2>()),
               dense::frobenius(read.view<2>()));
}

/// The heads of a layer on top of each other, [n_heads d_head, d_model] in float, and each one's norm.
struct Stack {
  Tensor rows;
  std::vector<double> norms;
};

template <class OfHead>
Stack stack(const std::vector<HeadMatrices>& heads, const OfHead& of_head) {
  const Index d_head = heads.front().q.dim(0), d_model = heads.front().q.dim(1);
  const auto n = static_cast<Index>(heads.size());
  Stack result{Tensor::uninitialised({n * d_head, d_model}), std::vector<double>(heads.size())};
  parallel_for(n, [&](Index h) {
    const TensorF64& own = of_head(heads[static_cast<std::size_t>(h)]);
    result.norms[static_cast<std::size_t>(h)] = dense::frobenius(own.view<2>());
    float* out = result.rows.data() + h * d_head * d_model;
    for (Index i = 0; i < own.size(); ++i) out[i] = static_cast<float>(own[i]);
  });
  return result;
}

std::vector<HeadMatrices> layer_heads(const Model& model, Index layer, const HeadForm& form) {
  std::vector<HeadMatrices> heads(static_cast<std::size_t>(model.config.n_heads));
  parallel_for(model.config.n_heads,
               [&](Index h) { heads[static_cast<std::size_t>(h)] = head_matrices(model, layer, h, form); });
  return heads;
}

/// a b^T of two stacks: block (i, j) is between head i of one and head j of the other.
class Between {
 public:
  Between(const Stack& a, const Stack& b, Index d_head)
      : d_head_(d_head), product_(Tensor::uninitialised({a.rows.dim(0), b.rows.dim(0)})) {
    kernels::gemm(
        kernels::GemmProblem{.a = a.rows.view<2>(), .b = transposed(b.rows.view<2>()), .c = product_.view<2>()});
  }
  ConstMatrix block(Index i, Index j) const {
    const ConstMatrix all = product_.view<2>();
    return {all.data + i * d_head_ * all.stride[0] + j * d_head_, {d_head_, d_head_}, all.stride};
  }
  double norm(Index i, Index j) const {
    const ConstMatrix x = block(i, j);
    double sum = 0.0;
    for (Index r = 0; r < d_head_; ++r)
      for (const float value : x.row(r)) sum += static_cast<double>(value) * static_cast<double>(value);
    return std::sqrt(sum);
  }

 private:
  Index d_head_;
  Tensor product_;
};

/// |a^T b| of two square blocks.
double norm_of_cross(ConstMatrix a, ConstMatrix b) {
  const Index n = a.dim[0];
  std::vector<double> product(static_cast<std::size_t>(n * n), 0.0);
  for (Index r = 0; r < n; ++r)
    for (Index i = 0; i < n; ++i) {
      const auto factor = static_cast<double>(a(r, i));
      for (Index j = 0; j < n; ++j)
        product[static_cast<std::size_t>(i * n + j)] += factor * static_cast<double>(b(r, j));
    }
  double sum = 0.0;
  for (const double x : product) sum += x * x;
  return std::sqrt(sum);
}

/// A layer as the first of a pair.
struct WritingLayer {
  Stack ov;    ///< reduced
  Stack o, v;  ///< for the induction match alone
};
/// A layer as the second.
struct ReadingLayer {
  Stack q, k, v;           ///< reduced
  Stack plain_q, plain_k;  ///< for the induction match alone
};

Stack as_they_are(const std::vector<HeadMatrices>& heads, TensorF64 HeadMatrices::*which) {
  return stack(heads, [which](const HeadMatrices& head) -> const TensorF64& { return head.*which; });
}

/// The scores of all pairs of two layers, at pairs[first + i * n_heads + j].
void compose_layers(const WritingLayer& writes, const ReadingLayer& reads, Index d_head, bool match,
                    CompositionPair* pairs) {
  const auto n = static_cast<Index>(writes.ov.norms.size());
  const auto fill = [&](const Stack& read, double CompositionPair::*which) {
    const Between between(writes.ov, read, d_head);
    parallel_for(n, [&](Index i) {
      for (Index j = 0; j < n; ++j)
        pairs[i * n + j].*which = ratio(between.norm(i, j), writes.ov.norms[static_cast<std::size_t>(i)],
                                        read.norms[static_cast<std::size_t>(j)]);
    });
  };
  fill(reads.q, &CompositionPair::q);
  fill(reads.k, &CompositionPair::k);
  fill(reads.v, &CompositionPair::v);
  if (!match) return;
  // (o1 k2^T)^T (v1 q2^T): the columns' K2 O1 V1 Q2^T.
  const Between written_read(writes.o, reads.plain_k, d_head), source_read(writes.v, reads.plain_q, d_head);
  parallel_for(n, [&](Index i) {
    for (Index j = 0; j < n; ++j)
      pairs[i * n + j].induction_match =
          ratio(norm_of_cross(written_read.block(i, j), source_read.block(i, j)),
                writes.ov.norms[static_cast<std::size_t>(i)], reads.k.norms[static_cast<std::size_t>(j)]);
  });
}

void sample_null(Index d_head, Index d_model, const CompositionOptions& options, Composition& result) {
  std::vector<double> scores(static_cast<std::size_t>(options.null_samples));
  parallel_for(options.null_samples, [&](Index s) {
    Random random(options.seed * 1000003U + static_cast<std::uint64_t>(s));
    const auto factor = [&] { return dense::gaussian(d_head, d_model, random); };
    const TensorF64 v1 = factor(), o1 = factor(), q2 = factor(), k2 = factor();
    scores[static_cast<std::size_t>(s)] = score(reduced::product(v1, o1), reduced::product(k2, q2));
  });
  const auto n = static_cast<double>(options.null_samples);
  double squares = 0.0;
  for (const double x : scores) result.null_mean += x / n;
  for (const double x : scores) squares += (x - result.null_mean) * (x - result.null_mean);
  result.null_sd = std::sqrt(squares / (n - 1.0));
  result.null_samples = options.null_samples;
}

}  // namespace

CompositionPair composition_of(const HeadMatrices& from, const HeadMatrices& to) {
  check(from.layer < to.layer, ErrorCode::usage, "head {}.{} does not see what {}.{} writes", to.layer, to.head,
        from.layer, from.head);
  CompositionPair pair{.from_layer = from.layer,
                       .from_head = from.head,
                       .to_layer = to.layer,
                       .to_head = to.head,
                       .induction_match = std::nullopt};
  const TensorF64 write = written(from);
  pair.q = score(write, read_by_q(to));
  pair.k = score(write, read_by_k(to));
  pair.v = score(write, read_by_v(to));
  const TensorF64 written_read = dense::product(from.o.view<2>(), transposed(to.k.view<2>()));
  const TensorF64 source_read = dense::product(from.v.view<2>(), transposed(to.q.view<2>()));
  const TensorF64 shifted = dense::cross(written_read.view<2>(), source_read.view<2>());
  pair.induction_match =
      ratio(dense::frobenius(shifted.view<2>()), from.ov().frobenius_norm(), to.qk().frobenius_norm());
  return pair;
}

Composition composition(const Model& model, const CompositionOptions& options) {
  const ModelConfig& config = model.config;
  check(options.null_samples >= 2, ErrorCode::usage, "{} samples: a standard deviation needs two",
        options.null_samples);
  const Index n = config.n_heads, per_layers = n * n;
  Composition result;
  result.baseline = 1.0 / std::sqrt(static_cast<double>(config.d_model));
  result.ceiling = 1.0 / std::sqrt(static_cast<double>(config.d_head));
  sample_null(config.d_head, config.d_model, options, result);

  result.pairs.resize(static_cast<std::size_t>(config.n_layers * (config.n_layers - 1) / 2 * per_layers));
  std::vector<WritingLayer> earlier;
  CompositionPair* pairs = result.pairs.data();
  for (Index layer = 0; layer < config.n_layers; ++layer) {
    report(options.progress, "compose", layer, config.n_layers);
    const std::vector<HeadMatrices> heads = layer_heads(model, layer, options.form);
    if (layer > 0) {
      ReadingLayer reads{stack(heads, read_by_q), stack(heads, read_by_k), stack(heads, read_by_v), {}, {}};
      if (options.induction_match) {
        reads.plain_q = as_they_are(heads, &HeadMatrices::q);
        reads.plain_k = as_they_are(heads, &HeadMatrices::k);
      }
      for (Index from = 0; from < layer; ++from, pairs += per_layers) {
        for (Index i = 0; i < per_layers; ++i) {
          pairs[i].from_layer = from;
          pairs[i].from_head = i / n;
          pairs[i].to_layer = layer;
          pairs[i].to_head = i % n;
        }
        compose_layers(earlier[static_cast<std::size_t>(from)], reads, config.d_head, options.induction_match, pairs);
      }
    }
    if (layer + 1 == config.n_layers) break;
    WritingLayer writes{stack(heads, written), {}, {}};
    if (options.induction_match) {
      writes.o = as_they_are(heads, &HeadMatrices::o);
      writes.v = as_they_are(heads, &HeadMatrices::v);
    }
    earlier.push_back(std::move(writes));
  }
  report(options.progress, "compose", config.n_layers, config.n_layers);
  return result;
}

}  // namespace kirchhoff
