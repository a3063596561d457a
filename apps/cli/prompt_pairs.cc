#include "prompt_pairs.h"

#include <charconv>  // for from_chars
#include <sstream>   // for istringstream

#include "help_text.h"
#include "kirchhoff/base/error.h"
#include "record_file.h"

namespace kirchhoff::cli {
namespace {

/// "0:When 1:␣Mary 2:␣and".
std::string tokenisation(const OpenedModel& opened, const Prompt& prompt) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < prompt.ids.size(); ++i)
    parts.push_back(fmt::format("{}:{}", i, text::visible(opened.names().bytes(prompt.ids[i]))));
  return fmt::format("{}", fmt::join(parts, " "));
}

/// "0:0,1:2".
std::vector<std::pair<Index, Index>> parse_alignment(const std::string& text) {
  std::vector<std::pair<Index, Index>> pairs;
  std::istringstream list(text);
  for (std::string part; std::getline(list, part, ',');) {
    Index i = 0, j = 0;
    const char* end = part.data() + part.size();
    const auto [colon, first] = std::from_chars(part.data(), end, i);
    bool good = first == std::errc() && colon != end && *colon == ':';
    if (good) {
      const auto [stop, second] = std::from_chars(colon + 1, end, j);
      good = second == std::errc() && stop == end;
    }
    check(good, ErrorCode::usage, "option '--align': '{}' is not a list of positions such as 0:0,1:2", text);
    pairs.emplace_back(i, j);
  }
  check(!pairs.empty(), ErrorCode::usage, "option '--align': it aligns no position");
  return pairs;
}

std::string as_text(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// The first of these columns that the row has.
const Json* field(const Json& row, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const auto found = row.find(name); found != row.end() && !found->is_null() && as_text(*found) != "")
      return &*found;
  return nullptr;
}

/// Reads one pair whatever it comes from.
class PairReader {
 public:
  PairReader(const PairOptions& options, const Command& command, const OpenedModel& opened)
      : options_(options), command_(command), opened_(opened) {
    if (options.align) alignment_ = parse_alignment(*options.align);
  }

  Prompt prompt(const std::optional<std::string>& text, const std::optional<std::string>& ids,
                const char* ids_option) const {
    PromptOptions prompt;
    prompt.text = text;
    prompt.ids = ids;
    prompt.bos = options_.bos;
    prompt.no_bos = options_.no_bos;
    prompt.plain = options_.plain;
    prompt.ids_option = ids_option;
    return read_prompt(prompt, command_, opened_);
  }

  /// Error{usage} with both tokenisations unless the positions correspond. False: it may be left out.
  bool aligned(ReadPair& pair) const {
    pair.alignment = alignment_;
    if (!pair.corrupt || !alignment_.empty() || pair.clean.ids.size() == pair.corrupt->ids.size()) return true;
    if (options_.skip_unequal) return false;
    throw Error(ErrorCode::usage,
                fmt::format("{}the clean prompt has {} tokens, the corrupt one {}:\n  clean    {}\n  corrupt  {}",
                            pair.where, pair.clean.ids.size(), pair.corrupt->ids.size(),
                            tokenisation(opened_, pair.clean), tokenisation(opened_, *pair.corrupt)),
                pair.where.empty() ? "'--align 0:0,1:2,...' says which positions stand for which"
                                   : "'--skip-unequal' leaves such pairs out");
  }

  std::optional<TokenId> token(const std::optional<std::string>& text, const std::optional<Index>& id,
                               const std::string& option) const {
    check(!(text && id), ErrorCode::usage, "options '{}' and '{}-id' were both given", option, option);
    if (id) return static_cast<TokenId>(*id);
    if (!text) return std::nullopt;
    check(opened_.tokenizer != nullptr, ErrorCode::usage, "option '{}': '{}' has no tokenizer; use '{}-id'", option,
          opened_.files.argument, option);
    return single_token(*opened_.tokenizer, *text, fmt::format("option '{}'", option));
  }

  /// A token of a row, as text or as an id.
  std::optional<TokenId> token(const Record& record, std::initializer_list<const char*> texts,
                               std::initializer_list<const char*> ids) const {
    if (const Json* id = field(record.fields, ids)) return parse_ids(as_text(*id), record.where).front();
    const Json* text = field(record.fields, texts);
    if (text == nullptr) return std::nullopt;
    check(opened_.tokenizer != nullptr, ErrorCode::usage, "{}: '{}' has no tokenizer; the row needs ids", record.where,
          opened_.files.argument);
    return single_token(*opened_.tokenizer, as_text(*text), record.where);
  }

 private:
  const PairOptions& options_;
  const Command& command_;
  const OpenedModel& opened_;
  std::vector<std::pair<Index, Index>> alignment_;
};

