#include "text/post_processor.h"

#include <algorithm>  // for min, any_of

#include "kirchhoff/base/error.h"
#include "text/normalizer.h"
#include "text/utf8.h"

namespace kirchhoff::text {
namespace {

TokenId token_id(const JsonNode& node) {
  const std::int64_t id = node.integer();
  check(id >= 0 && id <= INT32_MAX, ErrorCode::format, "{} is {}, expected a token id", node.where(), id);
  return static_cast<TokenId>(id);
}

AddAround parse_template(const JsonNode& node) {
  node.only({"type", "single", "pair", "special_tokens"});
  AddAround around;
  bool after_text = false;
  for (const JsonNode& piece : node.elements("single")) {
    piece.only({"SpecialToken", "Sequence"});
    if (piece.has("Sequence")) {
      const std::string sequence = piece.at("Sequence").text("id");
      check(sequence == "A" && !after_text, ErrorCode::unsupported,
            "{}: the sequence {} where the one text A is expected", piece.where(), sequence);
      after_text = true;
      continue;
    }
    const std::string name = piece.at("SpecialToken").text("id");
    const JsonNode special = node.at("special_tokens").at(name);
    for (const JsonNode& id : special.elements("ids"))
      (after_text ? around.after : around.before).push_back(token_id(id));
  }
  check(after_text, ErrorCode::format, "{}: the template 'single' lacks the sequence A", node.where());
  return around;
}

/// ["</s>", 2]
TokenId named_token(const JsonNode& node) {
  const std::vector<JsonNode> parts = node.elements();
  check(parts.size() == 2, ErrorCode::format, "{} has {} parts, expected a token and its id", node.where(),
        parts.size());
  return token_id(parts[1]);
}

void apply_step(const TrimOffsets& step, std::string_view text, bool, std::vector<EncodedToken>& tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    EncodedToken& token = tokens[i];
    auto begin = static_cast<std::size_t>(token.span.begin), end = static_cast<std::size_t>(token.span.end);
    const bool first = i == 0 || begin == 0;
    std::uint32_t leading = token.leading_spaces;
    if (first && step.add_prefix_space && leading == 1) leading = 0;
    for (; leading > 0 && begin < end; --leading) begin = character_end(text, begin);
    begin = std::min(begin, end);
    for (std::uint32_t trailing = token.trailing_spaces; trailing > 0 && end > begin; --trailing)
      end = character_begin(text, end - 1);
    token.span = {static_cast<Index>(begin), static_cast<Index>(std::max(begin, end))};
  }
}

void apply_step(const AddAround& step, std::string_view, bool add_special, std::vector<EncodedToken>& tokens) {
  if (!add_special) return;
  const auto added = [](TokenId id) { return EncodedToken{id, {0, 0}}; };
  std::vector<EncodedToken> all;
  all.reserve(step.before.size() + tokens.size() + step.after.size());
  for (const TokenId id : step.before) all.push_back(added(id));
  all.insert(all.end(), tokens.begin(), tokens.end());
  for (const TokenId id : step.after) all.push_back(added(id));
  tokens = std::move(all);
}

}  // namespace

PostProcessor::PostProcessor(const JsonNode& node) {
  if (!node.is_null()) add(node, 0);
}

void PostProcessor::add(const JsonNode& untyped, int depth) {
  check_nesting(untyped, depth);
  const std::string type = untyped.type();
  const JsonNode node = untyped.named(type);
  if (type == "Sequence") {
    node.only({"type", "processors"});
    for (const JsonNode& element : untyped.elements("processors")) add(element, depth + 1);
  } else if (type == "ByteLevel") {
    node.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    if (node.boolean("trim_offsets")) steps_.emplace_back(TrimOffsets{node.boolean("add_prefix_space")});
  } else if (type == "RobertaProcessing") {
    node.only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
    if (node.boolean("trim_offsets")) steps_.emplace_back(TrimOffsets{node.boolean("add_prefix_space")});
    steps_.emplace_back(AddAround{{named_token(node.at("cls"))}, {named_token(node.at("sep"))}});
  } else if (type == "BertProcessing") {
    node.only({"type", "sep", "cls"});
    steps_.emplace_back(AddAround{{named_token(node.at("cls"))}, {named_token(node.at("sep"))}});
  } else if (type == "TemplateProcessing") {
    steps_.emplace_back(parse_template(node));
  } else {
    fail(ErrorCode::unsupported, "{}: type \"{}\" is not supported", untyped.where(), type);
  }
}

bool PostProcessor::trims_offsets() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return std::holds_alternative<TrimOffsets>(step); });
}

void PostProcessor::apply(std::string_view text, bool add_special, std::vector<EncodedToken>& tokens) const {
  for (const Step& step : steps_)
    std::visit([&](const auto& known) { apply_step(known, text, add_special, tokens); }, step);
}

bool PostProcessor::has_template() const {
  return std::any_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return std::holds_alternative<AddAround>(step); });
}

std::vector<TokenId> PostProcessor::added() const {
  std::vector<TokenId> ids;
  for (const Step& step : steps_) {
    const auto* around = std::get_if<AddAround>(&step);
    if (around == nullptr) continue;
    ids.insert(ids.end(), around->before.begin(), around->before.end());
    ids.insert(ids.end(), around->after.begin(), around->after.end());
  }
  return ids;
}

std::optional<TokenId> PostProcessor::first_added() const {
  std::optional<TokenId> first;
  for (const Step& step : steps_)  // a later template stands outside of an earlier one
    if (const auto* around = std::get_if<AddAround>(&step); around != nullptr && !around->before.empty())
      first = around->before[0];
  return first;
}

std::optional<TokenId> PostProcessor::last_added() const {
  std::optional<TokenId> last;
  for (const Step& step : steps_)
    if (const auto* around = std::get_if<AddAround>(&step); around != nullptr && !around->after.empty())
      last = around->after.back();
  return last;
}

}  // namespace kirchhoff::text
