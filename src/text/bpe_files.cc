#include <nlohmann/json.hpp>

#include "kirchhoff/base/error.h"
#include "kirchhoff/text/bpe_trainer.h"

namespace kirchhoff::text {
namespace {

using nlohmann::ordered_json;

const std::string& first_special(const TrainedBpe& bpe) {
  check(bpe.special > 0, ErrorCode::usage, "a tokenizer's files need a special token to begin texts with");
  return bpe.pieces.front();
}

ordered_json added_tokens(const TrainedBpe& bpe) {
  ordered_json list = ordered_json::array();
  for (Index id = 0; id < bpe.special; ++id)
    list.push_back({{"id", id},
                    {"content", bpe.pieces[static_cast<std::size_t>(id)]},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", false},
                    {"special", true}});
  return list;
}

/// BOS before the text, and before the first of a pair.
ordered_json bos_template(const std::string& bos) {
  const auto token = [&] { return ordered_json{{"SpecialToken", {{"id", bos}, {"type_id", 0}}}}; };
  const auto sequence = [](const char* name, int type) {
    return ordered_json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  return {{"type", "TemplateProcessing"},
          {"single", ordered_json::array({token(), sequence("A", 0)})},
          {"pair", ordered_json::array({token(), sequence("A", 0), sequence("B", 1)})},
          {"special_tokens",
           {{bos, {{"id", bos}, {"ids", ordered_json::array({0})}, {"tokens", ordered_json::array({bos})}}}}}};
}

ordered_json model(const TrainedBpe& bpe) {
  ordered_json vocab = ordered_json::object();
  for (std::size_t id = 0; id < bpe.pieces.size(); ++id) vocab[bpe.pieces[id]] = id;
  ordered_json merges = ordered_json::array();
  for (const auto& [left, right] : bpe.merges)
    merges.push_back(
        ordered_json::array({bpe.pieces[static_cast<std::size_t>(left)], bpe.pieces[static_cast<std::size_t>(right)]}));
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", std::move(vocab)},
          {"merges", std::move(merges)}};
}

}  // namespace

std::string tokenizer_json(const TrainedBpe& bpe) {
  const ordered_json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const ordered_json file = {{"version", "1.0"},
                             {"truncation", nullptr},
                             {"padding", nullptr},
                             {"added_tokens", added_tokens(bpe)},
                             {"normalizer", nullptr},
                             {"pre_tokenizer", byte_level},
                             {"post_processor", bos_template(first_special(bpe))},
                             {"decoder", byte_level},
                             {"model", model(bpe)}};
  return file.dump(1) + "\n";
}

std::string tokenizer_config_json(const TrainedBpe& bpe, Index context) {
  const std::string& bos = first_special(bpe);
  const ordered_json file = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                             {"bos_token", bos},
                             {"eos_token", bos},
                             {"add_bos_token", true},
                             {"add_prefix_space", false},
                             {"clean_up_tokenization_spaces", false},
                             {"model_max_length", context}};
  return file.dump(1) + "\n";
}

}  // namespace kirchhoff::text
