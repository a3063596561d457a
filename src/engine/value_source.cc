#include "engine/value_source.h"

#include <algorithm>    // for min_element
#include <limits>       // for numeric_limits
#include <type_traits>  // for is_same_v

#include "kirchhoff/base/error.h"

namespace kirchhoff::engine {

ValueSource ValueSource::given(const Values& values, const BatchLayout& layout, const SiteShape& shape,
                               std::string what) {
  ValueSource result;
  result.what_ = std::move(what);
  result.owner_ = values;
  result.by_key_ = shape.by_key;
  // [batch, pos, head, width], or [batch, head, query, key]; an axis that the site lacks has stride 0.
  struct AxisOf {
    Index size;
    Index Strides::*stride;
  };
  std::vector<AxisOf> axes{{layout.batch(), &Strides::sequence}, {layout.longest(), &Strides::position}};
  if (shape.has_heads) axes.insert(axes.begin() + (shape.by_key ? 1 : 2), {shape.heads, &Strides::head});
  axes.push_back({shape.by_key ? layout.keys() : shape.width, &Strides::unit});

  const Shape& have = values.shape();
  Shape want;
  for (const AxisOf& axis : axes) want.push_back(axis.size);
  bool fits = have.size() <= want.size();
  Index step = 1;
  for (std::size_t i = 1; fits && i <= have.size(); ++i) {
    const Index size = have[have.size() - i];
    const AxisOf& axis = axes[axes.size() - i];
    fits = size == 1 || size == axis.size;
    if (size != 1) result.strides_.*axis.stride = step;
    step *= size;
  }
  check(fits, ErrorCode::usage, "{}: values of shape {} do not fit: expected the last axes of {}, each that size or 1",
        result.what_, bracketed(have), bracketed(want));
  result.lengths_.assign(1, layout.longest());
  result.padding_.assign(1, 0);
  result.sequence_of_.assign(static_cast<std::size_t>(layout.batch()), 0);
  return result;
}

ValueSource ValueSource::recorded(const Source& source, Edit edit, SiteRef site, const BatchLayout& layout,
                                  const SiteShape& shape, std::string what, std::optional<SiteRef> divisor) {
  ValueSource result;
  result.what_ = std::move(what);
  result.by_key_ = shape.by_key;
  check(!source.trace.empty(), ErrorCode::usage, "{}: no trace is given to take values from", result.what_);
  if (const Trace* trace = source.trace.f32()) result.borrow(*trace, site, shape, divisor);
  if (const TraceF64* trace = source.trace.f64()) result.borrow(*trace, site, shape, divisor);
  if (edit == Edit::resample) {
    result.map(source, layout);
    return result;
  }
  check(source.sequences.empty(), ErrorCode::usage, "{}: a mean is over all sequences of the trace: it maps none",
        result.what_);
  check(edit == Edit::mean || !shape.by_key, ErrorCode::usage,
        "{}: scores and patterns of different positions have no common mean", result.what_);
  result.average(static_cast<Index>(result.lengths_.size()), edit == Edit::mean_all, shape);
  Source positions_only{
      source.trace, {}, edit == Edit::mean_all ? std::vector<std::vector<Index>>{} : source.positions};
  result.map(positions_only, layout);
  return result;
}

template <class Real>
void ValueSource::borrow(const BasicTrace<Real>& trace, SiteRef site, const SiteShape& shape,
                         std::optional<SiteRef> divisor) {
  const auto recorded = [&](SiteRef ref) -> const BasicTensor<Real>& {
    const auto found = trace.sites.find(site_name(ref));
    check(found != trace.sites.end(), ErrorCode::usage, "{}: the trace did not record {}", what_, site_name(ref));
    return found->second;
  };
  const BasicTensor<Real>& tensor = recorded(site);
  const Index batch = static_cast<Index>(trace.tokens.size());
  const Index longest = tensor.dim(shape.by_key ? 2 : 1), keys = shape.by_key ? tensor.dim(3) : 0;
  const Index width = shape.by_key ? keys : shape.width;
  const bool fits = tensor.size() == batch * longest * shape.heads * width && tensor.dim(-1) == width;
  check(fits, ErrorCode::usage, "{}: the trace has {} of shape {}, another model's: this one has {} heads of width {}",
        what_, site_name(site), bracketed(tensor.shape()), shape.heads, width);
  check(!shape.by_key || keys == longest || batch == 1, ErrorCode::internal, "{}: keys of a cache in a batch", what_);
  strides_ = shape.by_key ? Strides{shape.heads * longest * keys, keys, longest * keys, 1}
                          : Strides{longest * shape.heads * width, shape.heads * width, width, 1};
  const auto numbers = [](const BasicTensor<Real>& t) {
    Numbers n;
    if constexpr (std::is_same_v<Real, float>)
      n.f32 = t.data();
    else
      n.f64 = t.data();
    return n;
  };
  numbers_ = numbers(tensor);
  if (divisor) {
    divisors_ = numbers(recorded(*divisor));
    divisor_stride_ = longest;
  }
  for (Index s = 0; s < batch; ++s) {
    lengths_.push_back(static_cast<Index>(trace.tokens[static_cast<std::size_t>(s)].size()));
    padding_.push_back(trace.pad_left ? longest - lengths_.back() : 0);
  }
}

/// Replaces what was borrowed by its mean, in double: [shortest, ...] over the sequences, or [1, ...] over everything.
void ValueSource::average(Index sequences, bool over_positions, const SiteShape& shape) {
  const Index shortest = *std::min_element(lengths_.begin(), lengths_.end());
  const Index positions = over_positions ? 1 : shortest, width = shape.by_key ? shortest : shape.width;
  sequence_of_.resize(static_cast<std::size_t>(sequences));
  for (Index s = 0; s < sequences; ++s) sequence_of_[static_cast<std::size_t>(s)] = s;
  TensorF64 mean({positions, shape.heads, width});
  const View<double, 3> out = mean.view<3>();
  std::vector<double> row(static_cast<std::size_t>(width));
  std::vector<Index> counts(static_cast<std::size_t>(positions), 0);
  for (Index s = 0; s < sequences; ++s)
    for (Index p = 0; p < (over_positions ? lengths_[static_cast<std::size_t>(s)] : shortest); ++p) {
      const Index to = over_positions ? 0 : p;
      ++counts[static_cast<std::size_t>(to)];
      for (Index h = 0; h < shape.heads; ++h) {
        read(s, p, h, std::span<double>(row));
        for (Index i = 0; i < width; ++i) out(to, h, i) += row[static_cast<std::size_t>(i)];
      }
    }
  for (Index p = 0; p < positions; ++p)
    for (Index h = 0; h < shape.heads; ++h)
      for (Index i = 0; i < width; ++i) out(p, h, i) /= static_cast<double>(counts[static_cast<std::size_t>(p)]);
  mean_ = std::move(mean);
  numbers_ = {nullptr, mean_.data()};
  divisors_ = {};
  strides_ = {0, over_positions ? 0 : shape.heads * width, width, 1};
  lengths_.assign(1, over_positions ? std::numeric_limits<Index>::max() : shortest);
  padding_.assign(1, 0);
  sequence_of_.clear();
}

void ValueSource::map(const Source& source, const BatchLayout& layout) {
  const auto batch = static_cast<std::size_t>(layout.batch()), have = lengths_.size();
  check(source.sequences.empty() || source.sequences.size() == batch, ErrorCode::usage,
        "{}: the source maps {} sequences, the run has {}", what_, source.sequences.size(), batch);
  check(!source.sequences.empty() || have == 1 || have == batch, ErrorCode::usage,
        "{}: the trace has {} sequences, the run {}: say which stands for which", what_, have, batch);
  check(source.positions.size() <= 1 || source.positions.size() == batch, ErrorCode::usage,
        "{}: the source maps the positions of {} sequences, the run has {}", what_, source.positions.size(), batch);
  for (std::size_t s = 0; s < batch; ++s) {
    const Index from = !source.sequences.empty() ? source.sequences[s] : have == 1 ? 0 : static_cast<Index>(s);
    check(from >= 0 && from < static_cast<Index>(have), ErrorCode::usage,
          "{}: the trace has no sequence {}, only 0 to {}", what_, from, have - 1);
    sequence_of_.push_back(from);
    if (source.positions.empty()) continue;
    positions_.push_back(source.positions[source.positions.size() == 1 ? 0 : s]);
    const auto length = static_cast<std::size_t>(layout.length(static_cast<Index>(s)));
    check(positions_.back().size() == length, ErrorCode::usage,
          "{}: the source maps {} positions, sequence {} of the run has {}", what_, positions_.back().size(), s,
          length);
  }
}

Index ValueSource::position(Index sequence, Index position) const {
  const auto s = static_cast<std::size_t>(sequence);
  const Index from = positions_.empty() ? position : positions_[s][static_cast<std::size_t>(position)];
  const Index length = lengths_[static_cast<std::size_t>(sequence_of_[s])];
  check(from >= -1 && from < length, ErrorCode::usage,
        "{}: position {} of sequence {} would be taken from position {}, the source has {}", what_, position, sequence,
        from, length);
  return from;
}

/// The key of the source that stands for one of the run.
Index ValueSource::key(Index sequence, Index key) const {
  if (positions_.empty()) return key;
  const auto& map = positions_[static_cast<std::size_t>(sequence)];
  return map[static_cast<std::size_t>(key)];
}

template <class Real>
void ValueSource::read(Index sequence, Index source_position, Index head, std::span<Real> row) const {
  const auto from = static_cast<std::size_t>(sequence_of_[static_cast<std::size_t>(sequence)]);
  if (!owner_.empty()) {
    owner_.read(sequence * strides_.sequence + source_position * strides_.position + head * strides_.head,
                strides_.unit, row);
    return;
  }
  const Index s = static_cast<Index>(from), padding = padding_[from];
  const Index first = s * strides_.sequence + (source_position + padding) * strides_.position + head * strides_.head;
  if (by_key_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const Index k = key(sequence, static_cast<Index>(i));
      check(k < lengths_[from], ErrorCode::usage, "{}: key {} would be taken from position {}, the source has {}",
            what_, i, k, lengths_[from]);
      if (k >= 0) row[i] = numbers_.as<Real>(first + padding + k);
    }
    return;
  }
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = numbers_.as<Real>(first + static_cast<Index>(i));
  if (divisors_.f32 == nullptr && divisors_.f64 == nullptr) return;
  const Real divisor = divisors_.as<Real>(s * divisor_stride_ + source_position + padding);
  for (Real& value : row) value /= divisor;
}

template void ValueSource::read(Index, Index, Index, std::span<float>) const;
template void ValueSource::read(Index, Index, Index, std::span<double>) const;

}  // namespace kirchhoff::engine
