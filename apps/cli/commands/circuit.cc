// kirchhoff ov and kirchhoff qk: one head's circuit from token to token, by weights alone.
#include <algorithm>   // for min, stable_sort
#include <filesystem>  // for path
#include <memory>      // for make_shared

#include "attribution_view.h"
#include "commands.h"
#include "json_option.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/io/tensor_writer.h"
#include "kirchhoff/study/circuit_json.h"
#include "progress_printer.h"
#include "selectors.h"
#include "subject.h"
#include "table.h"
#include "weights_subject.h"

namespace kirchhoff::cli {
namespace {

constexpr Index kNullSamples = 40;

struct CircuitCommand {
  ModelOptions model;
  JsonOption json;
  std::optional<std::string> head, through, token, output;
  std::optional<Index> token_id, top;
  Index singular = 0, offset = 0;
  bool diagonal = false, eigen = false, raw = false, full = false;

  Index count() const { return top.value_or(10); }
  /// Nothing in particular was asked for: the largest entries are shown.
  bool extremes(bool token_given) const {
    return !token_given && (top || !(diagonal || eigen || full || singular > 0));
  }
};

/// What a command works on, and where its sections go: to the screen or into one object.
struct CircuitStudy {
  Session& session;
  const CircuitCommand& options;
  WeightsSubject subject;
  CircuitKind kind;
  HeadMatrices head;
  TokenCircuit circuit;
  CircuitOptions circuit_options;
  std::vector<std::string> notes;
  Json result;

