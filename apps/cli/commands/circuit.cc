// kirchhoff ov and kirchhoff qk: one head's circuit from token to token, by weights alone.
#include <algorithm>   // for min, stable_sort
#include <filesystem>  // for path
#include <memory>      // for make_shared

#include "attribution_view.h"
#include "circuit_sections.h"
#include "commands.h"
#include "figures.h"
#include "kirchhoff/base/error.h"
#include "progress_printer.h"
#include "selectors.h"
#include "subject.h"
#include "table.h"

namespace kirchhoff::cli {
namespace {

std::optional<TokenId> chosen_token(const CircuitCommand& options, const OpenedModel& opened) {
  check(!(options.token && options.token_id), ErrorCode::usage, "options '--token' and '--token-id' were both given");
  if (options.token_id) return static_cast<TokenId>(*options.token_id);
  if (!options.token) return std::nullopt;
  check(opened.tokenizer != nullptr, ErrorCode::usage, "option '--token': '{}' has no tokenizer; use '--token-id'",
        opened.files.argument);
  return single_token(*opened.tokenizer, *options.token, "option '--token'");
}

void check_options(const CircuitCommand& options, CircuitKind kind) {
  check(options.count() >= 1, ErrorCode::usage, "option '--top': {} is less than 1", options.count());
  check(options.singular >= 0, ErrorCode::usage, "option '--singular': {} is negative", options.singular);
  check(!options.full || options.output.path, ErrorCode::usage,
        "option '--full' needs '-o': '--full -o circuit.npz' writes the whole matrix");
  if (options.full)
    check(std::filesystem::path(*options.output.path).extension() == ".npz", ErrorCode::usage,
          "option '--output': '{}' does not end in .npz", *options.output.path);
  options.output.validate();
  check(!options.output.drawn() || !options.head || options.eigen, ErrorCode::usage,
        "option '--output': a picture shows eigenvalues, with '--eigen', or all heads, without '--head'");
  const bool about_one =
      options.token || options.token_id || options.diagonal || options.full || options.through || options.singular > 0;
  const bool positions = options.query == "position" || options.key == "position";
  check(!positions || !options.eigen, ErrorCode::usage,
        "option '--eigen' is about tokens: it does not go with '--query position' or '--key position'");
  check(!(options.query == "position" && options.key == "position" && (options.token || options.token_id)),
        ErrorCode::usage, "option '--token': both sides are positions");
  check(options.head || !(about_one || positions), ErrorCode::usage,
        "option '--head' is missing: which head's {} circuit?", name(kind));
}

std::string virtual_head_note(const HeadChain& chain, CircuitKind kind) {
  const HeadChain last{{chain.heads.back()}}, before{{chain.heads.begin(), chain.heads.end() - 1}};
  return kind == CircuitKind::ov
             ? fmt::format("the virtual head: what {} moves of what {} wrote", node(last), node(before))
             : fmt::format("keys of {} are what {} wrote, whatever it attended to", node(last), node(before));
}

const char* list_title(CircuitKind kind) {
  return kind == CircuitKind::ov ? "Positivity of OV eigenvalues: copying" : "Positivity of QK eigenvalues: same token";
}

/// Every head's positivity.
int list_heads(Session& session, const CircuitCommand& options, CircuitKind kind, WeightsSubject subject) {
  const ModelConfig& config = subject.model.config;
  require_heads(config);
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
    for (const auto& values : spectra.of_all_heads(subject.model, form)) {
      const auto i = static_cast<Index>(rows.size());
      rows.push_back({i / config.n_heads, i % config.n_heads, positivity(values)});
    }
  }
  std::vector<std::string> notes =
      circuit_notes(subject.model, kind, {.form = form, .centre = kind == CircuitKind::ov});
  if (divides_by_token(config, kind, options.raw))
    notes.push_back("the divisors of the q/k norm are left out here; with --head they are not");
  if (options.output.wanted()) {
    Json result = new_result(name(kind), session, subject);
    result["heads"] = Json::array();
    HeadGrid grid{.title = "", .values = {}};
    for (const Row& row : rows) {
      result["heads"].push_back({{"head", head_node(row.layer, row.head)}, {"positivity", row.positivity}});
      grid.values.push_back(row.positivity);
    }
    result["positivity_null"] = to_json(band);
    result["raw"] = options.raw;
    result["assumptions"] = notes;
    options.output.write(session, result, [&] {
      std::vector<std::string> sentences = notes;
      sentences.insert(sentences.begin(), fmt::format("random heads: {:+.3f} ± {:.3f}", band.mean, band.sd));
      return head_grid_figure(caption(list_title(kind), subject, sentences), config, {grid}, "positivity Σλ/Σ|λ|", true,
                              1.0);
    });
    if (!options.output.screen()) return 0;
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.positivity > b.positivity; });
  session.out.write(model_line(session, subject));
  session.out.write(fmt::format("\n{}\n", session.out.paint(Style::title, list_title(kind))));
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

