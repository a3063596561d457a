#include "circuit_sections.h"

#include <algorithm>   // for min
#include <cmath>       // for abs
#include <functional>  // for function

#include "attribution_view.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/io/tensor_writer.h"
#include "progress_printer.h"
#include "table.h"

namespace kirchhoff::cli {
namespace {

/// Tokens with values, side by side: the largest and the smallest.
std::string token_columns(const CircuitStudy& study,
                          const std::vector<std::pair<std::string, std::vector<CircuitEntry>>>& lists,
                          const std::function<std::string(const CircuitEntry&)>& label) {
  std::vector<std::vector<std::string>> blocks;
  for (const auto& [title, entries] : lists) {
    Table table({{title}, {"", true}});
    for (const CircuitEntry& entry : entries)
      table.add({{label(entry), Style::token}, signed_value(static_cast<double>(entry.value))});
    blocks.push_back(table.lines(study.session.out, 44));
  }
  return flowing(blocks, 3, study.session.out.columns());
}

std::vector<std::pair<std::string, std::vector<CircuitEntry>>> both_ends(const CircuitExtremes& found) {
  return {{"largest", found.top}, {"smallest", found.bottom}};
}

enum class Side { row, column };

/// Values over a side of the circuit: {"top", "bottom"} of its tokens or positions.
Json side_values(CircuitStudy& study, const std::string& title, std::span<const float> values, Side side) {
  const CircuitExtremes found = extremes(values, study.options.count());
  if (study.screen()) {
    study.title(title);
    study.session.out.write(token_columns(study, both_ends(found), [&](const CircuitEntry& e) {
      return side == Side::row ? study.shown_row(e.column) : study.shown_column(e.column);
    }));
  }
  const auto list = [&](const std::vector<CircuitEntry>& entries) {
    Json tokens = Json::array();
    for (const CircuitEntry& e : entries) {
      Json entry = side == Side::row ? study.row_json(e.column) : study.column_json(e.column);
      entry["value"] = e.value;
      tokens.push_back(std::move(entry));
    }
    return tokens;
  };
  return {{"top", list(found.top)}, {"bottom", list(found.bottom)}};
}

std::string standing(double value, const NullBand& band) {
  return fmt::format("{:+.3f} (random heads: {:+.3f} ± {:.3f}, {:+.1f} sd)", value, band.mean, band.sd,
                     band.sd > 0.0 ? (value - band.mean) / band.sd : 0.0);
}

/// Column j of u or v as tokens.
std::vector<float> direction(const TensorF64& basis, Index j) {
  std::vector<float> values;
  for (Index t = 0; t < basis.dim(0); ++t) values.push_back(static_cast<float>(basis[t * basis.dim(1) + j]));
  return values;
}

}  // namespace

std::string CircuitStudy::shown(Index i, CircuitInput input) const {
  return input == CircuitInput::position ? fmt::format("position {}", i) : subject.shown(static_cast<TokenId>(i));
}

Json CircuitStudy::side_json(Index i, CircuitInput input) const {
  if (input == CircuitInput::position) return {{"pos", i}};
  return to_json(static_cast<TokenId>(i), subject.names());
}

CircuitInput circuit_input(const std::optional<std::string>& text, const char* option) {
  check(!text || *text == "token" || *text == "position", ErrorCode::usage,
        "option '{}': '{}' is not token or position", option, text.value_or(""));
  return text == "position" ? CircuitInput::position : CircuitInput::token;
}

bool divides_by_token(const ModelConfig& config, CircuitKind kind, bool raw) {
  return kind == CircuitKind::qk && config.qk_norm == QkNorm::per_head && !raw;
}

void show_extremes(CircuitStudy& study) {
  CircuitExtremes found;
  {
    ProgressPrinter printer(study.session.err, study.session.quiet);
    found = circuit_extremes(study.circuit, study.options.count(), printer.callback());
  }
  const std::vector<std::string> axes = circuit_axes(study.kind);
  const auto list = [&](const std::vector<CircuitEntry>& entries) {
    Json json = Json::array();
    for (const CircuitEntry& e : entries)
      json.push_back({{axes[0], study.row_json(e.row)}, {axes[1], study.column_json(e.column)}, {"value", e.value}});
    return json;
  };
  study.result["top"] = list(found.top);
  study.result["bottom"] = list(found.bottom);
  if (!study.screen()) return;
  study.title(fmt::format("Largest and smallest of all {} × {} entries, {} → {}", study.circuit.rows(),
                          study.circuit.columns(), axes[0], axes[1]));
  study.session.out.write(token_columns(study, both_ends(found), [&](const CircuitEntry& e) {
    return fmt::format("{} → {}", study.shown_row(e.row), study.shown_column(e.column));
  }));
}

void show_token(CircuitStudy& study, TokenId token) {
  const bool ov = study.kind == CircuitKind::ov;
  const std::vector<std::string> axes = circuit_axes(study.kind);
  const std::string shown = study.subject.shown(token);
  study.result["token"] = to_json(token, study.subject.names());
  if (token < study.circuit.rows() && study.circuit_options.query == CircuitInput::token)
    study.result[fmt::format("as_{}", axes[0])] =
        side_values(study,
                    ov ? fmt::format("{} as source: what attending to it does to the logits", shown)
                       : fmt::format("{} as query: the keys it looks for", shown),
                    circuit_row(study.circuit, token), Side::column);
  if (token < study.circuit.columns() && study.circuit_options.key == CircuitInput::token)
    study.result[fmt::format("as_{}", axes[1])] =
        side_values(study,
                    ov ? fmt::format("{} as output: the sources that change its logit", shown)
                       : fmt::format("{} as key: the queries that look for it", shown),
                    circuit_column(study.circuit, token), Side::row);
}

void show_diagonal(CircuitStudy& study) {
  DiagonalStatistics statistics;
  {
    ProgressPrinter printer(study.session.err, study.session.quiet);
    statistics = diagonal_statistics(study.circuit, 5, printer.callback());
  }
  study.result["diagonal"] = to_json(statistics);
  if (!study.screen()) return;
  study.title("Diagonal: tokens and themselves");
  const char* row = study.kind == CircuitKind::ov ? "source" : "query";
  Table table({{"statistic"}, {"value", true}});
  table.add({"trace", signed_value(statistics.trace)});
  table.add({"mean of the diagonal", signed_value(statistics.mean)});
  table.add({"mean of all entries", signed_value(statistics.mean_of_all)});
  table.add({"share above 0", fmt::format("{:.2f} %", 100.0 * statistics.positive_share)});
  table.add({fmt::format("own token is the largest of its {}'s row", row),
             fmt::format("{:.2f} %", 100.0 * statistics.top_1)});
  table.add({"... among the 5 largest", fmt::format("{:.2f} %", 100.0 * statistics.top_k)});
  study.session.out.write(table.render(study.session.out));
}

void show_eigenvalues(CircuitStudy& study) {
  ProgressPrinter printer(study.session.err, study.session.quiet);
  const VocabularySpectra spectra(study.subject.model, study.kind, study.options.raw, printer.callback());
  std::vector<std::complex<double>> values;
  if (divides_by_token(study.subject.model.config, study.kind, study.options.raw)) {
    CircuitOptions plain = study.circuit_options;
    plain.centre = false;
    values = token_circuit(study.subject.model, study.head, study.kind, plain).factored().eigenvalues();
  } else {
    values = spectra.of(study.head);
    for (std::complex<double>& value : values)
      if (study.kind == CircuitKind::qk) value *= study.head.score_scale;
  }
  const NullBand band = spectra.null_band(study.head.q.dim(0), kNullSamples, study.session.seed);
  const double score = positivity(values);
  study.result["eigenvalues"] = to_json(values);
  study.result["positivity"] = score;
  study.result["positivity_null"] = to_json(band);
  if (study.kind == CircuitKind::qk && !study.options.raw)
    study.notes.push_back("eigenvalues are those before the rows' means are subtracted");
  study.eigenvalues = values;
  study.random_eigenvalues = spectra.of_random_head(study.head.q.dim(0), study.session.seed);
  if (!study.screen()) return;
  study.title("Eigenvalues");
  study.session.out.write(fmt::format("  positivity Σλ/Σ|λ| = {}\n", standing(score, band)));
  Table table({{"λ"}, {"|λ|", true}});
  for (std::size_t i = 0; i < values.size() && i < static_cast<std::size_t>(study.options.count()); ++i)
    table.add({fmt::format("{:+.4g} {} {:.4g}i", values[i].real(), values[i].imag() < 0.0 ? "−" : "+",
                           std::abs(values[i].imag())),
               fmt::format("{:.4g}", std::abs(values[i]))});
  study.session.out.write(table.render(study.session.out));
  const auto left = static_cast<Index>(values.size()) - study.options.count();
  if (left > 0) study.session.out.write(note(study.session.out, fmt::format("{} smaller ones are in --json", left)));
}

void show_singular(CircuitStudy& study) {
  const SingularValues svd = study.circuit.factored().svd();
  const std::vector<std::string> axes = circuit_axes(study.kind);
  double squares = 0.0;
  for (const double s : svd.s) squares += s * s;
  Json list = Json::array();
  for (Index j = 0; j < std::min<Index>(study.options.singular, static_cast<Index>(svd.s.size())); ++j) {
    const double s = svd.s[static_cast<std::size_t>(j)];
    const std::string of =
        fmt::format("Singular direction {}: {:.4g}, {:.1f} % of the squares", j, s, 100.0 * s * s / squares);
    Json entry = {{"value", s}};
    entry[axes[0]] = side_values(study, fmt::format("{}, {} side", of, axes[0]), direction(svd.u, j), Side::row);
    entry[axes[1]] = side_values(study, fmt::format("{}, {} side", of, axes[1]), direction(svd.v, j), Side::column);
    list.push_back(std::move(entry));
  }
  study.result["singular"] = std::move(list);
  study.result["singular_values"] = svd.s;
}

void write_full(CircuitStudy& study) {
  const Tensor matrix = circuit_matrix(study.circuit);
  const std::vector<io::StoredTensor> tensors = {io::borrowed("circuit", matrix)};
  io::write_npz(*study.options.output.path, tensors);
  study.result["output"] = *study.options.output.path;
  if (study.screen())
    study.session.out.write(fmt::format("\nwrote {}: circuit [{}, {}], {} × {}\n", *study.options.output.path,
                                        circuit_axes(study.kind)[0], circuit_axes(study.kind)[1], matrix.dim(0),
                                        matrix.dim(1)));
}

}  // namespace kirchhoff::cli
