// What each edit makes of the numbers that it selects, and which mistakes are refused.
#include <gtest/gtest.h>

#include <algorithm>  // for find

#include "engine/support.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/intervention.h"
#include "kirchhoff/engine/sites.h"

namespace kirchhoff {
namespace {

using test::relative_error;
using test::same_bits;

/// Coordinates of one number of a site: [batch, pos, head, unit], or [batch, head, query, key] in that order.
struct At {
  Index sequence, position, head, unit;
};

/// A site's tensor without its padding (sequences of one length).
class SiteValues {
 public:
  SiteValues(const TensorF64& tensor, const SiteInfo& site)
      : tensor_(tensor),
        by_key_(site.axes[2] == Axis::key_pos),
        heads_(by_key_                      ? tensor.dim(1)
               : site.axes[2] != Axis::none ? tensor.dim(2)
                                            : 1) {}
  bool by_key() const { return by_key_; }
  Index heads() const { return heads_; }
  Index units() const { return tensor_.dim(-1); }
  Index positions() const { return tensor_.dim(by_key_ ? 2 : 1); }
  double operator()(At at) const {
    const Index row = by_key_ ? (at.sequence * heads_ + at.head) * positions() + at.position
                              : (at.sequence * positions() + at.position) * heads_ + at.head;
    return tensor_[row * units() + at.unit];
  }
  template <class F>
  void for_each(const F& f) const {
    for (Index s = 0; s < tensor_.dim(0); ++s)
      for (Index p = 0; p < positions(); ++p)
        for (Index h = 0; h < heads_; ++h)
          for (Index u = 0; u < units(); ++u) f(At{s, p, h, u});
  }

 private:
  const TensorF64& tensor_;
  bool by_key_;
  Index heads_;
};

class Edits : public test::EveryFamily {
 protected:
  static constexpr Index kLength = 6;
  Edits()
      : model_(model()),
        batch_{tokens(kLength, 3), tokens(kLength, 4)},
        clean_(run_f64(model_, batch_, {.capture = {"**"}})),
        other_(run_f64(model_, std::vector<Tokens>{tokens(kLength, 5), tokens(kLength, 6)}, {.capture = {"**"}})) {}

  static bool has(const Selection& selection, Index entry, Index size) {
    if (selection.all()) return true;
    const std::vector<Index>& entries = selection.entries();
    return std::find(entries.begin(), entries.end(), entry) != entries.end() ||
           std::find(entries.begin(), entries.end(), entry - size) != entries.end();
  }
  /// A random part of a site.
  Where some(Random& random, const SiteValues& values, bool whole_rows) const {
    Where where;
    if (random.below(2) == 0) where.sequences = {random.below(2)};
    if (random.below(3) != 0) where.positions = {random.below(kLength), -1 - random.below(kLength)};
    if (values.heads() > 1 && random.below(2) == 0) where.heads = {random.below(values.heads())};
    if (!whole_rows && random.below(2) == 0)
      (values.by_key() ? where.keys : where.units) = {random.below(values.units()), -1};
    return where;
  }

