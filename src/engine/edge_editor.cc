#include "engine/edge_editor.h"

#include <algorithm>  // for fill, sort, unique
#include <array>      // for array
#include <tuple>      // for tuple

#include "engine/head_views.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/kernels/gemm.h"

namespace kirchhoff::engine {
namespace {

/// The simplest readers that a reader consists of: q, k and v of query heads, an MLP, the logits.
std::vector<Reader> parts_of(const Reader& reader, const ModelConfig& c) {
  using Kind = Reader::Kind;
  std::vector<Reader> parts;
  const Index heads_of_group = c.n_heads / c.n_kv_heads;
  switch (reader.kind) {
    case Kind::head:
      for (const Kind kind : {Kind::q, Kind::k, Kind::v}) parts.push_back({kind, reader.layer, reader.head});
      break;
    case Kind::group_k:
    case Kind::group_v:
      for (Index h = 0; h < heads_of_group; ++h)
        parts.push_back(
            {reader.kind == Kind::group_k ? Kind::k : Kind::v, reader.layer, reader.head * heads_of_group + h});
      break;
    default:
      parts.push_back(reader);
  }
  return parts;
}

std::vector<Writer> parts_of(const Writer& writer) {
  std::vector<Writer> parts(writer.kind == Writer::Kind::embed ? 2 : 1, writer);
  if (writer.kind == Writer::Kind::embed) {
    parts[0].kind = Writer::Kind::token;
    parts[1].kind = Writer::Kind::position;
  }
  return parts;
}

struct HeadOfSite {
  Site site;
  Index head;
};

/// The sites that are the input of a simplest reader.
std::vector<HeadOfSite> inputs_of(const Reader& part, const ModelConfig& c) {
  const Index group = part.head / (c.n_heads / c.n_kv_heads);
  switch (part.kind) {
    case Reader::Kind::q:
      return {{Site::attn_in, part.head}, {Site::q_input, part.head}};
    case Reader::Kind::k:
      return {{Site::attn_in, part.head}, {Site::k_input, group}};
    case Reader::Kind::v:
      return {{Site::attn_in, part.head}, {Site::v_input, group}};
    case Reader::Kind::mlp:
      return {{Site::mlp_in, 0}};
    default:
      return {};
  }
}

/// Post-norm of differences: gain * (x - mean) (LayerNorm) or gain * x, the division already done.
template <class Real>
void apply_gain(View<Real, 2> x, bool centre, const Real* gain) {
  for (Index row = 0; row < x.dim[0]; ++row) {
    Real mean = 0;
    if (centre) {
      for (const Real value : x.row(row)) mean += value;
      mean /= static_cast<Real>(x.dim[1]);
    }
    for (Index i = 0; i < x.dim[1]; ++i) x(row, i) = (x(row, i) - mean) * (gain == nullptr ? Real{1} : gain[i]);
  }
}

}  // namespace

template <class Real>
EdgeEditor<Real>::EdgeEditor(const Model& model, const BatchLayout& layout, const Interventions& interventions,
                             const Editor<Real>& editor)
    : model_(model), config_(model.config), layout_(layout) {
  for (std::size_t i = 0; i < interventions.edges.size(); ++i) {
    const EdgeIntervention& edges = interventions.edges[i];
    add_set(edges, fmt::format("edge intervention {} ({})", i, name(edges.edit)));
  }
  check_conflicts(interventions.edges, editor);
}

template <class Real>
void EdgeEditor<Real>::add_set(const EdgeIntervention& edges, std::string what) {
  const bool from_trace = edges.edit != Edit::set && edges.edit != Edit::zero;
  check(replaces(edges.edit), ErrorCode::usage, "{}: what a reader sees is replaced: set, zero, mean or resample",
        what);
  check((edges.edit == Edit::set) == !edges.values.empty(), ErrorCode::usage,
        "{}: `set`, and nothing else, takes values", what);
  check(from_trace == !edges.source.trace.empty(), ErrorCode::usage,
        "{}: mean and resample, and nothing else, take a trace", what);
  Set set{what, edges.edit, {}, {}, {}};
  if (edges.edit == Edit::set) set.given = ValueSource::given(edges.values, layout_, {.width = config_.d_model}, what);
  std::map<std::array<Index, 3>, std::size_t> known;  // writers
  for (const Edge& edge : edges.edges) {
    check_edge(config_, edge);
    const Writer& w = edge.writer;
    const auto [entry, is_new] = known.try_emplace({static_cast<Index>(w.kind), w.layer, w.head}, set.writers.size());
    if (is_new) set.writers.push_back({w, from_trace ? source_of(edges, w, what) : ValueSource(), {}});
    links_[key(edge.reader)].push_back({sets_.size(), entry->second});
  }
  for (const TokenRow& token : selected_rows(layout_, edges.sequences, edges.positions, what)) {
    bool kept = true;
    for (const Replaced& writer : set.writers)
      kept = kept && (!from_trace || writer.source.position(token.sequence, token.position) >= 0);
    if (kept) set.rows.push_back(token);
  }
  sets_.push_back(std::move(set));
}

/// Heads are exchanged in z / s, s the divisor of the norm behind attention if there is one; others in the stream.
template <class Real>
ValueSource EdgeEditor<Real>::source_of(const EdgeIntervention& edges, const Writer& writer,
                                        const std::string& what) const {
  const std::string text = fmt::format("{}, {}", what, name(writer));
  const auto recorded = [&](SiteRef site, std::optional<SiteRef> divisor = {}) {
    return ValueSource::recorded(edges.source, edges.edit, site, layout_, shape_of_site(config_, site.site), text,
                                 divisor);
  };
  switch (writer.kind) {
    case Writer::Kind::embed:
      return recorded({Site::resid_pre, 0});
    case Writer::Kind::token:
      return recorded({Site::embed, 0});
    case Writer::Kind::position:
      return recorded({Site::pos_embed, 0});
    case Writer::Kind::mlp:
      return recorded({Site::mlp_out, writer.layer});
    case Writer::Kind::head:
      break;
  }
  if (config_.post_norm) return recorded({Site::z, writer.layer}, SiteRef{Site::ln1_post_scale, writer.layer});
  return recorded({Site::z, writer.layer});
}

template <class Real>
void EdgeEditor<Real>::check_conflicts(const std::vector<EdgeIntervention>& edges, const Editor<Real>& editor) const {
  // 1. No edge twice at one token: sort (part of a reader, part of a writer, row). One intervention's edges have the
  // same rows.
  std::vector<std::tuple<Key, Key, Index, std::size_t>> touched;
  for (std::size_t s = 0; s < sets_.size(); ++s)
    for (const Edge& edge : edges[s].edges)
      for (const Reader& reader : parts_of(edge.reader, config_))
        for (const Writer& writer : parts_of(edge.writer))
          for (std::size_t i = 0; i < (sets_.size() == 1 ? 1 : sets_[s].rows.size()); ++i)
            touched.push_back({Key{static_cast<Index>(reader.kind), reader.layer, reader.head},
                               Key{static_cast<Index>(writer.kind), writer.layer, writer.head},
                               sets_.size() == 1 ? 0 : sets_[s].rows[i].row, s});
  std::sort(touched.begin(), touched.end());
  for (std::size_t i = 1; i < touched.size(); ++i) {
    const auto& [reader, writer, row, set] = touched[i];
    const auto& [last_reader, last_writer, last_row, last_set] = touched[i - 1];
    if (reader != last_reader || writer != last_writer || row != last_row) continue;
    fail(ErrorCode::usage, "{} replaces what {} sees of {}, which {} does already", sets_[set].what,
         name(Reader{static_cast<Reader::Kind>(reader[0]), reader[1], reader[2]}),
         name(Writer{static_cast<Writer::Kind>(writer[0]), writer[1], writer[2]}),
         set == last_set ? "another of its edges" : sets_[last_set].what);
  }

  for (std::size_t s = 0; s < sets_.size(); ++s)
    for (const Edge& edge : edges[s].edges) {
      // 2. What is added to a reader's input must not be forgotten again.
      for (const Reader& part : parts_of(edge.reader, config_))
        for (const HeadOfSite& input : inputs_of(part, config_))
          check(!editor.replaces_any(input.site, part.layer, input.head, sets_[s].rows), ErrorCode::usage,
                "{}: another intervention replaces {}, which is to see another {}", sets_[s].what,
                site_name(input.site, part.layer), name(edge.writer));
      // 3. A head's contribution is z W_O here.
      if (edge.writer.kind == Writer::Kind::head)
        check(!editor.wants(Site::result, edge.writer.layer), ErrorCode::unsupported,
              "{}: edges from {} and an intervention at {} do not go together; intervene at {}", sets_[s].what,
              name(edge.writer), site_name(Site::result, edge.writer.layer), site_name(Site::z, edge.writer.layer));
    }
}

template <class Real>
typename EdgeEditor<Real>::Key EdgeEditor<Real>::key(const ModelConfig& config, const Reader& reader) {
  Reader::Kind kind = reader.kind;
  if (config.n_heads == config.n_kv_heads) {
    if (kind == Reader::Kind::group_k) kind = Reader::Kind::k;
    if (kind == Reader::Kind::group_v) kind = Reader::Kind::v;
  }
  return {static_cast<Index>(kind), reader.layer, reader.head};
}

template <class Real>
std::vector<typename EdgeEditor<Real>::Key> EdgeEditor<Real>::readers() const {
  std::vector<Key> keys;
  for (const auto& [reader, links] : links_) keys.push_back(reader);
  return keys;
}

template <class Real>
bool EdgeEditor<Real>::writes(Writer::Kind kind, Index layer) const {
  for (const Set& set : sets_)
    for (const Replaced& w : set.writers)
      if (w.writer.kind == kind && w.writer.layer == layer) return true;
  return false;
}

template <class Real>
bool EdgeEditor<Real>::reads_attention(Index layer) const {
  for (const auto& [reader, links] : links_)
    if (reader[1] == layer && reader[0] < static_cast<Index>(Reader::Kind::mlp)) return true;
  return false;
}

template <class Real>
std::vector<typename EdgeEditor<Real>::Written> EdgeEditor<Real>::written(const Set& set, Index rows,
                                                                          RowMap map) const {
  std::vector<Written> result;
  for (std::size_t i = 0; i < set.rows.size(); ++i)
    if (const Index at = map.index_of(set.rows[i].row, rows); at >= 0) result.push_back({static_cast<Index>(i), at});
  return result;
}

template <class Real>
View<Real, 2> EdgeEditor<Real>::differences(const Set& set, Replaced& writer) const {
  if (writer.difference.rank() != 2)
    writer.difference = BasicTensor<Real>({static_cast<Index>(set.rows.size()), config_.d_model});
  return writer.difference.template view<2>();
}

template <class Real>
template <class F>
void EdgeEditor<Real>::for_each_writer(Writer::Kind kind, Index layer, Index rows, RowMap map, const F& f) {
  for (Set& set : sets_) {
    std::optional<std::vector<Written>> tokens;
    for (Replaced& writer : set.writers) {
      if (writer.writer.kind != kind || writer.writer.layer != layer) continue;
      if (!tokens) tokens = written(set, rows, map);
      f(set, writer, *tokens);
    }
  }
}

template <class Real>
void EdgeEditor<Real>::read_replacement(const Set& set, const Replaced& writer, const TokenRow& token,
                                        std::span<Real> out) const {
  if (set.edit == Edit::zero)
    std::fill(out.begin(), out.end(), Real{});
  else if (set.edit == Edit::set)
    set.given.read(token.sequence, token.position, 0, out);
  else
    writer.source.read(token.sequence, writer.source.position(token.sequence, token.position), 0, out);
}

template <class Real>
void EdgeEditor<Real>::wrote(Writer::Kind kind, View<const Real, 2> x, RowMap map) {
  for_each_writer(kind, 0, x.dim[0], map, [&](Set& set, Replaced& writer, const std::vector<Written>& tokens) {
    for (const Written& token : tokens) {
      const std::span<Real> out = differences(set, writer).row(token.index);
      read_replacement(set, writer, set.rows[static_cast<std::size_t>(token.index)], out);
      const std::span<const Real> mine = x.row(token.row);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] -= mine[i];
    }
  });
}

