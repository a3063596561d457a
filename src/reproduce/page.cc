#include "reproduce/page.h"

#include <algorithm>  // for any_of, find_if, replace

#include "kirchhoff/base/error.h"
#include "kirchhoff/io/directory.h"
#include "kirchhoff/io/whole_file.h"

namespace kirchhoff::reproduce {
namespace {

/// "train/2l-s0" -> "train-2l-s0".
std::string file_name(std::string stage) {
  std::replace(stage.begin(), stage.end(), '/', '-');
  return stage;
}

/// The options of the last model's training, which those of all models share but for their size.
const Json& training_options(const Chain& chain) {
  const auto last = std::find_if(chain.stages.rbegin(), chain.stages.rend(),
                                 [](const Stage& stage) { return stage.name.starts_with("train/"); });
  check(last != chain.stages.rend(), ErrorCode::internal, "chain '{}' trains no model", chain.name);
  return last->settings.at("training");
}

/// What the models' trainings share beyond the literature's usual.
std::string course_of_training(const Chain& chain) {
  const Json& options = training_options(chain);
  const double repeats = options.at("repeated_passages").get<double>();
  if (repeats == 0.0) return "Every training window is a piece of the text as it is.";
  const bool not_in_all = std::any_of(chain.stages.begin(), chain.stages.end(), [](const Stage& stage) {
    return stage.name.starts_with("train/") && stage.settings.at("training").at("repeated_passages") == 0.0;
  });
  return fmt::format(
      "So that heads come to compose in so short a training, entries of W_E begin with deviation {} (of other "
      "matrices: 0.8 / √d_model), the sinusoids have amplitude {} and lie in {} of the d_model entries, and in {}{} a "
      "passage comes again further on, since the text was rid of its duplicates. {}",
      options.at("embedding_deviation").get<double>(), options.at("sinusoid_amplitude").get<double>(),
      options.value("sinusoid_features", Index{0}),
      repeats == 1.0 ? "every training window" : fmt::format("{:.0f} % of the training windows", 100.0 * repeats),
      not_in_all ? " (not of the 0-layer model)" : "",
      options.value("held_out_passages", 0.0) > 0.0 ? "So it does in the windows that are measured on."
                                                    : "What is measured on is the text as it is.");
}

}  // namespace

void Page::title(const std::string& text) { text_ += fmt::format("# {}\n\n", text); }
void Page::heading(const std::string& text) { text_ += fmt::format("## {}\n\n", text); }
void Page::paragraph(const std::string& text) { text_ += text + "\n\n"; }

void Page::list(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) text_ += fmt::format("- {}\n", line);
  text_ += "\n";
}

void Page::table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows) {
  std::string head = "|", line = "|";
  for (const std::string& title : titles) {
    const bool right = title.starts_with('>');
    head += fmt::format(" {} |", right ? title.substr(1) : title);
    line += right ? " ---: |" : " --- |";
  }
  text_ += head + "\n" + line + "\n";
  for (const std::vector<std::string>& row : rows) text_ += fmt::format("| {} |\n", fmt::join(row, " | "));
  text_ += "\n";
}

void Page::figure(const std::string& name, const draw::Figure& figure) {
  figures_.emplace_back(name + ".svg", draw::render(figure, draw::Format::svg));
  text_ += fmt::format("![{}]({}.svg)\n\n", figure.caption.title, name);
}

