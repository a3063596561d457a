#pragma once
#include <optional>  // for optional
#include <span>      // for span
#include <string>    // for string
#include <vector>    // for vector

#include "engine/batch_layout.h"
#include "engine/site_shape.h"
#include "kirchhoff/engine/run.h"

namespace kirchhoff::engine {

/// Where an intervention's numbers come from, seen in the coordinates of a run: given values, what another run recorded
/// at a site, or the mean of that.
class ValueSource {
 public:
  /// Nothing.
  ValueSource() = default;
  /// Values whose shape is the last axes of [batch, pos, head, width], as far as the site has them.
  static ValueSource given(const Values& values, const BatchLayout& layout, const SiteShape& shape, std::string what);
  /// What `source` recorded at `site` (edit: resample, mean or mean_all); with `divisor`, a site of one number a
  /// position, divided by what it recorded there.
  static ValueSource recorded(const Source& source, Edit edit, SiteRef site, const BatchLayout& layout,
                              const SiteShape& shape, std::string what, std::optional<SiteRef> divisor = {});

  /// The position in the source that stands for one of this run; -1: none, it stays as it is. Error{usage} if the
  /// source lacks it.
  Index position(Index sequence, Index position) const;
  /// The numbers at a position of the source. By key: entries of `row` whose keys stand for nothing stay as they are.
  template <class Real>
  void read(Index sequence, Index source_position, Index head, std::span<Real> row) const;

 private:
  /// Numbers of either precision in a tensor that somebody else keeps.
  struct Numbers {
    const float* f32 = nullptr;
    const double* f64 = nullptr;
    double at(Index i) const { return f32 != nullptr ? static_cast<double>(f32[i]) : f64[i]; }
    template <class Real>
    Real as(Index i) const {
      return f32 != nullptr ? static_cast<Real>(f32[i]) : static_cast<Real>(f64[i]);
    }
  };
  /// Steps between neighbours on each axis; 0: the same number for all.
  struct Strides {
    Index sequence = 0, position = 0, head = 0, unit = 0;
  };

  template <class Real>
  void borrow(const BasicTrace<Real>& trace, SiteRef site, const SiteShape& shape, std::optional<SiteRef> divisor);
  void average(Index sequences, bool over_positions, const SiteShape& shape);
  void map(const Source& source, const BatchLayout& layout);
  Index key(Index sequence, Index key) const;

  std::string what_;
  Values owner_;    // keeps given values
  TensorF64 mean_;  // keeps averages
  Numbers numbers_, divisors_;
  Strides strides_;
  Index divisor_stride_ = 0;  // between sequences
  bool by_key_ = false;
  std::vector<Index> lengths_, padding_;       // by sequence of the source
  std::vector<Index> sequence_of_;             // by sequence of the run
  std::vector<std::vector<Index>> positions_;  // by sequence of the run, in the source; empty: the same
};

}  // namespace kirchhoff::engine
