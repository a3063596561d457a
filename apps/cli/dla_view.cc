#include "dla_view.h"

#include <algorithm>  // for max, min, partial_sort, stable_sort
#include <cmath>      // for abs

#include "attribution_view.h"
#include "table.h"

namespace kirchhoff::cli {
namespace {

/// Indices of `values` by magnitude, largest first, at most `count`.
std::vector<std::size_t> largest_of(const std::vector<double>& values, Index count) {
  std::vector<std::size_t> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&values](std::size_t a, std::size_t b) { return std::abs(values[a]) > std::abs(values[b]); });
  order.resize(std::min(order.size(), static_cast<std::size_t>(std::max<Index>(count, 0))));
  return order;
}

std::vector<double> values_of(const Attribution& attribution) {
  std::vector<double> values;
  for (const AttributionPart& part : attribution.parts) values.push_back(part.value);
  return values;
}

}  // namespace

std::string parts_table(const Session& session, const Attribution& attribution, const std::vector<double>& removal,
                        Index top) {
  std::vector<Column> columns = {{"part"}, {"value", true}, {""}};
  if (!removal.empty()) columns.push_back({"loss without it", true});
  Table table(columns);
  double largest = 0.0;
  for (const std::size_t p : largest_of(values_of(attribution), top)) {
    const AttributionPart& part = attribution.parts[p];
    largest = std::max(largest, std::abs(part.value));
    std::vector<Cell> row = {part.node, signed_value(part.value), signed_bar(part.value, largest)};
    if (!removal.empty()) row.push_back(signed_value(removal[p]));
    table.add(std::move(row));
  }
  return table.render(session.out);
}

std::string positions_table(const Session& session, const Subject& subject, const std::vector<Attribution>& all) {
  Table table({{"at"}, {"explains"}, {"value", true}, {"heads", true}, {"MLPs", true}, {"rest", true}, {"strongest"}});
  for (const Attribution& at : all) {
    const double heads = at.total(PartKind::head), mlps = at.total(PartKind::mlp);
    std::vector<std::string> strongest;
    for (const std::size_t p : largest_of(values_of(at), 3))
      strongest.push_back(fmt::format("{} {:+.2f}", at.parts[p].node, at.parts[p].value));
    table.add({{subject.shown_at(at.target.pos), Style::token},
               {subject.shown(at.target.token), Style::token},
               signed_value(at.own),
               signed_value(heads),
               signed_value(mlps),
               signed_value(at.sum - heads - mlps),
               fmt::format("{}", fmt::join(strongest, "  "))});
  }
  return table.render(session.out);
}

std::string means_table(const Session& session, const Subject& subject, const std::vector<Attribution>& all,
                        Index top) {
  const auto n = static_cast<double>(all.size());
  std::vector<double> means(all.front().parts.size(), 0.0);
  std::vector<const Attribution*> peaks(means.size(), &all.front());
  for (const Attribution& at : all)
    for (std::size_t p = 0; p < means.size(); ++p) {
      means[p] += at.parts[p].value / n;
      if (std::abs(at.parts[p].value) > std::abs(peaks[p]->parts[p].value)) peaks[p] = &at;
    }
  Table table({{"part"}, {"mean", true}, {""}, {"largest", true}, {"at"}});
  double largest = 0.0;
  for (const std::size_t p : largest_of(means, top)) {
    largest = std::max(largest, std::abs(means[p]));
    table.add({all.front().parts[p].node,
               signed_value(means[p]),
               signed_bar(means[p], largest),
               signed_value(peaks[p]->parts[p].value),
               {fmt::format("{} → {}", subject.shown_at(peaks[p]->target.pos), subject.shown(peaks[p]->target.token)),
                Style::token}});
  }
  return table.render(session.out);
}

std::string sources_table(const Session& session, const Subject& subject, const TensorF64& shares,
                          const std::vector<LogitTarget>& targets) {
  const auto row_of = [&shares](Index target) {
    const double* row = shares.data() + target * shares.dim(1);
    return std::vector<double>(row, row + shares.dim(1));
  };
  if (targets.size() == 1) {
    const std::vector<double> row = row_of(0);
    double largest = 0.0;
    for (const double share : row) largest = std::max(largest, std::abs(share));
    Table table({{"source"}, {"value", true}, {""}});
    for (std::size_t i = 0; i < row.size(); ++i)
      if (std::abs(row[i]) > 0.02 * largest)
        table.add({{subject.shown_at(static_cast<Index>(i)), Style::token},
                   signed_value(row[i]),
                   signed_bar(row[i], largest)});
    return table.render(session.out);
  }
  Table table({{"at"}, {"explains"}, {"value", true}, {"reads from"}});
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const std::vector<double> row = row_of(static_cast<Index>(t));
    double sum = 0.0, largest = 0.0;
    for (const double share : row) {
      sum += share;
      largest = std::max(largest, std::abs(share));
    }
    std::vector<std::string> sources;
    for (const std::size_t i : largest_of(row, 3))
      if (std::abs(row[i]) > 0.02 * largest)
        sources.push_back(fmt::format("{} {:+.2f}", subject.shown_at(static_cast<Index>(i)), row[i]));
    table.add({{subject.shown_at(targets[t].pos), Style::token},
               {subject.shown(targets[t].token), Style::token},
               signed_value(sum),
               {fmt::format("{}", fmt::join(sources, "  ")), Style::token}});
  }
  return table.render(session.out);
}

std::string neurons_table(const Session& session, const std::vector<NeuronAttribution>& layers, Index top) {
  std::vector<double> values;
  std::vector<std::pair<std::size_t, std::size_t>> which;  // layer's place, neuron
  double rest = 0.0, biases = 0.0, own = 0.0;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    for (std::size_t n = 0; n < layers[l].values.size(); ++n) {
      values.push_back(layers[l].values[n]);
      which.emplace_back(l, n);
      rest += layers[l].values[n];
    }
    biases += layers[l].bias;
    own += layers[l].own;
  }
  Table table({{"neuron"}, {"value", true}, {""}});
  const std::vector<std::size_t> listed = largest_of(values, top);
  for (const std::size_t i : listed) {
    table.add({fmt::format("m{}.n{}", layers[which[i].first].layer, which[i].second), signed_value(values[i]),
               signed_bar(values[i], std::abs(values[listed.front()]))});
    rest -= values[i];
  }
  if (values.size() > listed.size())
    table.add({fmt::format("{} others", values.size() - listed.size()), signed_value(rest), ""});
  if (biases != 0.0) table.add({"biases", signed_value(biases), ""});
  table.add({{layers.size() == 1 ? fmt::format("m{}", layers.front().layer) : "these MLPs", Style::strong},
             signed_value(own),
             ""});
  return table.render(session.out);
}

}  // namespace kirchhoff::cli
