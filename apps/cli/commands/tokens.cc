#include <algorithm>  // for all_of
#include <memory>     // for make_shared

#include "commands.h"
#include "json_option.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/model/tokenizer.h"
#include "prompt.h"
#include "table.h"
#include "token_source.h"

namespace kirchhoff::cli {
namespace {

struct TokensCommand {
  std::string source;
  PromptOptions prompt;
  JsonOption json;
  bool jsonl = false, decode = false;
};

struct Encoded {
  Tokens ids;
  std::vector<text::ByteSpan> offsets;
  std::string bos;
};

Encoded encode(const TokenSource& source, const std::string& text, bool recognise_special,
               std::optional<bool> user_bos) {
  const BosDecision decision = decide_bos(source.files, *source.tokenizer, user_bos);
  text::Encoding encoding = encode_text(*source.tokenizer, text, recognise_special);
  Encoded result{with_bos(encoding.ids, decision), std::move(encoding.offsets), decision.why};
  if (result.ids.size() > result.offsets.size()) result.offsets.insert(result.offsets.begin(), text::ByteSpan{});
  return result;
}

Json offsets_json(const std::vector<text::ByteSpan>& offsets) {
  Json list = Json::array();
  for (const text::ByteSpan& span : offsets) list.push_back({span.begin, span.end});
  return list;
}

Json bytes_json(const Tokens& ids, const TokenNames& names) {
  Json list = Json::array();
  for (const TokenId id : ids) list.push_back(hex(names.bytes(id)));
  return list;
}

Json decoded_json(const TokenSource& source, const Tokens& ids, bool skip_special) {
  for (const TokenId id : ids)
    check(source.tokenizer->find(id) != nullptr, ErrorCode::usage, "token id {} is not in the vocabulary ({})", id,
          source.tokenizer->description());
  return {{"text", source.tokenizer->decode(ids, skip_special)}, {"bytes", hex(source.tokenizer->decode_bytes(ids))}};
}

/// One line of the filter: {"text": ...} to {"ids", "bytes", "offsets"}, or {"ids": [...]} to {"text", "bytes"}.
Json filter_line(const TokenSource& source, const TokensCommand& options, const Json& line) {
  const auto flag = [&line](const char* key) -> std::optional<bool> {
    if (!line.is_object() || !line.contains(key)) return std::nullopt;
    check(line[key].is_boolean(), ErrorCode::usage, "\"{}\" must be true or false", key);
    return line[key].get<bool>();
  };
  if (options.decode) {
    const Json& ids = line.is_object() && line.contains("ids") ? line["ids"] : line;
    check(ids.is_array() && std::all_of(ids.begin(), ids.end(), [](const Json& id) { return id.is_number_integer(); }),
          ErrorCode::usage, "expected {{\"ids\": [1, 2, 3]}}");
    return decoded_json(source, ids.get<Tokens>(), flag("skip_special").value_or(false));
  }
  check(line.is_object() && line.contains("text") && line["text"].is_string(), ErrorCode::usage,
        "expected {{\"text\": \"...\"}}");
  const std::optional<bool> bos = flag("bos");
  const Encoded encoded =
      encode(source, line["text"].get<std::string>(), flag("special").value_or(!options.prompt.plain),
             bos ? bos : options.prompt.user_bos());
  return {{"ids", encoded.ids},
          {"bytes", bytes_json(encoded.ids, source.names())},
          {"offsets", offsets_json(encoded.offsets)}};
}

int filter(Session& session, const TokenSource& source, const TokensCommand& options) {
  std::string text;
  for (Index number = 1; read_line(text); ++number) {
    if (text.empty()) continue;
    try {
      session.out.write(json_line(filter_line(source, options, Json::parse(text))));
    } catch (const Json::exception& e) {
      fail(ErrorCode::usage, "stdin, line {}: not JSON: {}", number, e.what());
    } catch (const Error& e) {
      throw Error(e.raised(), fmt::format("stdin, line {}: {}", number, e.what()), e.help());
    }
    session.out.flush();
    if (session.out.closed()) break;
  }
  return 0;
}

int decode(Session& session, const TokenSource& source, const TokensCommand& options, const Command& command) {
  const std::string text = options.prompt.ids ? *options.prompt.ids : prompt_text(options.prompt, command);
  const Json decoded = decoded_json(source, parse_ids(text, "tokens --decode"), false);
  if (options.json.wanted()) {
    Json result = new_result("decode");
    result.update(decoded);
    options.json.print(session, result);
  } else {
    session.out.write(decoded["text"].get<std::string>());
    session.out.write("\n");
  }
  return 0;
}

int show(Session& session, const TokenSource& source, const TokensCommand& options, const Command& command) {
  Encoded encoded;
  std::string text;
  if (options.prompt.ids) {
    encoded = {parse_ids(*options.prompt.ids, "option '--ids'"), {}, "ids as given"};
  } else {
    text = prompt_text(options.prompt, command);
    encoded = encode(source, text, !options.prompt.plain, options.prompt.user_bos());
  }
  const TokenNames names = source.names();
  if (options.json.wanted()) {
    Json result = new_result("tokens");
    result["tokenizer"] = source.tokenizer->description();
    result["bos"] = encoded.bos;
    result["ids"] = encoded.ids;
    result["bytes"] = bytes_json(encoded.ids, names);
    result["offsets"] = offsets_json(encoded.offsets);
    Json tokens = Json::array();
    for (std::size_t i = 0; i < encoded.ids.size(); ++i) {
      Json token = to_json(encoded.ids[i], names);
      const text::TokenInfo* info = source.tokenizer->find(encoded.ids[i]);
      token["piece"] = info ? text_json(info->piece) : Json(nullptr);
      token["special"] = names.special(encoded.ids[i]);
      token["span"] =
          i < encoded.offsets.size() ? Json({encoded.offsets[i].begin, encoded.offsets[i].end}) : Json(nullptr);
      tokens.push_back(std::move(token));
    }
    result["tokens"] = std::move(tokens);
    options.json.print(session, result);
    return 0;
  }
  Table table({{"#", true}, {"token"}, {"id", true}, {"piece"}, {"bytes"}, {"span", true}});
  for (std::size_t i = 0; i < encoded.ids.size(); ++i) {
    const text::TokenInfo* info = source.tokenizer->find(encoded.ids[i]);
    const bool special = info && info->special;
    table.add(
        {std::to_string(i),
         {text::visible(names.bytes(encoded.ids[i])), special ? Style::warning : Style::token},
         std::to_string(encoded.ids[i]),
         info ? text::visible(info->piece) : "",
         hex(names.bytes(encoded.ids[i])),
         i < encoded.offsets.size() ? fmt::format("{}..{}", encoded.offsets[i].begin, encoded.offsets[i].end) : ""});
  }
  session.out.write(fmt::format("{} tokens for {} bytes · {} · {}\n", encoded.ids.size(), text.size(), encoded.bos,
                                source.tokenizer->description()));
  session.out.write(table.render(session.out));
  return 0;
}

int tokens_command(Session& session, const Command& command, const TokensCommand& options) {
  const TokenSource source = open_token_source(options.source);
  if (options.jsonl) return filter(session, source, options);
  return options.decode ? decode(session, source, options, command) : show(session, source, options, command);
}

}  // namespace

void add_tokens(Command& root, Session& session) {
  Command& command = root.add_command("tokens", "text to token ids and back, as a model reads it; no weights are read");
  auto options = std::make_shared<TokensCommand>();
  command.argument("MODEL", options->source, "a model or a tokenizer.json");
  command.argument("TEXT", options->prompt.argument, "the text; '-' or nothing: from stdin", false);
  options->prompt.declare_options(command);
  command.flag("--decode", options->decode, "ids to text");
  command.flag("--jsonl", options->jsonl,
               "filter stdin: {\"text\": ...} to {\"ids\", \"bytes\", \"offsets\"} line by line; with --decode "
               "{\"ids\": [...]} to {\"text\", \"bytes\"}");
  options->json.declare(command);
  command.footer(
      "A line of --jsonl may also have \"special\": false (special tokens' text is ordinary text) and \"bos\": true or "
      "false;\n"
      "with --decode \"skip_special\": true.\n");
  command.on_run([&session, &command, options] { return tokens_command(session, command, *options); });
}

}  // namespace kirchhoff::cli