/// Without a norm behind it, the MLP's contribution has no b_out: that cancels against a recorded one, which has it
/// too, and stays otherwise. With a norm, what the norm makes of b_out counts as the MLP's, but for the norm's own
/// bias.
template <class Real>
void EdgeEditor<Real>::wrote_mlp(Index layer, View<const Real, 2> x, RowMap map) {
  const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
  const WeightVector& bias = config_.post_norm ? w.ln2_post.b : w.b_out;
  for_each_writer(Writer::Kind::mlp, layer, x.dim[0], map,
                  [&](Set& set, Replaced& writer, const std::vector<Written>& tokens) {
                    const bool cancels = set.edit != Edit::set && set.edit != Edit::zero;
                    for (const Written& token : tokens) {
                      const std::span<Real> out = differences(set, writer).row(token.index);
                      read_replacement(set, writer, set.rows[static_cast<std::size_t>(token.index)], out);
                      const std::span<const Real> mine = x.row(token.row);
                      for (std::size_t i = 0; i < out.size(); ++i) {
                        out[i] -= mine[i];
                        if (!cancels && bias.present()) out[i] += static_cast<Real>(bias.f64()[i]);
                      }
                    }
                  });
}

/// difference = (z'/s' - z/s) W_O^h, behind attention's norm if there is one (s = 1 otherwise).
template <class Real>
void EdgeEditor<Real>::wrote_heads(Index layer, View<const Real, 2> z, ConstMatrix W_O, const Real* scale, RowMap map) {
  const LayerWeights& w = model_.weights.layers[static_cast<std::size_t>(layer)];
  const Index dh = config_.d_head;
  struct Exchange {
    BasicTensor<Real> z, out;  // [tokens, dh], [tokens, d_model]
  };
  std::vector<Exchange> exchanges;
  std::vector<kernels::BasicGemmProblem<Real>> problems;
  for_each_writer(
      Writer::Kind::head, layer, z.dim[0], map, [&](Set& set, Replaced& writer, const std::vector<Written>& tokens) {
        const Index h = writer.writer.head, count = static_cast<Index>(tokens.size());
        Exchange exchange{BasicTensor<Real>({count, dh}), BasicTensor<Real>::uninitialised({count, config_.d_model})};
        for (Index i = 0; i < count; ++i) {
          const Written& at = tokens[static_cast<std::size_t>(i)];
          const TokenRow& token = set.rows[static_cast<std::size_t>(at.index)];
          const std::span<Real> out = exchange.z.template view<2>().row(i);
          if (set.edit != Edit::zero && set.edit != Edit::set)
            writer.source.read(token.sequence, writer.source.position(token.sequence, token.position), h, out);
          const std::span<const Real> mine = z.row(at.row).subspan(static_cast<std::size_t>(h * dh));
          for (std::size_t j = 0; j < out.size(); ++j) out[j] -= scale == nullptr ? mine[j] : mine[j] / scale[at.row];
        }
        exchanges.push_back(std::move(exchange));
        problems.push_back({.a = exchanges.back().z.template view<2>(),
                            .b = W_O.rows(h * dh, dh),
                            .c = exchanges.back().out.template view<2>()});
      });
  kernels::gemm(std::span<const kernels::BasicGemmProblem<Real>>(problems));

  const std::vector<Real> gain(w.ln1_post.w.f64().begin(), w.ln1_post.w.f64().end());
  auto exchange = exchanges.begin();
  for_each_writer(Writer::Kind::head, layer, z.dim[0], map,
                  [&](Set& set, Replaced& writer, const std::vector<Written>& tokens) {
                    const View<Real, 2> out = (exchange++)->out.template view<2>();
                    if (config_.post_norm)
                      apply_gain(out, config_.norm == NormKind::layer_norm, gain.empty() ? nullptr : gain.data());
                    for (std::size_t i = 0; i < tokens.size(); ++i) {
                      const std::span<Real> to = differences(set, writer).row(tokens[i].index);
                      const std::span<const Real> from = out.row(static_cast<Index>(i));
                      std::fill(to.begin(), to.end(), Real{});
                      if (set.edit == Edit::set)
                        read_replacement(set, writer, set.rows[static_cast<std::size_t>(tokens[i].index)], to);
                      for (std::size_t j = 0; j < to.size(); ++j) to[j] += from[j];
                    }
                  });
}

