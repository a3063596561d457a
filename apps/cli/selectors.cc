#include "selectors.h"

#include <charconv>  // for from_chars
#include <sstream>   // for istringstream

#include "kirchhoff/base/error.h"

namespace kirchhoff::cli {
namespace {

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

/// An index in [0, n), counted from the end if negative.
Index parse_index(const std::string& text, Index n, const std::string& what) {
  Index value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, value);
  check(status == std::errc() && stop == end, ErrorCode::usage, "'{}' is not a {}", text, what);
  check(n > 0, ErrorCode::usage, "there is no {} {}: the model has none", what, value);
  check(value >= -n && value < n, ErrorCode::usage, "{} {} is out of range: there are {}, from 0", what, value, n);
  return value < 0 ? value + n : value;
}

bool is_single(const text::Tokenizer& tokenizer, const std::string& text) {
  try {
    return tokenizer.encode(text).ids.size() == 1;
  } catch (const Error&) {
    return false;  // a vocabulary that cannot spell it
  }
}

/// An index, or "*" for all.
std::vector<Index> parse_star(const std::string& text, Index n, const std::string& what) {
  if (text != "*") return {parse_index(text, n, what)};
  std::vector<Index> all;
  for (Index i = 0; i < n; ++i) all.push_back(i);
  return all;
}

/// "-1", "3..7", "0,2,-1", "all".
std::vector<Index> parse_ranges(const std::string& text, Index n, const std::string& what) {
  std::vector<Index> chosen;
  for (const std::string& part : split_list(text == "all" ? "0..-1" : text)) {
    const std::size_t dots = part.find("..");
    const Index first = parse_index(part.substr(0, dots), n, what);
    const Index last = dots == std::string::npos ? first : parse_index(part.substr(dots + 2), n, what);
    check(first <= last, ErrorCode::usage, "{}s '{}' run backwards", what, part);
    for (Index i = first; i <= last; ++i) chosen.push_back(i);
  }
  check(!chosen.empty(), ErrorCode::usage, "'{}' selects no {}", text, what);
  return chosen;
}

}  // namespace

void require_heads(const ModelConfig& config) {
  check(config.n_layers > 0, ErrorCode::usage, "the model has no layers, and so no heads");
}

std::vector<Index> parse_positions(const std::string& text, Index length) {
  return parse_ranges(text, length, "position");
}

std::vector<Index> parse_layers(const std::string& text, Index n_layers) {
  return parse_ranges(text, n_layers, "layer");
}

std::vector<std::pair<Index, Index>> parse_heads(const std::string& text, Index n_layers, Index n_heads) {
  std::vector<std::pair<Index, Index>> heads;
  for (std::string part : split_list(text)) {
    if (!part.empty() && (part.front() == 'L' || part.front() == 'a')) part.erase(0, 1);
    const std::size_t dot = part.find('.');
    check(dot != std::string::npos, ErrorCode::usage, "'{}' is not a head such as 9.9, L5.* or *.3", text);
    std::string head = part.substr(dot + 1);
    if (!head.empty() && (head.front() == 'H' || head.front() == 'h')) head.erase(0, 1);
    for (const Index l : parse_star(part.substr(0, dot), n_layers, "layer"))
      for (const Index h : parse_star(head, n_heads, "head")) heads.emplace_back(l, h);
  }
  check(!heads.empty(), ErrorCode::usage, "'{}' selects no head", text);
  return heads;
}

std::vector<HeadChain> parse_head_chains(const std::string& text, Index n_layers, Index n_heads) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::vector<HeadChain> chains;
  for (std::string part : split_list(text)) {
    HeadChain chain;
    // A '*' behind a digit joins two heads; one beside a '.' stands for all layers or heads.
    for (std::size_t at = part.size(); at-- > 1;) {
      if (part[at] != '*' || !is_digit(part[at - 1])) continue;
      const auto heads = parse_heads(part.substr(at + 1), n_layers, n_heads);
      check(heads.size() == 1, ErrorCode::usage, "'{}' in the virtual head '{}' selects {} heads", part.substr(at + 1),
            part, heads.size());
      chain.heads.push_back(heads.front());
      part.erase(at);
    }
    const auto last = parse_heads(part, n_layers, n_heads);
    check(chain.heads.empty() || last.size() == 1, ErrorCode::usage, "'{}' in the virtual head '{}' selects {} heads",
          part, text, last.size());
    for (const auto& head : last) {
      chains.push_back(chain);
      chains.back().heads.push_back(head);
    }
  }
  check(!chains.empty(), ErrorCode::usage, "'{}' selects no head", text);
  return chains;
}