  const Model model_;
  const std::vector<Tokens> batch_;
  const TraceF64 clean_, other_;
};

/// What an edit is to give, by its definition.
double edited(const Intervention& e, const SiteValues& clean, const SiteValues& other, const std::vector<double>& row,
              At at) {
  const double x = clean(at);
  switch (e.edit) {
    case Edit::set:
      return row[static_cast<std::size_t>(at.unit)];
    case Edit::add:
      return x + e.factor * row[static_cast<std::size_t>(at.unit)];
    case Edit::scale:
      return x * e.factor;
    case Edit::zero:
      return 0.0;
    case Edit::mean:
      return (other({0, at.position, at.head, at.unit}) + other({1, at.position, at.head, at.unit})) / 2;
    case Edit::mean_all: {
      double sum = 0;
      for (Index s = 0; s < 2; ++s)
        for (Index p = 0; p < clean.positions(); ++p) sum += other({s, p, at.head, at.unit});
      return sum / static_cast<double>(2 * clean.positions());
    }
    case Edit::resample:
      return other(at);
    case Edit::project_out: {
      double along = 0, square = 0;
      for (Index u = 0; u < clean.units(); ++u) {
        const double v = row[static_cast<std::size_t>(u)];
        along += clean({at.sequence, at.position, at.head, u}) * v;
        square += v * v;
      }
      return x - along / square * row[static_cast<std::size_t>(at.unit)];
    }
  }
  return x;
}

// Random edits of random parts of every site; upstream of the site nothing changes, so its own values say what
// happened.
TEST_P(Edits, EachDoesWhatItSays) {
  Random random(12);
  std::size_t turn = 0;
  for (const SiteRef& ref : sites_of(config())) {
    if (ref.layer == 0 && info(ref.site).per_layer()) continue;
    if (!test::runs_in(GetParam(), turn++)) continue;
    const SiteValues clean(clean_.at(site_name(ref)), info(ref.site)), other(other_.at(site_name(ref)), info(ref.site));
    for (const Edit edit : {Edit::set, Edit::add, Edit::scale, Edit::zero, Edit::mean, Edit::mean_all, Edit::resample,
                            Edit::project_out}) {
      if (clean.by_key() && (edit == Edit::mean_all || edit == Edit::project_out)) continue;
      Intervention e{.site = site_name(ref), .edit = edit};
      e.where = some(random, clean, edit == Edit::project_out);
      std::vector<double> row;
      for (Index u = 0; u < clean.units(); ++u) row.push_back(random.normal());
      if (edit == Edit::set || edit == Edit::add || edit == Edit::project_out)
        e.values = Values::row(std::span<const double>(row));
      if (edit == Edit::add || edit == Edit::scale) e.factor = -1.5;
      if (edit == Edit::mean || edit == Edit::mean_all || edit == Edit::resample) e.source.trace = other_;
      RunOptions options;
      options.capture = {e.site};
      options.interventions.sites = {e};
      const TraceF64 trace = run_f64(model_, batch_, options);
      const SiteValues got(trace.at(e.site), info(ref.site));
      std::vector<double> have, want;
      clean.for_each([&](At at) {
        const bool selected = has(e.where.sequences, at.sequence, 2) && has(e.where.positions, at.position, kLength) &&
                              has(e.where.heads, at.head, clean.heads()) &&
                              has(clean.by_key() ? e.where.keys : e.where.units, at.unit, clean.units());
        const bool hidden = ref.site == Site::attn_scores && std::isinf(clean(at));
        have.push_back(got(at));
        want.push_back(selected && !hidden ? edited(e, clean, other, row, at) : clean(at));
      });
      EXPECT_LE(relative_error(have, want), 1e-13) << name(edit) << " at " << e.site;
    }
  }
}

// Steering, and a vector projected out of the stream, in float32.
TEST_P(Edits, ValuesOfEitherPrecisionAndShape) {
  const Index d = config().d_model;
  Random random(3);
  Tensor all({2, kLength, d}), row({d}), one({1, kLength, d});
  for (Tensor* t : {&all, &row, &one})
    for (float& v : t->values()) v = static_cast<float>(random.normal());
  const auto captured = [&](Values values) {
    RunOptions options;
    options.capture = {"blocks.1.hook_resid_pre"};
    options.interventions.sites = {{.site = "resid_pre1", .edit = Edit::set, .values = std::move(values)}};
    return run(model_, batch_, options).at("blocks.1.hook_resid_pre").clone();
  };
  EXPECT_TRUE(same_bits(captured(all.clone()), all));
  const Tensor rows = captured(row.clone()), ones = captured(one.clone()), halves = captured(0.5);
  for (Index i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i], row[i % d]);
    EXPECT_EQ(ones[i], one[i % (kLength * d)]);
    EXPECT_EQ(halves[i], 0.5F);
  }
}

TEST_P(Edits, PositionsAreMapped) {
  Intervention e{.site = site_name(Site::z, 1), .edit = Edit::resample, .source = {.trace = other_}};
  e.source.sequences = {1, 0};
  e.source.positions = {{-1, 0, 1, 2, -1, 5}};
  RunOptions options;
  options.capture = {e.site};
  options.interventions.sites = {e};
  const TraceF64 trace = run_f64(model_, batch_, options);
  const SiteInfo& z = info(Site::z);
  const SiteValues got(trace.at(e.site), z), clean(clean_.at(e.site), z), other(other_.at(e.site), z);
  clean.for_each([&](At at) {
    const Index from = e.source.positions[0][static_cast<std::size_t>(at.position)];
    EXPECT_EQ(got(at), from < 0 ? clean(at) : other({1 - at.sequence, from, at.head, at.unit}));
  });
}

