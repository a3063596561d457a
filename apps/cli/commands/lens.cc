#include "kirchhoff/observe/lens.h"

#include <memory>   // for make_shared
#include <utility>  // for pair

#include "attribution_view.h"
#include "commands.h"
#include "figures.h"
#include "kirchhoff/study/tuned_lens_file.h"
#include "result_output.h"
#include "selectors.h"
#include "subject.h"
#include "table.h"
#include "tuned_lens_training.h"

namespace kirchhoff::cli {
namespace {

struct LensCommand {
  ModelOptions model;
  PromptOptions prompt;
  TargetOptions target;
  ResultOutput output;
  std::string pos = "-1";
  Index top = 5;
  bool mid = false;
  std::string reading = "lens";
  std::optional<std::string> tuned;
  TunedLensCommandOptions training;
};

LensReading reading_of(const std::string& name) {
  return name == "prefix" ? LensReading::prefix : name == "plain" ? LensReading::plain : LensReading::lens;
}

/// What the rows are, for the screen: a title and a sentence.
std::pair<std::string, std::string> lens_words(LensReading reading) {
  switch (reading) {
    case LensReading::prefix:
      return {"Prefix attribution",
              "the final norm with its scale of the last state: what was written so far, as the end reads it; adds up, "
              "and the last row is the model's own"};
    case LensReading::plain:
      return {"Plain unembedding", "x W_U alone, without the final norm: no row is the model's own prediction"};
    case LensReading::lens:
      break;
  }
  return {"Logit lens", "unembed(final norm(x)), the norm recomputed on each state"};
}

std::string lens_table(const Session& session, const Subject& subject, const std::vector<LensRow>& rows) {
  std::vector<Column> columns = {{"state"}, {"top predictions"}};
  for (const RankedToken& token : rows.front().tokens)
    for (const char* what : {"rank", "prob"})
      columns.push_back({fmt::format("{} {}", what, subject.shown(token.score.id)), true});
  columns.push_back({"entropy", true});
  Table table(columns);
  for (const LensRow& row : rows) {
    std::vector<std::string> tops;
    for (const TokenScore& score : row.top)
      tops.push_back(fmt::format("{} {:.1f}%", subject.shown(score.id), 100.0 * score.probability));
    std::vector<Cell> cells = {row.label, {fmt::format("{}", fmt::join(tops, "  ")), Style::token}};
    for (const RankedToken& token : row.tokens) {
      cells.emplace_back(fmt::format("{}", token.rank), token.rank == 1 ? Style::positive : Style::plain);
      cells.emplace_back(fmt::format("{:.2f}%", 100.0 * token.score.probability));
    }
    cells.emplace_back(fmt::format("{:.2f}", row.entropy));
    table.add(std::move(cells));
  }
  return table.render(session.out);
}

int lens_command(Session& session, const Command& command, const LensCommand& options) {
  options.output.validate();
  check(options.top >= 1, ErrorCode::usage, "option '--top': {} is less than 1", options.top);
  check(!options.tuned || !options.training.directory, ErrorCode::usage,
        "'--tuned' reads a lens and '--train-tuned' makes one: give one of them");
  check(options.training.misplaced().empty(), ErrorCode::usage, "option '{}' belongs to '--train-tuned'",
        options.training.misplaced());
  check(!options.training.directory || (!options.output.path && !options.output.csv), ErrorCode::usage,
        "options '-o' and '--csv' are about a prompt's lens: '--train-tuned' has a directory of its own");
  if (options.training.directory)
    return train_tuned_lens(session, options.model, options.prompt, options.training, options.output.json);
  check(!options.tuned || (!options.mid && options.reading == "lens"), ErrorCode::usage,
        "option '--tuned': the lens has translators for the inputs of layers, and one reading: leave '--mid' and "
        "'--reading' out");
  const std::optional<TunedLens> tuned =
      options.tuned ? std::optional<TunedLens>(read_tuned_lens(*options.tuned)) : std::nullopt;
  const Subject subject = open_subject(session, command, options.model, options.prompt);
  const std::vector<Index> positions = parse_positions(options.pos, subject.length());
  LensOptions lens{
      .pos = 0, .top = options.top, .mid = options.mid, .tokens = {}, .reading = reading_of(options.reading)};
  if (tuned) check_fits(*tuned, subject.model.config);
  auto [title, sentence] = lens_words(lens.reading);
  if (tuned) {
    title = "Tuned lens";
    sentence = fmt::format(
        "unembed(final norm(x + W x + b)) with the translators of {}; the last row is the model's own", *options.tuned);
  }
  if (options.target.given()) {
    const LogitTarget target = options.target.resolve(subject.opened, 0, -1);
    lens.tokens.push_back(target.token);
    if (target.foil) lens.tokens.push_back(*target.foil);
  }
  const Trace trace =
      run_subject(session, subject, lens_sites(subject.model.config, lens.mid, lens.reading), LogitPositions::none);
  Json positions_json = Json::array();
  std::vector<std::vector<LensRow>> columns;
  if (options.output.screen()) session.out.write(header(session, subject));
  for (const Index pos : positions) {
    lens.pos = pos;
    std::vector<LensRow> rows =
        tuned ? tuned_lens(subject.model, trace, *tuned, lens) : logit_lens(subject.model, trace, lens);
    positions_json.push_back({{"pos", pos}, {"layers", to_json(rows, subject.names())}});
    if (options.output.screen()) {
      session.out.write(fmt::format("\n{} at {}\n", session.out.paint(Style::title, title), subject.shown_at(pos)));
      session.out.write(lens_table(session, subject, rows));
    }
    columns.push_back(std::move(rows));
  }
  if (options.output.wanted()) {
    Json result = new_result("lens", session, subject);
    result["reading"] = options.reading;
    result["norm"] = lens.reading == LensReading::lens     ? "recomputed"
                     : lens.reading == LensReading::prefix ? "held"
                                                           : "none";
    if (tuned) result["tuned"] = {{"directory", *options.tuned}, {"trained_for", tuned->model}};
    result["positions"] = std::move(positions_json);
    options.output.write(session, result, [&, title = title, sentence = sentence] {
      return lens_figure(caption(title, subject, "", {sentence}), subject, positions, columns);
    });
    if (!options.output.screen()) return 0;
  }
  session.out.write("\n");
  session.out.write(note(session.out, fmt::format("{}; entropy in nats", sentence)));
  session.out.write(
      note(session.out,
           tuned ? "translators are fitted to what the model will say: what they read may not be what later layers use"
                 : "intermediate states read as if they were final ones: no claim about what later layers do"));
  session.out.write(next_line(session, "dla", subject));
  return 0;
}

}  // namespace

void add_lens(Command& root, Session& session) {
  Command& command = root.add_command("lens", "logit lens: what each layer's residual stream would predict");
  auto options = std::make_shared<LensCommand>();
  options->model.declare(command);
  options->prompt.declare(command);
  options->target.declare(command);
  command.option("--pos", "POS", options->pos, "positions, e.g. -1 or 3..7 (default -1)");
  command.option("--top", "K", options->top, "predictions to list for each state (default 5)");
  command.flag("--mid", options->mid, "also the states between attention and MLP");
  command.option(
      "--reading", "WHAT", options->reading,
      "lens: the norm recomputed on each state; prefix: with the last state's scale; plain: x W_U (default lens)",
      {"lens", "prefix", "plain"});
  command.option("--tuned", "DIR", options->tuned,
                 "read states through a tuned lens: config.json and params.pt or .safetensors");
  options->training.declare(command);
  options->output.declare(command, ResultOutput::Picture::drawn);
  command.on_run([&session, &command, options] { return lens_command(session, command, *options); });
}

}  // namespace kirchhoff::cli