  const ModelConfig& config = subject.model.config;
  const HeadChain head = parse_head_chain(*options.head, config, "--head");
  HeadChain chain = head;
  std::string through;
  if (options.through) {
    const HeadChain earlier = parse_head_chain(*options.through, config, "--through");
    chain.heads.insert(chain.heads.begin(), earlier.heads.begin(), earlier.heads.end());
    through = node(earlier);
  }
  check(!chain.is_virtual() || !divides_by_token(config, kind, options.raw), ErrorCode::usage,
        "{}: keys are divided by their own norm in this model, so that their scale through another head is not known "
        "from weights; with '--raw' no norm counts",
        name(chain));
  CircuitOptions circuit_options;
  circuit_options.form = {.raw = options.raw, .offset = options.offset};
  circuit_options.query = circuit_input(options.query, "--query");
  circuit_options.key = circuit_input(options.key, "--key");
  HeadMatrices matrices = head_matrices(subject.model, chain, circuit_options.form);
  std::vector<std::string> notes = circuit_notes(subject.model, kind, circuit_options);
  if (chain.is_virtual()) notes.push_back(virtual_head_note(chain, kind));
  if (chain.is_virtual() && config.norm != NormKind::none)
    notes.push_back("divisors of norms between the heads are left out");
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
  study.result["head"] = node(head);
  study.result["through"] = through.empty() ? Json(nullptr) : Json(through);
  study.result["axes"] = circuit_axes(kind);
  study.result["raw"] = options.raw;
  if (kind == CircuitKind::qk) study.result["offset"] = options.offset;
  const bool lists =
      token || options.diagonal || options.full || options.singular > 0 || options.extremes(token.has_value());
  if (lists) {
    ProgressPrinter printer(session.err, session.quiet);
    circuit_options.progress = printer.callback();
    study.circuit = token_circuit(study.subject.model, study.head, kind, circuit_options);
  }
  if (study.screen()) {
    session.out.write(model_line(session, study.subject));
    session.out.write(header_line(session, "head",
                                  fmt::format("{}, {} circuit", name(chain), kind == CircuitKind::ov ? "OV" : "QK")));
  }
  const auto tokens_or_positions = [&](CircuitInput input) {
    const ModelConfig& c = study.subject.model.config;
    return input == CircuitInput::position ? c.n_ctx : c.d_vocab;
  };
  study.result["shape"] = {tokens_or_positions(circuit_options.query), kind == CircuitKind::ov
                                                                           ? study.subject.model.config.d_vocab_out
                                                                           : tokens_or_positions(circuit_options.key)};
  if (token) show_token(study, *token);
  if (options.extremes(token.has_value())) show_extremes(study);
  if (options.diagonal) show_diagonal(study);
  if (options.eigen) show_eigenvalues(study);
  if (options.singular > 0) show_singular(study);
  if (options.full) write_full(study);
  study.result["assumptions"] = study.notes;
  ResultOutput output = options.output;
  if (options.full) output.path.reset();  // it holds the matrix
  output.write(session, study.result, [&] {
    const std::string title =
        fmt::format("Eigenvalues of the {} circuit of {}: positivity {:+.3f}", kind == CircuitKind::ov ? "OV" : "QK",
                    name(chain), positivity(study.eigenvalues));
    return eigenvalue_figure(caption(title, study.subject, study.notes), study.eigenvalues, study.random_eigenvalues);
  });
  if (study.screen()) session.out.write("\n" + notes_lines(session, study.notes));
  return 0;
}

void add_circuit(Command& root, Session& session, CircuitKind kind, const std::string& summary) {
  const bool ov = kind == CircuitKind::ov;
  Command& command = root.add_command(name(kind), summary);
  auto options = std::make_shared<CircuitCommand>();
  options->model.declare(command);
  command.option("--head", "L.H", options->head,
                 "the head, e.g. 9.9, or a virtual one, 9.9*4.11 (default: the positivity of all heads)");
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
  if (!ov) {
    command.option("--offset", "D", options->offset, "rotary positions: keys D behind the query (default 0)");
    command.option("--query", "KIND", options->query, "what queries come from: token, position (default token)",
                   {"token", "position"});
    command.option("--key", "KIND", options->key, "what keys come from: token, position (default token)",
                   {"token", "position"});
  }
  command.flag("--raw", options->raw, "weights as in the file: no norm folded, nothing centred or scaled");
  command.flag("--full", options->full, "the whole matrix, of small vocabularies, as array 'circuit' of -o FILE.npz");
  options->output.declare(command, ResultOutput::Picture::drawn);
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
