#include "text/write_tokenizer.h"

#include <utility>  // for move

namespace kirchhoff::text {
namespace {

using nlohmann::ordered_json;
using Special = WrittenTokenizer::Special;

ordered_json added_tokens(const std::vector<Special>& special) {
  ordered_json list = ordered_json::array();
  for (const Special& token : special)
    list.push_back({{"id", token.id},
                    {"content", token.content},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", false},
                    {"special", true}});
  return list;
}

/// "single" and "pair" of a TemplateProcessing: BOS once, then the text or texts.
ordered_json template_of(const std::string& bos, bool pair) {
  ordered_json parts = {{{"SpecialToken", {{"id", bos}, {"type_id", 0}}}}};
  parts.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (pair) parts.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  return parts;
}

ordered_json bos_first(const Special& bos) {
  ordered_json processor = {{"type", "TemplateProcessing"}};
  processor["single"] = template_of(bos.content, false);
  processor["pair"] = template_of(bos.content, true);
  processor["special_tokens"][bos.content] = {
      {"id", bos.content}, {"ids", ordered_json::array({bos.id})}, {"tokens", ordered_json::array({bos.content})}};
  return processor;
}

}  // namespace

TokenizerFiles write_tokenizer(WrittenTokenizer tokenizer) {
  ordered_json root = {{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  root["added_tokens"] = added_tokens(tokenizer.special);
  root["normalizer"] = nullptr;
  root["pre_tokenizer"] = std::move(tokenizer.pre_tokenizer);
  root["post_processor"] = bos_first(tokenizer.bos);
  root["decoder"] = std::move(tokenizer.decoder);
  root["model"] = std::move(tokenizer.model);
  ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"bos_token", tokenizer.bos.content}};
  if (tokenizer.bos_ends_texts) config["eos_token"] = tokenizer.bos.content;
  config["add_bos_token"] = true;
  config["clean_up_tokenization_spaces"] = false;
  return {root.dump(2) + "\n", config.dump(2) + "\n"};
}

}  // namespace kirchhoff::text
