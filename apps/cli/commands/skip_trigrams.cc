// kirchhoff skip-trigrams: what heads do with a source and a destination, by weights alone; with --bigrams what the
// direct path knows about a text.
#include <algorithm>  // for find
#include <memory>     // for make_shared

#include "attribution_view.h"
#include "circuit_sections.h"
#include "commands.h"
#include "corpus_subject.h"
#include "kirchhoff/base/error.h"
#include "progress_printer.h"
#include "selectors.h"
#include "subject.h"
#include "trigram_view.h"

namespace kirchhoff::cli {
namespace {

struct TrigramsCommand {
  ModelOptions model;
  ResultOutput output;
  CorpusCommandOptions corpus;
  std::string head = "0.*", by = "both";
  std::optional<std::string> source;
  std::optional<Index> source_id, length;
  Index top = 10, tokens = 10, offset = 0, least_count = 20;
  double deviation = 4.0;
  bool raw = false, bigrams = false;

  bool one_source() const { return source || source_id; }
  TrigramRanking ranking() const {
    return by == "attention" ? TrigramRanking::attention
           : by == "output"  ? TrigramRanking::output
                             : TrigramRanking::both;
  }
};

std::optional<TokenId> chosen_source(const TrigramsCommand& options, const OpenedModel& opened) {
  check(!(options.source && options.source_id), ErrorCode::usage,
        "options '--source' and '--source-id' were both given");
  if (options.source_id) return static_cast<TokenId>(*options.source_id);
  if (!options.source) return std::nullopt;
  check(opened.tokenizer != nullptr, ErrorCode::usage, "option '--source': '{}' has no tokenizer; use '--source-id'",
        opened.files.argument);
  return single_token(*opened.tokenizer, *options.source, "option '--source'");
}

std::vector<std::string> trigram_notes(const WeightsSubject& subject, const TrigramsCommand& options) {
  const HeadForm form{.raw = options.raw, .offset = options.offset};
  std::vector<std::string> notes = circuit_notes(subject.model, CircuitKind::qk, {.form = form});
  for (std::string& sentence : circuit_notes(subject.model, CircuitKind::ov, {.form = form}))
    if (std::find(notes.begin(), notes.end(), sentence) == notes.end()) notes.push_back(std::move(sentence));
  notes.emplace_back(
      "sd: standard deviations of all entries of the table; strength: the smaller one of the largest attention and "
      "the largest output of a source, never a product (attention lies inside of a softmax)");
  if (!options.one_source())
    notes.emplace_back(
        "contrast: how much more the direct path believes in the two pairs than in the crossed pairs, in logits");
  notes.emplace_back(
      "similar: cosine of the embeddings (mean taken off) of 0.5 or more; by weights alone: observed in no text");
  return notes;
}

/// Everything about one head; `likeness` and `splits` are null where they are not defined.
HeadTrigrams study_head(const WeightsSubject& subject, const TrigramsCommand& options, const HeadChain& chain,
                        std::optional<TokenId> source, const TokenLikeness* likeness,
                        const std::vector<SplitToken>* splits, const Progress& progress) {
  const Model& model = subject.model;
  CircuitOptions circuit;
  circuit.form = {.raw = options.raw, .offset = options.offset};
  circuit.progress = progress;
  const HeadTables tables = head_tables(model, head_matrices(model, chain, circuit.form), circuit);
  HeadTrigrams result{.chain = chain,
                      .sources = {},
                      .bugs = {},
                      .copying = std::nullopt,
                      .splits = std::nullopt,
                      .positions = head_positions(model, chain, options.length, options.raw),
                      .attention_sd = tables.attention_sd,
                      .output_sd = tables.output_sd};
  if (source) {
    result.sources = {source_trigrams(tables, *source, options.top)};
    return result;
  }
  const std::vector<SourceTrigrams> all = all_source_trigrams(tables, options.tokens, progress);
  for (const Index i : strongest_sources(all, options.ranking(), options.top))
    result.sources.push_back(all[static_cast<std::size_t>(i)]);
  TrigramBugOptions bugs{.raw = options.raw, .deviation = options.deviation, .count = options.top};
  bugs.progress = progress;
  result.bugs = trigram_bugs(model, all, bugs);
  if (likeness != nullptr) result.copying = copying_counts(*likeness, all);
  if (splits != nullptr) result.splits = split_copying(tables, *splits, options.top);
  return result;
}

Json trigrams_json(const Session& session, const WeightsSubject& subject, const TrigramsCommand& options,
                   const std::vector<HeadTrigrams>& heads, const TokenLikeness* likeness) {
  const TokenNames names = subject.names();
  Json result = new_result("skip_trigrams", session, subject);
  result["trigrams"] = Json::array();
  result["heads"] = Json::array();
  if (!options.one_source()) result["bugs"] = result["splits"] = Json::array();
  for (const HeadTrigrams& head : heads) {
    const std::string id = node(head.chain);
    for (const SourceTrigrams& source : head.sources) add_json(result["trigrams"], id, source, likeness, names);
    for (const TrigramBug& bug : head.bugs) result["bugs"].push_back(kirchhoff::to_json(id, bug, names));
    Json facts = {{"head", id}, {"attention_sd", head.attention_sd}, {"output_sd", head.output_sd}};
    facts["positions"] = to_json(head.positions);
    if (!options.one_source()) facts["copying"] = head.copying ? kirchhoff::to_json(*head.copying) : Json(nullptr);
    if (head.splits) {
      for (const SplitCopy& copy : head.splits->strongest)
        result["splits"].push_back(kirchhoff::to_json(id, copy, names));
      facts["splits"] = {
          {"tokens", head.splits->tokens}, {"far_out", head.splits->far_out}, {"chance", head.splits->chance}};
    }
    result["heads"].push_back(std::move(facts));
  }
  result["by"] = options.by;
  result["raw"] = options.raw;
  result["offset"] = options.offset;
  return result;
}

void show_heads(Session& session, const WeightsSubject& subject, const TrigramsCommand& options,
                const std::vector<HeadTrigrams>& heads, const TokenLikeness* likeness) {
  session.out.write(model_line(session, subject));
  if (heads.size() > 1 && !options.one_source()) {
    session.out.write(head_table(session, subject, heads));
    return;
  }
  for (const HeadTrigrams& head : heads) {
    if (options.one_source()) {
      session.out.write(source_sections(session, subject, head, likeness));
      continue;
    }
    session.out.write(ranked_sources(session, subject, head, 3));
    session.out.write(bug_list(session, subject, head));
    session.out.write(copying_lines(session, subject, head));
    session.out.write(position_lines(session, head));
  }
}

int bigrams_command(Session& session, const TrigramsCommand& options) {
  const CorpusSubject corpus = open_corpus_subject(session, options.model, options.corpus);
  const WeightsSubject subject{corpus.opened, corpus.model};
  const ModelConfig& config = subject.model.config;
  const BigramComparison comparison = [&] {
    ProgressPrinter printer(session.err, session.quiet);
    BigramOptions bigrams{.raw = options.raw};
    bigrams.progress = printer.callback();
    return compare_bigrams(subject.model, count_bigrams(corpus.corpus, config.d_vocab, config.d_vocab_out), bigrams);
  }();
  std::vector<std::string> notes = {
      options.raw ? "the direct path W_E W_U as in the file"
                  : "the direct path is the model without its layers: the final norm, its bias and b_U are in it",
      "Spearman's rank correlation; outputs that never follow share a rank; BOS put before windows is not counted",
      "in a deeper model the direct path only carries what the other terms leave of the bigrams"};
  if (config.positions == Positions::learned) notes.emplace_back("positions are left out");
  if (options.output.wanted()) {
    Json result = new_result("bigrams", session, corpus);
    result.update(kirchhoff::to_json(comparison, subject.names()));
    result["raw"] = options.raw;
    result["assumptions"] = notes;
    options.output.write(session, result);
    if (!options.output.screen()) return 0;
  }
  session.out.write(header(session, corpus));
  session.out.write(bigram_lines(session, subject, comparison, options.least_count, options.top));
  session.out.write("\n" + notes_lines(session, notes));
  return 0;
}

int skip_trigrams_command(Session& session, const TrigramsCommand& options) {
  options.output.validate();
  check(options.top >= 1, ErrorCode::usage, "option '--top': {} is less than 1", options.top);
  check(options.tokens >= 1, ErrorCode::usage, "option '--per-source': {} is less than 1", options.tokens);
  check(options.by == "both" || options.by == "attention" || options.by == "output", ErrorCode::usage,
        "option '--by': '{}' is not both, attention or output", options.by);
  check(
      options.bigrams == options.corpus.given(), ErrorCode::usage,
      "options '--bigrams' and '--data' belong together: '--bigrams --data FILE' compares the direct path with a text");
  if (options.bigrams) return bigrams_command(session, options);
  WeightsSubject subject;
  subject.opened = open_model(options.model.model);
  const std::optional<TokenId> source = chosen_source(options, subject.opened);
  subject.model = load_weights(session, subject.opened, options.model);
  const ModelConfig& config = subject.model.config;
  check(!source || (*source >= 0 && *source < config.d_vocab), ErrorCode::usage,
        "option '--source-id': {} is not in the vocabulary of {} tokens", source.value_or(0), config.d_vocab);
  const std::vector<HeadChain> chains = parse_head_chains(options.head, config.n_layers, config.n_heads);
  for (const HeadChain& chain : chains)
    check(!chain.is_virtual() || !divides_by_token(config, CircuitKind::qk, options.raw), ErrorCode::usage,
          "{}: keys are divided by their own norm in this model, so that their scale through another head is not known "
          "from weights; with '--raw' no norm counts",
          name(chain));

  std::optional<TokenLikeness> likeness;
  std::optional<std::vector<SplitToken>> splits;
  std::vector<HeadTrigrams> heads;
  {
    ProgressPrinter printer(session.err, session.quiet);
    const Progress progress = printer.callback();
    if (config.d_vocab_out == config.d_vocab) {
      likeness.emplace(subject.model, subject.opened.tokenizer.get());
      if (subject.opened.tokenizer && !source)
        splits = split_tokens(*subject.opened.tokenizer, config.d_vocab, progress);
    }
    for (const HeadChain& chain : chains)
      heads.push_back(study_head(subject, options, chain, source, likeness ? &*likeness : nullptr,
                                 splits ? &*splits : nullptr, progress));
  }
  const std::vector<std::string> notes = trigram_notes(subject, options);
  if (options.output.wanted()) {
    Json result = trigrams_json(session, subject, options, heads, likeness ? &*likeness : nullptr);
    result["assumptions"] = notes;
    options.output.write(session, result);
    if (!options.output.screen()) return 0;
  }
  show_heads(session, subject, options, heads, likeness ? &*likeness : nullptr);
  session.out.write("\n" + notes_lines(session, notes));
  if (heads.size() > 1 && !source)
    session.out.write(fmt::format("{} kirchhoff skip-trigrams {} --head {}\n", session.out.paint(Style::faint, "next:"),
                                  shell_quoted(subject.opened.files.argument), name(heads.front().chain)));
  return 0;
}

}  // namespace

void add_skip_trigrams(Command& root, Session& session) {
  Command& command =
      root.add_command("skip-trigrams", "[source] … [destination] → [out]: heads by their weights; bigrams");
  auto options = std::make_shared<TrigramsCommand>();
  options->corpus.context = 1024;
  options->model.declare(command);
  command.option("--head", "L.H", options->head, "heads, e.g. 0.3, a virtual one, 1.3*0.2 (default 0.*)");
  command.option("--source", "TEXT", options->source, "one source: who attends to it, and what that raises");
  command.option("--source-id", "ID", options->source_id, "the same by token id");
  command.option("--top", "K", options->top, "sources, bugs and splits to list; tokens of one source (default 10)");
  command.option("--per-source", "K", options->tokens, "destinations and outs to keep of each source (default 10)");
  command.option("--by", "RANK", options->by, "what makes a source strong: both, attention, output (default both)",
                 {"both", "attention", "output"});
  command.option("--bug-deviation", "SD", options->deviation, "how far out a bug's four entries lie (default 4)");
  command.option("--length", "N", options->length, "positions, or distances, to look at (default 512, 64)");
  command.option("--offset", "D", options->offset, "rotary positions: sources D behind the destination (default 0)");
  command.flag("--raw", options->raw, "weights as in the file: no norm folded, nothing centred or scaled");
  command.flag("--bigrams", options->bigrams, "instead: the direct path beside the bigrams of a text");
  options->corpus.declare(command);
  command.option("--least-count", "N", options->least_count, "bigrams: sources to list occur so often (default 20)");
  options->output.declare(command, ResultOutput::Picture::none);
  command.on_run([&session, options] { return skip_trigrams_command(session, *options); });
}

}  // namespace kirchhoff::cli
