// What holds for whole tokenizers, shown on our own small ones.
#include "kirchhoff/text/tokenizer.h"

#include <gtest/gtest.h>

#include <ctime>   // for clock
#include <thread>  // for thread

#include "kirchhoff/base/error.h"
#include "kirchhoff/base/random.h"
#include "text/shared_data.h"

namespace kirchhoff::text {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

const std::filesystem::path kFolder = KIRCHHOFF_TEST_DATA "/tokenizers";

json file_of(const std::string& style) { return read_json(kFolder / style / "tokenizer.json"); }

std::shared_ptr<const Tokenizer> make(const json& file, const ordered_json& config = nullptr) {
  return make_tokenizer(file.dump(), "model/tokenizer.json", config);
}

std::shared_ptr<const Tokenizer> load(const std::string& style) { return make(file_of(style)); }

/// The error that `file` gives.
std::string refusal(const json& file, ErrorCode code) {
  try {
    make(file);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "loads";
  return {};
}

#define EXPECT_SAYS(message, part) EXPECT_NE((message).find(part), std::string::npos) << (message)

TEST(Tokenizer, ByteLevelVocabulariesTakeAnyBytes) {
  json file = file_of("byte_level");
  file["normalizer"] = nullptr;
  const auto tokenizer = make(file);
  Random random(11);
  for (int i = 0; i < 500; ++i) {
    std::string bytes;
    for (Index n = random.below(200); n > 0; --n)
      bytes += static_cast<char>(static_cast<unsigned char>(random.below(256)));
    const Encoding encoding = tokenizer->encode(bytes);
    ASSERT_EQ(tokenizer->decode_bytes(encoding.ids), bytes);
    ASSERT_EQ(valid_utf8_prefix(tokenizer->decode(encoding.ids)), tokenizer->decode(encoding.ids).size());
  }
}

TEST(Tokenizer, SpansOfByteLevelTokensCoverTheText) {
  json file = file_of("byte_level");
  file["post_processor"] = nullptr;
  const auto tokenizer = make(file);
  const std::string text = "The nœud 你好 \xF0\x9F\x91 end\n";
  Index covered = 0;
  for (const ByteSpan& span : tokenizer->encode(text).offsets) {
    ASSERT_LE(span.begin, covered);
    ASSERT_GE(span.end, covered);
    covered = span.end;
  }
  EXPECT_EQ(covered, static_cast<Index>(text.size()));
}

TEST(Tokenizer, OthersNameTheInvalidByte) {
  try {
    load("byte_fallback")->encode("node \xC3\xA9\xC3(");
    FAIL() << "encodes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_SAYS(std::string(error.what()), "byte 0xC3 at offset 7");
  }
}

TEST(Tokenizer, ByteFallbackIsLossFree) {
  const auto tokenizer = load("byte_fallback");
  for (const char* text : {"你好", "a\u0000b", " The  sum ", "\t👍🏽\r\n", "“x”"})
    EXPECT_EQ(tokenizer->decode_bytes(tokenizer->encode(text).ids), text);
  const auto ids = tokenizer->encode("é").ids;  // a partial character: its bytes as they are, or U+FFFD each
  ASSERT_EQ(ids.size(), 3U);
  EXPECT_EQ(tokenizer->decode_bytes(std::span(ids).first(2)), "\xC3");
  EXPECT_EQ(tokenizer->decode(std::span(ids).first(2)), "\uFFFD");
}

TEST(Tokenizer, TokensShowTheirBytes) {
  const auto bytes_of = [](const Tokenizer& tokenizer, std::string_view piece) {
    const auto id = tokenizer.id_of(piece);
    EXPECT_TRUE(id) << piece;
    return id ? tokenizer.find(*id)->bytes : "";
  };
  const auto byte_level = load("byte_level");
  EXPECT_EQ(bytes_of(*byte_level, "Ġthe"), " the");
  EXPECT_EQ(bytes_of(*byte_level, "Ċ"), "\n");
  EXPECT_EQ(bytes_of(*byte_level, "Ã"), "\xC3");
  EXPECT_EQ(bytes_of(*byte_level, "</s>"), "</s>");
  EXPECT_TRUE(byte_level->find(*byte_level->id_of("</s>"))->special);
  EXPECT_FALSE(byte_level->find(*byte_level->id_of("<mark>"))->special);
  const auto byte_fallback = load("byte_fallback");
  EXPECT_EQ(bytes_of(*byte_fallback, "▁the"), " the");
  EXPECT_EQ(bytes_of(*byte_fallback, "<0x0A>"), "\n");
  EXPECT_EQ(byte_fallback->id_of("no such token"), std::nullopt);
  EXPECT_EQ(byte_level->description(), "byte-level BPE, 421 tokens (tokenizer.json)");
}

TEST(Tokenizer, BosAndEosAreNamedByTheConfigOrTheTemplate) {
  json file = file_of("byte_level");
  EXPECT_EQ(make(file)->bos(), 1);  // the template's <s> and </s>
  EXPECT_EQ(make(file)->eos(), 2);
  EXPECT_EQ(make(file)->prepends_bos(), true);
  const ordered_json config = {
      {"bos_token", "<mask>"}, {"eos_token", {{"content", "<unk>"}, {"lstrip", false}}}, {"add_bos_token", false}};
  EXPECT_EQ(make(file, config)->bos(), 3);
  EXPECT_EQ(make(file, config)->eos(), 0);
  EXPECT_EQ(make(file, config)->prepends_bos(), false);
  file["post_processor"] = nullptr;
  EXPECT_EQ(make(file)->bos(), std::nullopt);
  EXPECT_EQ(make(file)->prepends_bos(), std::nullopt);
}

TEST(Tokenizer, WhatNothingImplementsIsRefused) {
  const json file = file_of("byte_level");
  const auto with = [&](const char* pointer, const json& value) {
    json changed = file;
    changed[json::json_pointer(pointer)] = value;
    return changed;
  };
  const auto unsupported = [&](const char* pointer, const json& value) {
    return refusal(with(pointer, value), ErrorCode::unsupported);
  };
  EXPECT_SAYS(unsupported("/model/dropout", 0.1), "model: dropout 0.1");
  EXPECT_SAYS(unsupported("/model/new_option", true), "model has the key 'new_option'");
  EXPECT_SAYS(unsupported("/new_part", 1), "'model/tokenizer.json' has the key 'new_part'");
  EXPECT_SAYS(unsupported("/version", "2.0"), "version \"2.0\"");
  EXPECT_SAYS(unsupported("/normalizer", {{"type", "Precompiled"}}), "normalizer: type \"Precompiled\"");
  EXPECT_SAYS(unsupported("/decoder", {{"type", "CTC"}}), "decoder: type \"CTC\"");
  EXPECT_SAYS(unsupported("/post_processor", {{"type", "Other"}}), "post_processor: type \"Other\"");
  EXPECT_SAYS(unsupported("/pre_tokenizer/pretokenizers/0/behavior", "Shuffled"),
              "pretokenizers[0] Split: behavior \"Shuffled\"");
  EXPECT_SAYS(unsupported("/pre_tokenizer/pretokenizers/1/more", 1), "pretokenizers[1] ByteLevel has the key 'more'");
  EXPECT_EQ(make(with("/model/dropout", 0))->encode("The sum").ids, make(file)->encode("The sum").ids);
}

TEST(Tokenizer, WrongTypesNameTheirPlace) {
  const json file = file_of("byte_level");
  const auto malformed = [&](const char* pointer, const json& value) {
    json changed = file;
    changed[json::json_pointer(pointer)] = value;
    return refusal(changed, ErrorCode::format);
  };
  EXPECT_SAYS(malformed("/model/vocab/The", "one"), "token 'The' has string in the place of an id");
  EXPECT_SAYS(malformed("/model/merges/3", 7), "model.merges[3]");
  EXPECT_SAYS(malformed("/model/merges/3", json::array({"a"})), "model.merges[3] has 1 tokens");
  EXPECT_SAYS(malformed("/model/byte_fallback", "yes"),
              "model.byte_fallback is string (\"yes\"), expected true or false");
  EXPECT_SAYS(malformed("/added_tokens/0/special", 1), "added_tokens[0].special is number");
  EXPECT_SAYS(malformed("/added_tokens/0/id", 77), "token '<unk>' has id 77, model.vocab gives it 0");
  EXPECT_SAYS(malformed("/pre_tokenizer", json::array()), "pre_tokenizer is array");
  EXPECT_SAYS(malformed("/post_processor/processors/1/single", json::array()), "lacks the sequence A");
  EXPECT_SAYS(malformed("/post_processor/processors/1/special_tokens/<s>/ids", json::array({9999})),
              "adds the id 9999, which no token has");
  json twice = file;
  twice["added_tokens"].push_back({{"id", 500},
                                   {"content", "<mark>"},
                                   {"single_word", false},
                                   {"lstrip", false},
                                   {"rstrip", false},
                                   {"normalized", true},
                                   {"special", false}});
  EXPECT_SAYS(refusal(twice, ErrorCode::format), "are both found as '<mark>'");
  twice["added_tokens"].back()["content"] = "<far>";
  twice["added_tokens"].back()["id"] = 1'000'000'000;
  EXPECT_SAYS(refusal(twice, ErrorCode::format), "token '<far>' has id 1000000000, far beyond");
}

TEST(Tokenizer, StepsThatMultiplyATextAreStopped) {
  json file = file_of("byte_level");
  const json grow = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(20, 'a')}};
  const json double_up = {{"type", "ByteLevel"}};
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  const auto stopped = [&](const char* part, const char* list, const json& step) {
    json changed = file;
    changed[part] = {{"type", "Sequence"}, {list, std::vector<json>(40, step)}};
    try {
      make(changed)->encode("a a");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_SAYS(stopped("normalizer", "normalizers", grow), "grow beyond 1048576 bytes");
  EXPECT_SAYS(stopped("normalizer", "normalizers", double_up), "grow beyond 1048576 bytes");
  EXPECT_SAYS(stopped("pre_tokenizer", "pretokenizers", byte_level), "grow beyond 1048576 bytes");
}

TEST(Tokenizer, JsonIsReadStrictly) {
  const auto message = [](const std::string& text) {
    try {
      make_tokenizer(text, "t.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::format);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_SAYS(message("{\"version\":\"1.0\",}"), "'t.json' is not valid JSON at byte 18");
  EXPECT_SAYS(message("{} x"), "not valid JSON at byte 4");
  EXPECT_SAYS(message(std::string("{}\0 x", 5)), "not valid JSON at byte 3: a NUL byte");
  EXPECT_SAYS(message(""), "not valid JSON");
  EXPECT_SAYS(message("[]"), "'t.json' holds array, expected a JSON object");
  EXPECT_SAYS(message("{\"version\":\"1.0\",\"version\":\"1.0\"}"), "the key 'version' occurs twice");
  EXPECT_SAYS(message("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]}}"),
              "token 'a' occurs twice, with ids 0 and 1");
  EXPECT_SAYS(message(std::string(100'000, '[')), "nested more than 64 deep");
  EXPECT_SAYS(message("{\"normalizer\":\"\xFF\"}"), "not valid JSON");
}

TEST(Tokenizer, OneLongWordTakesTimeInProportion) {
  for (const char* style : {"byte_level", "byte_fallback"}) {
    const auto tokenizer = load(style);
    const auto seconds = [&](std::size_t size) {
      std::string word;
      while (word.size() < size) word += "currentstream";
      const std::clock_t begin = std::clock();  // processor time: other work does not count
      EXPECT_EQ(tokenizer->decode_bytes(tokenizer->encode(word).ids), word);
      return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    };
    seconds(1000);
    const double small = seconds(100'000), large = seconds(1'000'000);
    EXPECT_LT(large, 30 * small) << style << ": 100 would be quadratic, 10 linear";
  }
}

TEST(Tokenizer, ThreadsMayShareIt) {
  const auto tokenizer = load("byte_level");
  const std::string text = read_file(kFolder / "make.py");
  const Encoding expected = tokenizer->encode(text);
  std::vector<std::thread> threads;
  std::vector<Encoding> results(4);
  for (Encoding& result : results)
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) result = tokenizer->encode(text);
    });
  for (std::thread& thread : threads) thread.join();
  for (const Encoding& result : results) {
    EXPECT_EQ(result.ids, expected.ids);
    EXPECT_EQ(flat(result.offsets), flat(expected.offsets));
  }
}

}  // namespace
}  // namespace kirchhoff::text
