#include "text/pre_tokenizer.h"

#include <utility>  // for move

#include "kirchhoff/base/error.h"
#include "text/normalizer.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace kirchhoff::text {
namespace {

void apply_step(const SplitStep& step, Words& words) {
  std::vector<Words::Range> ranges;
  ranges.reserve(words.ranges.size());
  std::vector<Piece> pieces;
  for (const Words::Range& range : words.ranges) {
    pieces.clear();
    step.pattern.find_all(words.text.text().substr(range.begin, range.end - range.begin), pieces);
    if (step.invert)
      for (Piece& piece : pieces) piece.is_match = !piece.is_match;
    apply_behavior(step.behavior, pieces);
    for (const Piece& piece : pieces) ranges.push_back({range.begin + piece.begin, range.begin + piece.end});
  }
  words.ranges = std::move(ranges);
}

/// Rewrites every part by `write(rewriter, range)`.
template <class Write>
void rewrite_parts(Words& words, const Write& write) {
  Rewriter rewriter(words.text);
  std::vector<Words::Range> ranges;
  ranges.reserve(words.ranges.size());
  for (const Words::Range& range : words.ranges) {
    const std::size_t begin = rewriter.size();
    write(rewriter, range);
    ranges.push_back({begin, rewriter.size()});
  }
  words.text = rewriter.finish();
  words.ranges = std::move(ranges);
}

void apply_step(PrefixSpaceStep, Words& words) {
  rewrite_parts(words, [&](Rewriter& rewriter, const Words::Range& range) {
    if (words.text.text()[range.begin] != ' ') rewriter.insert(" ", words.text.origin(range.begin));
    rewriter.copy(range.begin, range.end);
  });
}

void apply_step(ByteLevelStep, Words& words) {
  rewrite_parts(words, [&](Rewriter& rewriter, const Words::Range& range) {
    write_byte_level(rewriter, words.text, range.begin, range.end);
  });
}

void apply_step(const MetaspaceStep& step, Words& words) {
  rewrite_parts(words, [&](Rewriter& rewriter, const Words::Range& range) {
    const std::string_view part = words.text.text().substr(range.begin, range.end - range.begin);
    const bool has_mark = part[0] == ' ' || part.starts_with(step.replacement);
    const bool wanted = step.prepend == MetaspaceStep::Prepend::always ||
                        (step.prepend == MetaspaceStep::Prepend::first && words.text.origin(range.begin).begin == 0);
    if (!has_mark && wanted) rewriter.insert(step.replacement, words.text.origin(range.begin));
    for (std::size_t pos = range.begin; pos < range.end;) {
      const std::size_t space = std::min(words.text.text().find(' ', pos), range.end);
      rewriter.copy(pos, space);
      if (space < range.end) rewriter.insert(step.replacement, words.text.origin(space));
      pos = space + 1;
    }
  });
  if (step.split) apply_step(SplitStep{Pattern::literal(step.replacement), SplitBehavior::merged_with_next}, words);
}

SplitBehavior parse_behavior(const JsonNode& node, std::string_view fallback) {
  const std::string name = node.has("behavior") ? node.text("behavior") : std::string(fallback);
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  fail(ErrorCode::unsupported, "{}: behavior \"{}\" is not supported", node.where(), name);
}

// \w+|[^\w\s]+, with what lies between dropped: runs of word characters and runs of the others.
std::vector<PreTokenizer::Step> whitespace_steps() {
  const auto is_space = Pattern::characters(is_white_space);
  const auto is_word_character = Pattern::characters(is_word);
  return {SplitStep{is_space, SplitBehavior::removed}, SplitStep{is_word_character, SplitBehavior::contiguous}};
}

}  // namespace

