#include "kirchhoff/weights/parties.h"

#include <algorithm>  // for any_of, max, sort, transform
#include <cmath>      // for sqrt
#include <limits>     // for numeric_limits
#include <tuple>      // for tie
#include <utility>    // for move

#include "kirchhoff/kernels/gemm.h"
#include "weights/reduced.h"
#include "weights/stream_rows.h"

namespace kirchhoff {
namespace {

/// What decides a score: W^T W or R R^T, [d_model, d_model], or for heads a factor T [d_head, d_model] with
/// T^T T = that, both in float; its trace and the sum of its squares in double.
struct PartySide {
  Tensor gram = {}, factor = {};
  double trace = 0.0, squares = 0.0;
  bool is_head() const { return factor.size() > 0; }
};

Tensor in_float(const TensorF64& x) {
  Tensor result = Tensor::uninitialised(x.shape());
  std::transform(x.data(), x.data() + x.size(), result.data(), [](double value) { return static_cast<float>(value); });
  return result;
}

PartySide gram_side(const stream_rows::Rows& rows, Index d_model) {
  const TensorF64 gram = stream_rows::gram(rows, d_model);
  PartySide side{.gram = in_float(gram), .factor = {}};
  for (Index i = 0; i < d_model; ++i) side.trace += gram[i * d_model + i];
  side.squares = dense::inner(gram.view<2>(), gram.view<2>());
  return side;
}

PartySide head_side(const TensorF64& factor) {
  PartySide side{.gram = {}, .factor = in_float(factor)};
  const TensorF64 inner = dense::product(factor.view<2>(), transposed(factor.view<2>()));  // [d_head, d_head]
  for (Index i = 0; i < inner.dim(0); ++i) side.trace += inner[i * inner.dim(0) + i];
  side.squares = dense::inner(inner.view<2>(), inner.view<2>());
  return side;
}

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0.0;
  for (Index i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

Tensor times(const Tensor& a, ConstMatrix b) {
  Tensor c = Tensor::uninitialised({a.dim(0), b.dim[1]});
  kernels::gemm(kernels::GemmProblem{.a = a.view<2>(), .b = b, .c = c.view<2>()});
  return c;
}

/// |W R|^2 = tr(A B), A = W^T W, B = R R^T.
double squared_norm_between(const PartySide& a, const PartySide& b) {
  if (a.is_head() && b.is_head()) {
    const Tensor between = times(a.factor, transposed(ConstMatrix(b.factor.view<2>())));
    return dot(between, between);
  }
  if (a.is_head()) return dot(times(a.factor, b.gram.view<2>()), a.factor);
  if (b.is_head()) return dot(times(b.factor, a.gram.view<2>()), b.factor);
  return dot(a.gram, b.gram);
}

PartyScore score_between(const Party& from, const PartySide& a, const Party& to, StreamInput input, const PartySide& b,
                         Index d_model) {
  PartyScore result{.from = from, .to = to, .input = input};
  if (!(a.trace > 0.0) || !(b.trace > 0.0)) return result;
  result.score = std::sqrt(std::max(0.0, squared_norm_between(a, b)) / (a.trace * b.trace));
  result.chance_sd =
      stream_rows::turned_spread(a.squares / (a.trace * a.trace), b.squares / (b.trace * b.trace), d_model);
  return result;
}

PartySide written_side(const Model& model, const Party& party, const HeadForm& form) {
  if (party.kind == PartyKind::head)
    return head_side(reduced::written(head_matrices(model, party.chain, {.raw = form.raw, .offset = 0})));
  return gram_side(stream_rows::written_rows(model, party, form), model.config.d_model);
}

std::vector<PartySide> read_sides(const Model& model, const Party& party, const HeadForm& form) {
  std::vector<PartySide> sides;
  if (party.kind == PartyKind::head) {
    const HeadMatrices head = head_matrices(model, party.chain, form);
    sides.push_back(head_side(reduced::read_by_q(head)));
    sides.push_back(head_side(reduced::read_by_k(head)));
    sides.push_back(head_side(reduced::read_by_v(head)));
    return sides;
  }
  for (const StreamInput input : inputs_of(model.config, party))
    sides.push_back(gram_side(stream_rows::read_rows(model, party, input, form), model.config.d_model));
  return sides;
}

bool single_heads(const Party& from, const Party& to) {
  return from.kind == PartyKind::head && to.kind == PartyKind::head && !from.chain.is_virtual() &&
         !to.chain.is_virtual();
}

/// The stream's order: a layer's attention writes at 2 l, its MLP at 2 l + 1.
constexpr Index kBegin = -1, kEnd = std::numeric_limits<Index>::max();

Index written_at(const Party& party) {
  if (party.kind == PartyKind::head) return 2 * party.chain.last_layer();
  return party.kind == PartyKind::mlp ? 2 * party.layer + 1 : kBegin;
}

Index read_at(const ModelConfig& config, const Party& party, StreamInput input) {
  switch (party.kind) {
    case PartyKind::head:
      return 2 * (input == StreamInput::q ? party.chain.last_layer() : party.chain.first_layer());
    case PartyKind::mlp:
      return config.parallel ? 2 * party.layer : 2 * party.layer + 1;
    case PartyKind::unembed:
      return kEnd;
    case PartyKind::embed:
    case PartyKind::pos:
      break;
  }
  return kBegin;
}

/// Heads and MLPs.
void add_layers(const ModelConfig& config, std::vector<Party>& parties) {
  for (Index layer = 0; layer < config.n_layers; ++layer) {
    for (Index head = 0; head < config.n_heads; ++head)
      parties.push_back({.kind = PartyKind::head, .layer = layer, .chain = {{{layer, head}}}});
    if (!config.attn_only) parties.push_back({.kind = PartyKind::mlp, .layer = layer});
  }
}

}  // namespace

double stream_rows::turned_spread(double a, double b, Index d_model) {
  if (d_model < 2) return 0.0;
  // What the Grams have beside a multiple of the identity, turned at random: section 8.3, one moment on.
  const auto d = static_cast<double>(d_model);
  const double beside_a = std::max(0.0, a - 1.0 / d), beside_b = std::max(0.0, b - 1.0 / d);
  return std::sqrt(2.0 * beside_a * beside_b / ((d - 1.0) * (d + 2.0))) / (2.0 / std::sqrt(d));
}

std::string node(const Party& party) {
  switch (party.kind) {
    case PartyKind::embed:
      return "embed";
    case PartyKind::pos:
      return "pos";
    case PartyKind::head:
      return node(party.chain);
    case PartyKind::mlp:
      return fmt::format("m{}", party.layer);
    case PartyKind::unembed:
      return "unembed";
  }
  return "";
}

std::string name(StreamInput input) {
  switch (input) {
    case StreamInput::q:
      return "q";
    case StreamInput::k:
      return "k";
    case StreamInput::v:
      return "v";
    case StreamInput::in:
      return "in";
    case StreamInput::gate:
      return "gate";
    case StreamInput::logits:
      return "logits";
  }
  return "";
}

std::vector<StreamInput> inputs_of(const ModelConfig& config, const Party& party) {
  switch (party.kind) {
    case PartyKind::head:
      return {StreamInput::q, StreamInput::k, StreamInput::v};
    case PartyKind::mlp:
      if (config.gated_mlp) return {StreamInput::in, StreamInput::gate};
      return {StreamInput::in};
    case PartyKind::unembed:
      return {StreamInput::logits};
    case PartyKind::embed:
    case PartyKind::pos:
      break;
  }
  return {};
}

std::vector<Party> writers(const ModelConfig& config) {
  std::vector<Party> parties = {{.kind = PartyKind::embed}};
  if (config.positions == Positions::learned) parties.push_back({.kind = PartyKind::pos});
  add_layers(config, parties);
  return parties;
}

std::vector<Party> readers(const ModelConfig& config) {
  std::vector<Party> parties;
  add_layers(config, parties);
  parties.push_back({.kind = PartyKind::unembed});
  return parties;
}

bool sees(const ModelConfig& config, const Party& writer, const Party& reader, StreamInput input) {
  return written_at(writer) < read_at(config, reader, input);
}

PartyComposition party_composition(const Model& model, const PartyOptions& options) {
  const ModelConfig& config = model.config;
  const std::vector<Party> from = options.from.empty() ? writers(config) : options.from,
                           to = options.to.empty() ? readers(config) : options.to;
  for (const Party& party : from) stream_rows::check_party(config, party, true);
  for (const Party& party : to) stream_rows::check_party(config, party, false);
  PartyComposition result;
  result.baseline = 1.0 / std::sqrt(static_cast<double>(config.d_model));
  // What is no head is kept; heads pass by one after the other, kept only where virtual heads are to meet them.
  const auto is_virtual = [](const Party& party) { return party.kind == PartyKind::head && party.chain.is_virtual(); };
  const bool keep_heads =
      std::any_of(from.begin(), from.end(), is_virtual) || std::any_of(to.begin(), to.end(), is_virtual);
  const auto passes = [keep_heads](const Party& party) { return party.kind == PartyKind::head && !keep_heads; };
  const Index total = 2 * static_cast<Index>(from.size() + to.size());
  Index done = 0;
  const auto step = [&] { report(options.progress, "parties", done++, total); };
  std::vector<PartySide> written(from.size());
  std::vector<std::vector<PartySide>> read(to.size());
  for (std::size_t w = 0; w < from.size(); ++w) {
    step();
    if (!passes(from[w])) written[w] = written_side(model, from[w], options.form);
  }
  for (std::size_t r = 0; r < to.size(); ++r) {
    step();
    if (!passes(to[r])) read[r] = read_sides(model, to[r], options.form);
  }
  struct Placed {
    std::size_t reader, input, writer;
    PartyScore score;
  };
  std::vector<Placed> scores;
  const auto meet = [&](std::size_t w, const PartySide& writes, std::size_t r, const std::vector<PartySide>& reads) {
    const std::vector<StreamInput> inputs = inputs_of(config, to[r]);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (sees(config, from[w], to[r], inputs[i]) && !single_heads(from[w], to[r]))
        scores.push_back({r, i, w, score_between(from[w], writes, to[r], inputs[i], reads[i], config.d_model)});
  };
  for (std::size_t w = 0; w < from.size(); ++w) {
    step();
    const PartySide passing = passes(from[w]) ? written_side(model, from[w], options.form) : PartySide{};
    const PartySide& writes = passes(from[w]) ? passing : written[w];
    for (std::size_t r = 0; r < to.size(); ++r)
      if (!passes(to[r])) meet(w, writes, r, read[r]);
  }
  for (std::size_t r = 0; r < to.size(); ++r) {
    step();
    if (!passes(to[r])) continue;
    const std::vector<PartySide> reads = read_sides(model, to[r], options.form);
    for (std::size_t w = 0; w < from.size(); ++w)
      if (!passes(from[w])) meet(w, written[w], r, reads);
  }
  std::sort(scores.begin(), scores.end(), [](const Placed& a, const Placed& b) {
    return std::tie(a.reader, a.input, a.writer) < std::tie(b.reader, b.input, b.writer);
  });
  for (Placed& placed : scores) result.scores.push_back(std::move(placed.score));
  report(options.progress, "parties", total, total);
  check(!result.scores.empty(), ErrorCode::usage,
        "no pair is left: of these parties none reads what another one writes (pairs of heads are composition's)");
  return result;
}

}  // namespace kirchhoff