HeadChain parse_head_chain(const std::string& text, const ModelConfig& config, const char* option) {
  const auto chains = parse_head_chains(text, config.n_layers, config.n_heads);
  check(chains.size() == 1, ErrorCode::usage, "option '{}': '{}' selects {} heads; one is looked at", option, text,
        chains.size());
  return chains.front();
}

std::vector<Party> parse_parties(const std::string& text, const ModelConfig& config) {
  std::vector<Party> parties;
  for (const std::string& part : split_list(text)) {
    if (part == "embed")
      parties.push_back({.kind = PartyKind::embed});
    else if (part == "pos")
      parties.push_back({.kind = PartyKind::pos});
    else if (part == "unembed")
      parties.push_back({.kind = PartyKind::unembed});
    else if (part.starts_with('m'))
      for (const Index layer : parse_star(part.substr(1), config.n_layers, "layer"))
        parties.push_back({.kind = PartyKind::mlp, .layer = layer});
    else
      for (HeadChain& chain : parse_head_chains(part, config.n_layers, config.n_heads))
        parties.push_back({.kind = PartyKind::head, .layer = chain.last_layer(), .chain = std::move(chain)});
  }
  check(!parties.empty(), ErrorCode::usage, "'{}' selects nothing that writes into the stream or reads from it", text);
  return parties;
}

void TargetOptions::declare(Command& command) {
  command.option("--target", "TEXT", target, "the token to explain, e.g. ' Mary' (default: the top prediction)");
  command.option("--foil", "TEXT", foil, "explain the difference to this token's logit");
  command.option("--target-id", "ID", target_id, "the same by token id");
  command.option("--foil-id", "ID", foil_id, "the same by token id");
}

TokenId single_token(const text::Tokenizer& tokenizer, const std::string& text, const std::string& option) {
  const text::Encoding encoding = tokenizer.encode(text);
  const auto bytes_of = [&tokenizer](TokenId id) {
    const text::TokenInfo* info = tokenizer.find(id);
    return info ? info->bytes : std::string();
  };
  if (encoding.ids.size() == 1 && bytes_of(encoding.ids.front()) == text) return encoding.ids.front();
  // Vocabularies that put a space in front of every text: the token may still exist, without or with its own space.
  for (TokenId id = 0; id < static_cast<TokenId>(tokenizer.size()); ++id)
    if (const text::TokenInfo* info = tokenizer.find(id); info && !info->special && info->bytes == text) return id;
  if (encoding.ids.size() == 1) return encoding.ids.front();

  std::vector<std::string> pieces;
  for (const TokenId id : encoding.ids) pieces.push_back(fmt::format("'{}' ({})", text::visible(bytes_of(id)), id));
  const std::string spaced = fmt::format(" {}", text);
  const bool space_helps = !text.starts_with(' ') && is_single(tokenizer, spaced);
  throw Error(ErrorCode::usage,
              fmt::format("{}: '{}' is not a single token but {}: {}", option, text::visible(text), pieces.size(),
                          fmt::join(pieces, ", ")),
              space_helps ? fmt::format("'{}' with a space in front is a single token", text::visible(spaced))
                          : "take its first token, or another word");
}

LogitTarget TargetOptions::resolve(const OpenedModel& opened, TokenId top, Index pos) const {
  const auto token = [&](const std::optional<std::string>& text, const std::optional<Index>& id,
                         const std::string& option) -> std::optional<TokenId> {
    check(!(text && id), ErrorCode::usage, "options '{}' and '{}-id' were both given", option, option);
    if (id) return static_cast<TokenId>(*id);
    if (!text) return std::nullopt;
    check(opened.tokenizer != nullptr, ErrorCode::usage, "option '{}': '{}' has no tokenizer; use '{}-id'", option,
          opened.files.argument, option);
    return single_token(*opened.tokenizer, *text, fmt::format("option '{}'", option));
  };
  const std::optional<TokenId> wanted = token(target, target_id, "--target");
  LogitTarget result{.token = wanted.value_or(top), .foil = token(foil, foil_id, "--foil"), .pos = pos};
  check(wanted || !result.foil, ErrorCode::usage, "option '--foil' needs '--target'");
  return result;
}

}  // namespace kirchhoff::cli