MetaspaceStep parse_metaspace(const JsonNode& node) {
  node.only({"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
  MetaspaceStep step{node.text("replacement"), MetaspaceStep::Prepend::always, node.boolean_or("split", true)};
  check(!step.replacement.empty() && utf8_step(step.replacement, 0).length == step.replacement.size(),
        ErrorCode::format, "{}.replacement is \"{}\", expected one character", node.where(), step.replacement);
  const std::string scheme = node.has("prepend_scheme") ? node.text("prepend_scheme") : "always";
  if (scheme == "first")
    step.prepend = MetaspaceStep::Prepend::first;
  else if (scheme == "never")
    step.prepend = MetaspaceStep::Prepend::never;
  else
    check(scheme == "always", ErrorCode::unsupported, "{}: prepend_scheme \"{}\" is not supported", node.where(),
          scheme);
  if (!node.boolean_or("add_prefix_space", true)) {  // the older form of "never"
    check(!node.has("prepend_scheme") || scheme == "never", ErrorCode::format,
          "{}: add_prefix_space false contradicts prepend_scheme \"{}\"", node.where(), scheme);
    step.prepend = MetaspaceStep::Prepend::never;
  }
  return step;
}

PreTokenizer::PreTokenizer(std::vector<Step> steps) : steps_(std::move(steps)) { finish(true); }

PreTokenizer::PreTokenizer(const JsonNode& node, bool model_takes_bytes) {
  if (!node.is_null()) add(node, 0);
  finish(model_takes_bytes);
}

void PreTokenizer::finish(bool model_takes_bytes) {
  for (const Step& step : steps_) byte_level_ |= std::holds_alternative<ByteLevelStep>(step);
  leaves_bytes_ = model_takes_bytes && !steps_.empty() && std::holds_alternative<ByteLevelStep>(steps_.back());
  if (leaves_bytes_) steps_.pop_back();
}

void PreTokenizer::add(const JsonNode& untyped, int depth) {
  check_nesting(untyped, depth);
  const std::string type = untyped.type();
  const JsonNode node = untyped.named(type);
  if (type == "Sequence") {
    node.only({"type", "pretokenizers"});
    for (const JsonNode& element : untyped.elements("pretokenizers")) add(element, depth + 1);
  } else if (type == "ByteLevel") {
    node.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    if (node.boolean("add_prefix_space")) steps_.emplace_back(PrefixSpaceStep{});
    if (node.boolean_or("use_regex", true)) steps_.emplace_back(SplitStep{Pattern::regex(kGpt2Pattern)});
    steps_.emplace_back(ByteLevelStep{});
  } else if (type == "Split") {
    node.only({"type", "pattern", "behavior", "invert"});
    steps_.emplace_back(SplitStep{parse_pattern(node), parse_behavior(node, ""), node.boolean("invert")});
  } else if (type == "Digits") {
    node.only({"type", "individual_digits"});
    const bool individual = node.boolean("individual_digits");
    steps_.emplace_back(
        SplitStep{Pattern::characters(is_numeric), individual ? SplitBehavior::isolated : SplitBehavior::contiguous});
  } else if (type == "Punctuation") {
    node.only({"type", "behavior"});
    steps_.emplace_back(SplitStep{Pattern::characters(is_punctuation), parse_behavior(node, "Isolated")});
  } else if (type == "Metaspace") {
    steps_.emplace_back(parse_metaspace(node));
  } else if (type == "Whitespace") {
    node.only({"type"});
    for (Step& step : whitespace_steps()) steps_.push_back(std::move(step));
  } else if (type == "WhitespaceSplit") {
    node.only({"type"});
    steps_.emplace_back(SplitStep{Pattern::characters(is_white_space), SplitBehavior::removed});
  } else if (type == "CharDelimiterSplit") {
    node.only({"type", "delimiter"});
    steps_.emplace_back(SplitStep{Pattern::literal(node.text("delimiter")), SplitBehavior::removed});
  } else {
    fail(ErrorCode::unsupported, "{}: type \"{}\" is not supported", untyped.where(), type);
  }
}

Words PreTokenizer::split(AlignedText text) const {
  Words words{std::move(text), {}};
  if (const std::size_t size = words.text.text().size(); size > 0) words.ranges.push_back({0, size});
  const std::size_t most = most_bytes_from(words.text.text().size());
  for (const Step& step : steps_) {
    std::visit([&](const auto& known) { apply_step(known, words); }, step);
    check_growth(words.text.text().size(), most);
  }
  return words;
}

}  // namespace kirchhoff::text