void Page::write(const std::string& directory, const Chain& chain, const Records& records) const {
  io::make_directories(directory + "/results");
  for (const Stage& stage : chain.stages)
    if (stage.published)
      io::write_whole_file(fmt::format("{}/results/{}.json", directory, file_name(stage.name)),
                           records.at(stage.name).dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  for (const auto& [name, bytes] : figures_) io::write_whole_file(fmt::format("{}/{}", directory, name), bytes);
  std::string text = text_;
  while (text.ends_with("\n\n")) text.pop_back();
  io::write_whole_file(directory + "/README.md", text);
}

std::string fixed(double value, int digits) { return fmt::format("{:.{}f}", value, digits); }

std::string number(const Json& value, int digits) {
  return value.is_number() ? fixed(value.get<double>(), digits) : "–";
}

std::string signed_number(const Json& value, int digits) {
  return value.is_number() ? fmt::format("{:+.{}f}", value.get<double>(), digits) : "–";
}

std::string duration(double seconds) {
  const auto whole = static_cast<Index>(seconds + 0.5);
  return whole < 60 ? fmt::format("{} s", whole) : fmt::format("{}:{:02} min", whole / 60, whole % 60);
}

std::string token_label(const Json& token) {
  if (token.at("text").is_null()) return fmt::format("<{}>", token.at("bytes").get<std::string>());
  std::string label;
  for (const char c : token.at("text").get<std::string>()) {
    if (c == ' ') {
      label += "␣";
    } else if (c == '\n') {
      label += "↵";
    } else if (c == '\t') {
      label += "→";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      label += fmt::format("<{:02x}>", static_cast<unsigned char>(c));
    } else {
      label += c;
    }
  }
  return label;
}

std::string token_cell(const Json& token) {
  std::string cell;
  for (const char c : token_label(token)) cell += c == '|' ? std::string("\\|") : std::string(1, c);
  const bool tick = cell.find('`') != std::string::npos;
  return tick ? fmt::format("`` {} ``", cell) : fmt::format("`{}`", cell);
}

const Json& result_of(const Records& records, const std::string& stage) { return records.at(stage).at("result"); }

draw::Caption caption_of(const Chain& chain, const std::string& title, std::vector<std::string> notes) {
  return {.title = title,
          .header = {fmt::format("kirchhoff reproduce {}{}", chain.name, chain.quick ? " --quick" : "")},
          .notes = std::move(notes)};
}

void describe_chain(Page& page, const Chain& chain, const Records& records) {
  const Json& corpus = records.at("corpus").at("result");
  std::vector<std::string> files;
  for (const Json& file : records.at("corpus").at("settings").at("files"))
    files.push_back(fmt::format("`{}` ({} bytes, SHA-256 `{}`)", file.at("name").get<std::string>(),
                                thousands(file.at("bytes").get<Index>()), file.at("sha256").get<std::string>()));
  page.paragraph(fmt::format("Made by `kirchhoff reproduce {}{}` from {}.", chain.name, chain.quick ? " --quick" : "",
                             fmt::join(files, ", ")));
  page.paragraph(fmt::format(
      "{} documents were read, {} of them ({} tokens) kept from all models for measuring; {} tokens for training, "
      "byte-level BPE with a vocabulary of {} learned on the same documents.",
      thousands(corpus.at("documents").get<Index>()), thousands(corpus.at("held_out_documents").get<Index>()),
      thousands(corpus.at("held_out_tokens").get<Index>()), thousands(corpus.at("tokens").get<Index>()),
      thousands(corpus.at("vocabulary").get<Index>())));
  std::vector<std::vector<std::string>> models, stages;
  double seconds = 0.0;
  for (const Stage& stage : chain.stages) {
    const Json& record = records.at(stage.name);
    const double took = record.at("seconds").get<double>();
    seconds += took;
    const bool training = stage.name.starts_with("train/");
    if (training) {
      const Json& result = record.at("result");
      const Json& model = stage.settings.at("model");
      const Json& course = stage.settings.at("training");
      models.push_back({result.at("model").get<std::string>(), std::to_string(result.at("layers").get<Index>()),
                        fmt::format("{} × {}", model.at("n_heads").get<Index>(), model.at("d_head").get<Index>()),
                        thousands(result.at("parameters").get<Index>()), thousands(result.at("steps").get<Index>()),
                        thousands(result.at("tokens").get<Index>()),
                        std::to_string(course.at("seed").get<std::uint64_t>()), number(result.at("loss"), 3),
                        duration(took)});
    } else {
      stages.push_back({stage.name, stage.summary, duration(took)});
    }
  }
  page.table({"model", ">layers", ">heads", ">parameters", ">steps", ">tokens", ">seed", ">loss", ">time"}, models);
  const Json& options = training_options(chain);
  page.paragraph(fmt::format(
      "All are attention-only with LayerNorm, separate W_E and W_U, and sinusoidal positions that queries "
      "and keys alone read (Shortformer), as in the papers; AdamW with a learning rate of {}, {} after a warm-up. "
      "Losses in the table are nats a token of windows that were left out of the documents for training; "
      "those below are of the documents that no model saw.",
      options.at("learning_rate").get<double>(),
      options.at("schedule") == "constant" ? "constant" : "falling along half a cosine to a tenth of it"));
  page.paragraph(course_of_training(chain));
  page.table({"analysis", "what it does", ">time"}, stages);
  page.paragraph(
      fmt::format("In all {} (estimated: {:.0f} min on two idle cores). `results/` has every number of this page with "
                  "the settings and hashes that it follows from.",
                  duration(seconds), chain.minutes()));
}

}  // namespace kirchhoff::reproduce