ReadPairs from_file(const PairOptions& options, const PairReader& reader, const TokenId* target, const TokenId* foil,
                    bool needs_corrupt) {
  ReadPairs result;
  for (const Record& record : read_records(*options.data)) {
    if (options.limit > 0 && static_cast<Index>(result.pairs.size()) == options.limit) break;
    const auto prompt = [&](std::initializer_list<const char*> texts,
                            std::initializer_list<const char*> ids) -> std::optional<Prompt> {
      const Json *text = field(record.fields, texts), *list = field(record.fields, ids);
      if (text == nullptr && list == nullptr) return std::nullopt;
      const auto given = [](const Json* value) { return value ? std::optional(as_text(*value)) : std::nullopt; };
      try {
        return reader.prompt(list ? std::nullopt : given(text), given(list), *ids.begin());
      } catch (const Error& e) {
        throw Error(e.code(), fmt::format("{}: {}", record.where, e.what()), e.help());
      }
    };
    std::optional<Prompt> clean = prompt({"clean"}, {"clean_ids"});
    check(clean.has_value(), ErrorCode::format, "{}: there is no 'clean' (and no 'clean_ids')", record.where);
    ReadPair pair{.where = record.where + ": ", .clean = std::move(*clean)};
    pair.corrupt = prompt({"corrupt", "corrupted"}, {"corrupt_ids", "corrupted_ids"});
    check(pair.corrupt || !needs_corrupt, ErrorCode::format, "{}: there is no 'corrupt' (and no 'corrupt_ids')",
          record.where);
    if (!reader.aligned(pair)) {
      ++result.skipped;
      continue;
    }
    pair.target = target ? std::optional(*target)
                         : reader.token(record, {"target", "answer"}, {"target_id", "answer_id", "correct_idx"});
    pair.foil = foil ? std::optional(*foil)
                     : reader.token(record, {"foil", "distractor"}, {"foil_id", "distractor_id", "incorrect_idx"});
    result.pairs.push_back(std::move(pair));
  }
  check(!result.pairs.empty(), ErrorCode::usage, "'{}': none of the {} pairs has prompts of equal length",
        *options.data, result.skipped);
  return result;
}

}  // namespace

void PairOptions::declare(Command& command) {
  command.option("--clean", "TEXT", clean, "the prompt whose behaviour is asked about");
  command.option("--corrupt", "TEXT", corrupt, "the prompt that differs in what matters");
  command.option("--clean-ids", "1,2,3", clean_ids, "token ids instead of text, used as they are");
  command.option("--corrupt-ids", "1,2,3", corrupt_ids, "the same for the corrupt prompt");
  command.option("--align", "I:J,...", align, "clean position I stands for corrupt position J, where lengths differ");
  command.option("--data", "FILE", data, "many pairs: a .csv or .jsonl file with clean, corrupt, target, foil");
  command.option("--limit", "N", limit, "use the first N pairs of the file");
  command.flag("--skip-unequal", skip_unequal, "leave out pairs of different numbers of tokens");
  command.option("--target", "TEXT", target.target, "the token to follow, e.g. ' Mary' (default: the top prediction)");
  command.option("--foil", "TEXT", target.foil, "follow the difference to this token's logit");
  command.option("--target-id", "ID", target.target_id, "the same by token id");
  command.option("--foil-id", "ID", target.foil_id, "the same by token id");
  command.flag("--bos", bos, "put the beginning-of-sequence token in front");
  command.flag("--no-bos", no_bos, "do not (default: what the model's files say)");
  command.flag("--plain", plain, "read text such as <|endoftext|> as ordinary text");
}

ReadPairs read_pairs(const PairOptions& options, const Command& command, const OpenedModel& opened,
                     bool needs_corrupt) {
  const bool one = options.clean || options.clean_ids, any = one || options.corrupt || options.corrupt_ids;
  check(!(options.data && any), ErrorCode::usage, "pairs were given twice: as prompts and with '--data'");
  if (!options.data && !one)
    throw Error(ErrorCode::usage, "there is no prompt: give '--clean' and '--corrupt', or '--data'",
                fmt::format("usage: {}", usage_line(command)));
  check(!(options.clean && options.clean_ids), ErrorCode::usage,
        "the clean prompt was given twice: with '--clean' and with '--clean-ids'");
  check(!(options.corrupt && options.corrupt_ids), ErrorCode::usage,
        "the corrupt prompt was given twice: with '--corrupt' and with '--corrupt-ids'");
  check(options.limit >= 0, ErrorCode::usage, "option '--limit': {} is negative", options.limit);
  const PairReader reader(options, command, opened);
  const TargetOptions& given = options.target;
  const auto target = reader.token(given.target, given.target_id, "--target");
  const auto foil = reader.token(given.foil, given.foil_id, "--foil");
  if (options.data)
    return from_file(options, reader, target ? &*target : nullptr, foil ? &*foil : nullptr, needs_corrupt);

  check(target || !foil, ErrorCode::usage, "option '--foil' needs '--target'");
  ReadPair pair{.clean = reader.prompt(options.clean, options.clean_ids, "--clean-ids")};
  if (options.corrupt || options.corrupt_ids)
    pair.corrupt = reader.prompt(options.corrupt, options.corrupt_ids, "--corrupt-ids");
  check(pair.corrupt || !needs_corrupt, ErrorCode::usage, "there is no corrupt prompt: give '--corrupt'");
  reader.aligned(pair);
  pair.target = target;
  pair.foil = foil;
  ReadPairs result;
  result.pairs.push_back(std::move(pair));
  return result;
}

}  // namespace kirchhoff::cli