  bool screen() const { return !options.json.wanted(); }
  std::string shown(Index id) const { return subject.shown(static_cast<TokenId>(id)); }
  void title(const std::string& text) const {
    session.out.write(fmt::format("\n{}\n", session.out.paint(Style::title, text)));
  }
};

std::pair<Index, Index> one_head(const std::string& text, const ModelConfig& config, const char* option) {
  const auto heads = parse_heads(text, config.n_layers, config.n_heads);
  check(heads.size() == 1, ErrorCode::usage, "option '{}': '{}' selects {} heads; one is looked at", option, text,
        heads.size());
  return heads.front();
}

std::optional<TokenId> chosen_token(const CircuitCommand& options, const OpenedModel& opened) {
  check(!(options.token && options.token_id), ErrorCode::usage, "options '--token' and '--token-id' were both given");
  if (options.token_id) return static_cast<TokenId>(*options.token_id);
  if (!options.token) return std::nullopt;
  check(opened.tokenizer != nullptr, ErrorCode::usage, "option '--token': '{}' has no tokenizer; use '--token-id'",
        opened.files.argument);
  return single_token(*opened.tokenizer, *options.token, "option '--token'");
}

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

void show_extremes(CircuitStudy& study) {
  CircuitExtremes found;
  {
    ProgressPrinter printer(study.session.err, study.session.quiet);
    found = circuit_extremes(study.circuit, study.options.count(), printer.callback());
  }
  study.result["top"] = entries_json(found.top, study.kind, study.subject.names());
  study.result["bottom"] = entries_json(found.bottom, study.kind, study.subject.names());
  if (!study.screen()) return;
  const std::vector<std::string> axes = circuit_axes(study.kind);
  study.title(fmt::format("Largest and smallest of all {} × {} entries, {} → {}", study.circuit.rows(),
                          study.circuit.columns(), axes[0], axes[1]));
  study.session.out.write(token_columns(study, both_ends(found), [&](const CircuitEntry& e) {
    return fmt::format("{} → {}", study.shown(e.row), study.shown(e.column));
  }));
}

/// A token's row or column: {"top", "bottom"} of the other side's tokens.
Json token_side(CircuitStudy& study, const std::string& title, std::span<const float> values) {
  const CircuitExtremes found = extremes(values, study.options.count());
  if (study.screen()) {
    study.title(title);
    study.session.out.write(
        token_columns(study, both_ends(found), [&](const CircuitEntry& e) { return study.shown(e.column); }));
  }
  const auto list = [&](const std::vector<CircuitEntry>& entries) {
    Json tokens = Json::array();
    for (const CircuitEntry& e : entries) {
      Json entry = to_json(static_cast<TokenId>(e.column), study.subject.names());
      entry["value"] = e.value;
      tokens.push_back(std::move(entry));
    }
    return tokens;
  };
  return {{"top", list(found.top)}, {"bottom", list(found.bottom)}};
}

void show_token(CircuitStudy& study, TokenId token) {
  const bool ov = study.kind == CircuitKind::ov;
  const std::vector<std::string> axes = circuit_axes(study.kind);
  const std::string shown = study.subject.shown(token);
  study.result["token"] = to_json(token, study.subject.names());
  if (token < study.circuit.rows())
    study.result[fmt::format("as_{}", axes[0])] =
        token_side(study,
                   ov ? fmt::format("{} as source: what attending to it does to the logits", shown)
                      : fmt::format("{} as query: the keys it looks for", shown),
                   circuit_row(study.circuit, token));
  if (token < study.circuit.columns())
    study.result[fmt::format("as_{}", axes[1])] =
        token_side(study,
                   ov ? fmt::format("{} as output: the sources that change its logit", shown)
                      : fmt::format("{} as key: the queries that look for it", shown),
                   circuit_column(study.circuit, token));
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

std::string standing(double value, const NullBand& band) {
  return fmt::format("{:+.3f} (random heads: {:+.3f} ± {:.3f}, {:+.1f} sd)", value, band.mean, band.sd,
                     band.sd > 0.0 ? (value - band.mean) / band.sd : 0.0);
}

/// Divided token by token, queries and keys have no spectrum that the vocabulary's Gram knows.
bool divides_by_token(const ModelConfig& config, CircuitKind kind, bool raw) {
  return kind == CircuitKind::qk && config.qk_norm == QkNorm::per_head && !raw;
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

/// Column j of u or v as tokens.
std::vector<float> direction(const TensorF64& basis, Index j) {
  std::vector<float> values;
  for (Index t = 0; t < basis.dim(0); ++t) values.push_back(static_cast<float>(basis[t * basis.dim(1) + j]));
  return values;
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
    entry[axes[0]] = token_side(study, fmt::format("{}, {} side", of, axes[0]), direction(svd.u, j));
    entry[axes[1]] = token_side(study, fmt::format("{}, {} side", of, axes[1]), direction(svd.v, j));
    list.push_back(std::move(entry));
  }
  study.result["singular"] = std::move(list);
  study.result["singular_values"] = svd.s;
}

void write_full(CircuitStudy& study) {
  const Tensor matrix = circuit_matrix(study.circuit);
  const std::vector<io::StoredTensor> tensors = {io::borrowed("circuit", matrix)};
  io::write_npz(*study.options.output, tensors);
  study.result["output"] = *study.options.output;
  if (study.screen())
    study.session.out.write(fmt::format("\nwrote {}: circuit [{}, {}], {} × {}\n", *study.options.output,
                                        circuit_axes(study.kind)[0], circuit_axes(study.kind)[1], matrix.dim(0),
                                        matrix.dim(1)));
}

void check_options(const CircuitCommand& options, CircuitKind kind) {
  check(options.count() >= 1, ErrorCode::usage, "option '--top': {} is less than 1", options.count());
  check(options.singular >= 0, ErrorCode::usage, "option '--singular': {} is negative", options.singular);
  check(options.full == options.output.has_value(), ErrorCode::usage,
        "options '--full' and '-o' belong together: '--full -o circuit.npz' writes the whole matrix");
  if (options.output)
    check(std::filesystem::path(*options.output).extension() == ".npz", ErrorCode::usage,
          "option '--output': '{}' does not end in .npz", *options.output);
  const bool about_one =
      options.token || options.token_id || options.diagonal || options.full || options.through || options.singular > 0;
  check(options.head || !about_one, ErrorCode::usage, "option '--head' is missing: which head's {} circuit?",
        name(kind));
}

/// Every head's positivity.
int list_heads(Session& session, const CircuitCommand& options, CircuitKind kind, WeightsSubject subject) {
  const ModelConfig& config = subject.model.config;
  const HeadForm form{.raw = options.raw, .offset = options.offset};
  struct Row {
    Index layer, head;
    double positivity;
  };
  std::vector<Row> rows;
  NullBand band;
  {
    ProgressPrinter printer(session.err, session.quiet);
    const Progress progress = printer.callback();
    const VocabularySpectra spectra(subject.model, kind, options.raw, progress);
    band = spectra.null_band(config.d_head, kNullSamples, session.seed);
    for (Index layer = 0; layer < config.n_layers; ++layer) {
      report(progress, "spectra", layer, config.n_layers);
      for (Index head = 0; head < config.n_heads; ++head)
        rows.push_back({layer, head, positivity(spectra.of(head_matrices(subject.model, layer, head, form)))});
    }
  }
  std::vector<std::string> notes =
      circuit_notes(subject.model, kind, {.form = form, .centre = kind == CircuitKind::ov});
  if (divides_by_token(config, kind, options.raw))
    notes.push_back("the divisors of the q/k norm are left out here; with --head they are not");
  if (options.json.wanted()) {
    Json result = new_result(name(kind), session, subject);
    result["heads"] = Json::array();
    for (const Row& row : rows)
      result["heads"].push_back({{"head", head_node(row.layer, row.head)}, {"positivity", row.positivity}});
    result["positivity_null"] = to_json(band);
    result["raw"] = options.raw;
    result["assumptions"] = notes;
    options.json.print(session, result);
    return 0;
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.positivity > b.positivity; });
  session.out.write(model_line(session, subject));
  session.out.write(fmt::format(
      "\n{}\n", session.out.paint(Style::title, kind == CircuitKind::ov ? "Positivity of OV eigenvalues: copying"
                                                                        : "Positivity of QK eigenvalues: same token")));
  const auto columns = [&](const std::string& title, auto begin, auto end) {
    Table table({{title}, {"positivity", true}, {"sd", true}});
    for (auto it = begin; it != end; ++it)
      table.add({head_name(it->layer, it->head), signed_value(it->positivity),
                 fmt::format("{:+.1f}", band.sd > 0.0 ? (it->positivity - band.mean) / band.sd : 0.0)});
    return table.lines(session.out, 40);
  };
  const auto all = static_cast<std::ptrdiff_t>(rows.size()), n = std::min<std::ptrdiff_t>(options.count(), all);
  std::vector<std::vector<std::string>> lists;
  if (all <= 2 * n)
    lists = {columns("head", rows.begin(), rows.end())};
  else
    lists = {columns("most positive", rows.begin(), rows.begin() + n),
             columns("most negative", rows.rbegin(), rows.rbegin() + n)};
  session.out.write(flowing(lists, 3, session.out.columns()));
  session.out.write(fmt::format(
      "\n{}", note(session.out,
                   fmt::format("random heads: {:+.3f} ± {:.3f}; sd: how many of those away", band.mean, band.sd))));
  session.out.write(notes_lines(session, notes));
  const Row& best = rows.front();
  session.out.write(fmt::format("{} kirchhoff {} {} --head {}\n", session.out.paint(Style::faint, "next:"), name(kind),
                                shell_quoted(subject.opened.files.argument), head_name(best.layer, best.head)));
  return 0;
}

int circuit_command(Session& session, const CircuitCommand& options, CircuitKind kind) {
  check_options(options, kind);
  WeightsSubject subject;
  subject.opened = open_model(options.model.model);
  const std::optional<TokenId> token = chosen_token(options, subject.opened);
  subject.model = load_weights(session, subject.opened, options.model);
  const Index tokens = std::max(subject.model.config.d_vocab, subject.model.config.d_vocab_out);
  check(!token || (*token >= 0 && *token < tokens), ErrorCode::usage,
        "option '--token-id': {} is not in the vocabulary of {} tokens", token.value_or(0), tokens);
  if (!options.head) return list_heads(session, options, kind, std::move(subject));

  const auto [layer, head] = one_head(*options.head, subject.model.config, "--head");
  CircuitOptions circuit_options;
  circuit_options.form = {.raw = options.raw, .offset = options.offset};
  HeadMatrices matrices = head_matrices(subject.model, layer, head, circuit_options.form);
  std::vector<std::string> notes = circuit_notes(subject.model, kind, circuit_options);
  std::string through;
  if (options.through) {
    const auto [l, h] = one_head(*options.through, subject.model.config, "--through");
    check(!divides_by_token(subject.model.config, kind, options.raw), ErrorCode::usage,
          "option '--through': keys are divided by their own norm in this model, so that their scale through another "
          "head is "
          "not known from weights; with '--raw' no norm counts");
    const HeadMatrices writer = head_matrices(subject.model, l, h, {.raw = options.raw, .offset = 0});
    matrices = kind == CircuitKind::ov ? virtual_head(matrices, writer) : keys_through(matrices, writer);
    through = head_node(l, h);
    notes.push_back(kind == CircuitKind::ov ? fmt::format("the virtual head: what {} moves of what {} wrote",
                                                          head_node(layer, head), through)
                                            : fmt::format("keys are what {} wrote, whatever it attended to", through));
    if (subject.model.config.norm != NormKind::none)
      notes.push_back("divisors of norms between the two heads are left out");
  }
  CircuitStudy study{.session = session,
                     .options = options,
                     .subject = std::move(subject),
                     .kind = kind,
                     .head = std::move(matrices),
                     .circuit = {},
                     .circuit_options = circuit_options,
                     .notes = std::move(notes),
                     .result = {}};
  study.result = new_result(name(kind), session, study.subject);
  study.result["head"] = head_node(layer, head);
  study.result["through"] = through.empty() ? Json(nullptr) : Json(through);
  study.result["axes"] = circuit_axes(kind);
  study.result["raw"] = options.raw;
  if (kind == CircuitKind::qk) study.result["offset"] = options.offset;
  if (study.screen()) {
    session.out.write(model_line(session, study.subject));
    session.out.write(
        header_line(session, "head",
                    fmt::format("{}{}{}, {} circuit", head_name(layer, head), through.empty() ? "" : " through ",
                                through, kind == CircuitKind::ov ? "OV" : "QK")));
  }
  const bool lists =
      token || options.diagonal || options.full || options.singular > 0 || options.extremes(token.has_value());
  if (lists) {
    ProgressPrinter printer(session.err, session.quiet);
    circuit_options.progress = printer.callback();
    study.circuit = token_circuit(study.subject.model, study.head, kind, circuit_options);
  }
  study.result["shape"] = {study.subject.model.config.d_vocab, kind == CircuitKind::ov
                                                                   ? study.subject.model.config.d_vocab_out
                                                                   : study.subject.model.config.d_vocab};
  if (token) show_token(study, *token);
  if (options.extremes(token.has_value())) show_extremes(study);
  if (options.diagonal) show_diagonal(study);
  if (options.eigen) show_eigenvalues(study);
  if (options.singular > 0) show_singular(study);
  if (options.full) write_full(study);
  if (!study.screen()) {
    study.result["assumptions"] = study.notes;
    options.json.print(session, study.result);
    return 0;
  }
  session.out.write("\n" + notes_lines(session, study.notes));
  return 0;
}

void add_circuit(Command& root, Session& session, CircuitKind kind, const std::string& summary) {
  const bool ov = kind == CircuitKind::ov;
  Command& command = root.add_command(name(kind), summary);
  auto options = std::make_shared<CircuitCommand>();
  options->model.declare(command);
  command.option("--head", "L.H", options->head, "the head, e.g. 9.9 (default: the positivity of all heads)");
  command.option("--token", "TEXT", options->token,
                 ov ? "its row and column: what it does as a source, what changes its logit"
                    : "its row and column: what it looks for as a query, what looks for it as a key");
  command.option("--token-id", "ID", options->token_id, "the same by token id");
  command.option("--top", "K", options->top, "the K largest and smallest entries (default 10)");
  command.flag("--diagonal", options->diagonal, "how tokens stand to themselves");
  command.flag("--eigen", options->eigen, "eigenvalues and their positivity, with that of random heads");
  command.option("--singular", "N", options->singular, "the first N singular directions, read as tokens");
  command.option("--through", "L.H", options->through,
                 ov ? "the virtual head behind this earlier one" : "keys that this earlier head wrote");
  if (!ov) command.option("--offset", "D", options->offset, "rotary positions: keys D behind the query (default 0)");
  command.flag("--raw", options->raw, "weights as in the file: no norm folded, nothing centred or scaled");
  command.flag("--full", options->full, "the whole matrix, of small vocabularies: with -o FILE.npz");
  command.option("-o,--output", "FILE", options->output, "where --full writes its array 'circuit'");
  options->json.declare(command);
  command.on_run([&session, options, kind] { return circuit_command(session, *options, kind); });
}

}  // namespace

void add_ov(Command& root, Session& session) {
  add_circuit(root, session, CircuitKind::ov, "what a head does to the logits, token by token, by its weights");
}

void add_qk(Command& root, Session& session) {
  add_circuit(root, session, CircuitKind::qk, "which tokens a head looks for, token by token, by its weights");
}

}  // namespace kirchhoff::cli