// Three of them at one place: the first replaces, the others go on from there, in order.
TEST_P(Edits, OneAfterTheOther) {
  const std::string site = site_name(Site::resid_pre, 1);
  RunOptions options;
  options.capture = {site};
  options.interventions.sites = {{.site = site, .edit = Edit::resample, .source = {.trace = other_}},
                                 {.site = site, .edit = Edit::add, .values = 1.0},
                                 {.site = site, .edit = Edit::scale, .factor = 2.0}};
  const TraceF64 trace = run_f64(model_, batch_, options);
  for (Index i = 0; i < trace.at(site).size(); ++i) EXPECT_EQ(trace.at(site)[i], (other_.at(site)[i] + 1.0) * 2.0);
}

TEST_P(Edits, MistakesAreNamed) {
  const auto error = [&](std::vector<Intervention> sites) -> std::string {
    RunOptions options;
    options.interventions.sites = std::move(sites);
    try {
      run(model_, batch_, options);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::usage);
      return e.what();
    }
    return "no error";
  };
  const auto says = [&](const std::vector<Intervention>& sites, const std::vector<std::string>& words) {
    const std::string text = error(sites);
    for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << text << "\nlacks: " << word;
  };
  const std::string z = site_name(Site::z, 0), resid = site_name(Site::resid_pre, 1);
  says({{.site = "blocks.0.attn.hook_zz"}}, {"unknown site"});
  says({{.site = z, .where = {.positions = {6}}}},
       {"intervention 0 (zero at", z, "positions of sequence 0", "6", "0 to 5"});
  says({{.site = z, .where = {.sequences = {2}}}}, {"sequences", "0 to 1"});
  says({{.site = z, .where = {.heads = {config().n_heads}}}}, {"heads"});
  says({{.site = resid, .where = {.heads = {0}}}}, {"no heads"});
  says({{.site = resid, .where = {.keys = {0}}}}, {"no keys"});
  says({{.site = site_name(Site::pattern, 0), .where = {.units = {0}}}}, {"select keys"});
  says({{.site = z, .edit = Edit::set}}, {"no values"});
  says({{.site = z, .values = 1.0}}, {"takes no values"});
  says({{.site = z, .factor = 2.0}}, {"factor", "2"});
  says({{.site = z, .edit = Edit::resample}}, {"no trace"});
  says({{.site = z, .source = {.trace = other_}}}, {"nothing from a trace"});
  says({{.site = resid, .edit = Edit::set, .values = Tensor({3})}}, {"[3]", "do not fit"});
  says({{.site = resid, .edit = Edit::project_out, .values = 0.0}}, {"direction is zero"});
  says({{.site = resid}, {.site = resid, .edit = Edit::resample, .source = {.trace = other_}}},
       {"intervention 1 (resample", "would undo", "intervention 0 (zero"});
  says({{.site = resid, .edit = Edit::scale}, {.site = resid}}, {"would undo"});
  EXPECT_EQ(error({{.site = resid, .where = {.positions = {0}}}, {.site = resid, .where = {.positions = {1}}}}),
            "no error");
  EXPECT_EQ(error({{.site = resid}, {.site = resid, .edit = Edit::scale, .factor = 2.0}}), "no error");

  const TraceF64 one = run_f64(model_, tokens(4, 7), {.capture = {z}});
  says({{.site = z, .edit = Edit::resample, .source = {.trace = one}}}, {"position 4", "the source has 4"});
  says({{.site = resid, .edit = Edit::resample, .source = {.trace = one}}}, {"did not record", resid});
  says({{.site = z, .edit = Edit::resample, .source = {.trace = other_, .sequences = {0}}}}, {"maps 1 sequences"});
  says({{.site = z, .edit = Edit::resample, .source = {.trace = other_, .sequences = {0, 2}}}}, {"no sequence 2"});
  says({{.site = z, .edit = Edit::resample, .source = {.trace = other_, .positions = {{0, 1}}}}}, {"maps 2 positions"});
}

KIRCHHOFF_EVERY_FAMILY(Edits);

}  // namespace
}  // namespace kirchhoff