template <class Real>
std::vector<Index> EdgeEditor<Real>::rows(const Reader& reader) const {
  std::vector<Index> rows;
  const auto found = links_.find(key(reader));
  if (found == links_.end()) return rows;
  std::vector<bool> seen(sets_.size(), false);
  for (const Link& link : found->second) {
    if (seen[link.set]) continue;
    seen[link.set] = true;
    for (const TokenRow& token : sets_[link.set].rows) rows.push_back(token.row);
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

template <class Real>
void EdgeEditor<Real>::add(const Reader& reader, View<Real, 2> values, RowMap map) const {
  const auto found = links_.find(key(reader));
  if (found == links_.end()) return;
  for (const Link& link : found->second) {
    const Set& set = sets_[link.set];
    if (set.rows.empty()) continue;
    const View<const Real, 2> difference = set.writers[link.writer].difference.template view<2>();
    for (std::size_t i = 0; i < set.rows.size(); ++i) {
      const Index at = map.index_of(set.rows[i].row, values.dim[0]);
      if (at < 0) continue;
      const std::span<const Real> from = difference.row(static_cast<Index>(i));
      const std::span<Real> to = values.row(at);
      for (std::size_t j = 0; j < from.size(); ++j) to[j] += from[j];
    }
  }
}

template class EdgeEditor<float>;
template class EdgeEditor<double>;

}  // namespace kirchhoff::engine
