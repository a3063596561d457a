#include <utility>  // for move

#include "kirchhoff/base/error.h"
#include "kirchhoff/text/bpe_trainer.h"
#include "text/write_tokenizer.h"

namespace kirchhoff::text {
namespace {

using nlohmann::ordered_json;

ordered_json model(const TrainedBpe& bpe) {
  const auto piece = [&](TokenId id) { return bpe.pieces[static_cast<std::size_t>(id)]; };
  ordered_json::object_t vocab;  // its keys are known to differ
  for (std::size_t id = 0; id < bpe.pieces.size(); ++id) vocab.Container::emplace_back(bpe.pieces[id], id);
  ordered_json merges = ordered_json::array();
  for (const auto& [left, right] : bpe.merges) merges.push_back(ordered_json::array({piece(left), piece(right)}));
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

TokenizerFiles tokenizer_files(const TrainedBpe& bpe) {
  check(bpe.special > 0, ErrorCode::usage, "a tokenizer's files need a special token to begin texts with");
  const ordered_json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  std::vector<WrittenTokenizer::Special> special;
  for (Index id = 0; id < bpe.special; ++id)
    special.push_back({static_cast<TokenId>(id), bpe.pieces[static_cast<std::size_t>(id)]});
  return write_tokenizer({.special = special,
                          .bos = special.front(),
                          .bos_ends_texts = true,
                          .pre_tokenizer = byte_level,
                          .decoder = byte_level,
                          .model = model(bpe)});
}

}  // namespace kirchhoff::text
