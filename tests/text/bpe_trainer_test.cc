// What is learned is what Hugging Face's library learns (tests/data/tokenizers/trained/make.py), and what it gives.
#include "kirchhoff/text/bpe_trainer.h"

#include <gtest/gtest.h>

#include <algorithm>  // for reverse

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/parallel.h"
#include "kirchhoff/base/random.h"
#include "text/shared_data.h"

namespace kirchhoff::text {
namespace {

using nlohmann::json;

json cases() { return read_json(KIRCHHOFF_TEST_DATA "/tokenizers/trained/cases.json"); }

std::vector<std::string_view> views(const std::vector<std::string>& texts) { return {texts.begin(), texts.end()}; }

TrainedBpe learn(const std::vector<std::string>& documents, Index size, std::uint64_t min_frequency = 2) {
  BpeTrainer trainer({.vocabulary_size = size, .special_tokens = {kEndOfText}, .min_frequency = min_frequency});
  trainer.add(views(documents));
  return trainer.train();
}

TrainedBpe learn(const json& entry) {
  return learn(entry["documents"].get<std::vector<std::string>>(), entry["vocabulary_size"], entry["min_frequency"]);
}

std::shared_ptr<const Tokenizer> load(const TrainedBpe& bpe) {
  const TokenizerFiles files = tokenizer_files(bpe);
  return make_tokenizer(files.tokenizer_json, "tokenizer.json",
                        nlohmann::ordered_json::parse(files.tokenizer_config_json));
}

TEST(BpeTrainer, LearnsWhatHuggingFaceLearns) {
  for (const json& entry : cases()) {
    const TrainedBpe bpe = learn(entry);
    EXPECT_EQ(std::vector<std::string>(bpe.pieces.begin() + 257, bpe.pieces.end()),
              entry["learned"].get<std::vector<std::string>>())
        << entry["name"];
    std::vector<std::pair<std::string, std::string>> merges;
    for (const auto& [left, right] : bpe.merges)
      merges.emplace_back(bpe.pieces[static_cast<std::size_t>(left)], bpe.pieces[static_cast<std::size_t>(right)]);
    EXPECT_EQ(merges, (entry["merges"].get<std::vector<std::pair<std::string, std::string>>>())) << entry["name"];
  }
}

TEST(BpeTrainer, EncodesAsHuggingFaceDoes) {
  for (const json& entry : cases()) {
    const auto tokenizer = load(learn(entry));
    for (const json& probe : entry["ids"])
      EXPECT_EQ(tokenizer->encode(probe["text"].get<std::string>()).ids, probe["ids"].get<std::vector<TokenId>>())
          << entry["name"] << ": " << probe["text"];
  }
}

TEST(BpeTrainer, AnyBytesComeBack) {
  const auto tokenizer = load(learn(cases()[0]));
  Random random(3);
  std::vector<std::string> texts = {"안녕하세요 👍🏽\r\n\tnaïve", "\xFF\xFE half \xEC\x95",
                                    std::string("a\0b", 3), ""};
  for (int i = 0; i < 100; ++i) {
    texts.emplace_back();
    for (Index n = random.below(60); n > 0; --n)
      texts.back() += static_cast<char>(static_cast<unsigned char>(random.below(256)));
  }
  for (const std::string& text : texts)
    EXPECT_EQ(tokenizer->decode_bytes(tokenizer->encode(text, {.recognise_special = false}).ids), text);
}

TEST(BpeTrainer, InvalidBytesAreLearnedFromToo) {
  const TrainedBpe bpe = learn({"\xFF\xFE\xFF\xFE \xFF\xFE"}, 258);
  ASSERT_EQ(bpe.pieces.size(), 258U);
  EXPECT_EQ(load(bpe)->find(257)->bytes, "\xFF\xFE");
}

TEST(BpeTrainer, TheFirstSpecialTokenBeginsTexts) {
  const auto tokenizer = load(learn(cases()[0]));
  EXPECT_EQ(tokenizer->bos(), 0);
  EXPECT_EQ(tokenizer->eos(), 0);
  EXPECT_EQ(tokenizer->prepends_bos(), true);
  EXPECT_TRUE(tokenizer->find(0)->special);
  EXPECT_EQ(tokenizer->find(0)->piece, kEndOfText);
  const std::vector<TokenId> plain = tokenizer->encode("Mrs. Dursley").ids;
  std::vector<TokenId> begun = tokenizer->encode("Mrs. Dursley", {.add_special = true}).ids;
  ASSERT_EQ(begun.front(), 0);
  begun.erase(begun.begin());
  EXPECT_EQ(begun, plain);
  EXPECT_EQ(tokenizer->encode("a<|endoftext|>b").ids[1], 0);
}

TEST(BpeTrainer, OrderOfDocumentsAndThreadsMakeNoDifference) {
  std::vector<std::string> documents;
  Random random(5);
  for (int i = 0; i < 300; ++i) {
    documents.emplace_back();
    for (int w = 0; w < 20; ++w) {
      documents.back() += ' ';
      for (Index n = 1 + random.below(7); n > 0; --n) documents.back() += static_cast<char>('a' + random.below(4));
    }
  }
  const Index threads = thread_count();
  set_thread_count(1);
  const TrainedBpe one = learn(documents, 600);
  set_thread_count(3);
  std::reverse(documents.begin(), documents.end());
  const TrainedBpe three = learn(documents, 600);
  set_thread_count(threads);
  EXPECT_EQ(one.pieces.size(), 600U);
  EXPECT_EQ(one.pieces, three.pieces);
  EXPECT_EQ(one.merges, three.merges);
}

TEST(BpeTrainer, OrdinaryTextNeverBecomesASpecialToken) {
  BpeTrainer trainer({.vocabulary_size = 300, .special_tokens = {kEndOfText, "the"}, .min_frequency = 1});
  const std::string text = "the the the other";
  trainer.add(std::vector<std::string_view>{text});
  const TrainedBpe bpe = trainer.train();
  EXPECT_EQ(std::count(bpe.pieces.begin(), bpe.pieces.end(), "the"), 1);
  EXPECT_EQ(bpe.special, 2);
  for (const TokenId id : load(bpe)->encode("the", {.recognise_special = false}).ids) EXPECT_GE(id, 2);
}

TEST(BpeTrainer, StopsWhereNothingIsFrequentEnough) {
  EXPECT_EQ(learn({"abab"}, 1000, 3).pieces.size(), 257U);
  EXPECT_EQ(learn({"abab"}, 1000, 2).pieces.size(), 258U);  // ab
  EXPECT_EQ(learn({"abab"}, 1000, 1).pieces.size(), 259U);  // and abab
  EXPECT_EQ(learn({}, 1000, 0).pieces.size(), 257U);
}

TEST(BpeTrainer, SaysWhatItCannotDo) {
  const auto refusal = [](BpeTrainingOptions options) {
    try {
      BpeTrainer trainer(std::move(options));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal({.vocabulary_size = 256}),
            "a byte-level vocabulary has 257 tokens at least (1 special, 256 bytes), asked for are 256");
  EXPECT_EQ(refusal({.special_tokens = {"<a>", "<b>", "<a>"}}), "the special token '<a>' occurs twice");
  EXPECT_EQ(refusal({.special_tokens = {""}}), "a special token is empty");
}

TEST(BpeTrainer, CanBeStopped) {
  BpeTrainer trainer({.vocabulary_size = 300});
  const std::string text = "to be or not to be";
  const Progress stop = [](std::string_view, Index, Index) { return false; };
  EXPECT_THROW(trainer.add(std::vector<std::string_view>{text}, stop), Error);
  EXPECT_THROW(trainer.train(stop), Error);
}

TEST(SplitDocuments, SeparatorsStandOnLinesOfTheirOwn) {
  using Documents = std::vector<std::string_view>;
  EXPECT_EQ(split_documents("one\ntwo\n<|endoftext|>\n three <|endoftext|>\n<|endoftext|>\n\n<|endoftext|>"),
            (Documents{"one\ntwo", "three <|endoftext|>"}));
  EXPECT_EQ(split_documents("<|endoftext|>\r\nword\r\n<|endoftext|>\r\nlast"), (Documents{"word", "last"}));
  EXPECT_EQ(split_documents("no separator\n"), (Documents{"no separator"}));
  EXPECT_EQ(split_documents(" \n"), Documents{});
  EXPECT_EQ(split_documents("a\n---\nb", "---"), (Documents{"a", "b"}));
}

}  // namespace
}  // namespace kirchhoff::text
