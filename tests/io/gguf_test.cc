#include "kirchhoff/io/gguf.h"

#include <gtest/gtest.h>

#include "io_test_support.h"

namespace kirchhoff::io {
namespace {

/// Writes the parts of a GGUF header.
class Writer {
 public:
  template <class T>
  Writer& put(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& text(std::string_view value) {
    put<std::uint64_t>(value.size());
    text_ += value;
    return *this;
  }
  /// A key and the number of its type.
  Writer& key(std::string_view name, std::uint32_t type) { return text(name).put(type); }
  const std::string& bytes() const { return text_; }

  static Writer header(std::uint64_t tensors, std::uint64_t keys) {
    Writer writer;
    writer.text_ = "GGUF";
    writer.put<std::uint32_t>(3).put(tensors).put(keys);
    return writer;
  }

 private:
  std::string text_;
};

GgufFile parse(const Writer& writer) { return parse_gguf(in_memory(writer.bytes(), "m.gguf")); }
Error refusal(const Writer& writer) {
  return error_of([&] { parse(writer); });
}

TEST(Gguf, EveryValueType) {
  Writer w = Writer::header(0, 13);
  w.key("u8", 0).put<std::uint8_t>(200);
  w.key("i8", 1).put<std::int8_t>(-3);
  w.key("u16", 2).put<std::uint16_t>(60000);
  w.key("i16", 3).put<std::int16_t>(-300);
  w.key("u32", 4).put<std::uint32_t>(4000000000u);
  w.key("i32", 5).put<std::int32_t>(-70000);
  w.key("f32", 6).put(0.5f);
  w.key("bool", 7).put<std::uint8_t>(1);
  w.key("text", 8).text("naïve");
  w.key("ints", 9).put<std::uint32_t>(3).put<std::uint64_t>(2).put<std::int16_t>(-1).put<std::int16_t>(2);
  w.key("u64", 10).put<std::uint64_t>(1ull << 62);
  w.key("i64", 11).put<std::int64_t>(-1);
  w.key("f64", 12).put(0.1);
  const GgufMetadata m = parse(w).metadata;
  EXPECT_EQ(m.version(), 3);
  EXPECT_EQ(m.integer("u8"), 200);
  EXPECT_EQ(m.integer("i8"), -3);
  EXPECT_EQ(m.integer("u16"), 60000);
  EXPECT_EQ(m.integer("i16"), -300);
  EXPECT_EQ(m.integer("u32"), 4000000000);
  EXPECT_EQ(m.integer("i32"), -70000);
  EXPECT_EQ(m.number("f32"), 0.5);
  EXPECT_TRUE(m.boolean("bool"));
  EXPECT_EQ(m.text("text"), "naïve");
  EXPECT_EQ(m.integers("ints"), (std::vector<std::int64_t>{-1, 2}));
  EXPECT_EQ(m.integer("u64"), std::int64_t{1} << 62);
  EXPECT_EQ(m.integer("i64"), -1);
  EXPECT_EQ(m.number("f64"), 0.1);
  EXPECT_EQ(m.number("u8"), 200.0);
}

TEST(Gguf, Arrays) {
  Writer w = Writer::header(0, 3);
  w.key("texts", 9).put<std::uint32_t>(8).put<std::uint64_t>(2).text("a").text("");
  w.key("flags", 9).put<std::uint32_t>(7).put<std::uint64_t>(2).put<std::uint8_t>(1).put<std::uint8_t>(0);
  w.key("numbers", 9).put<std::uint32_t>(6).put<std::uint64_t>(1).put(2.5f);
  const GgufMetadata m = parse(w).metadata;
  EXPECT_EQ(m.texts("texts"), (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(std::get<std::vector<bool>>(*m.find("flags")), (std::vector<bool>{true, false}));
  EXPECT_EQ(m.numbers("numbers"), (std::vector<double>{2.5}));
}

TEST(Gguf, LookUpsNameTheFileTheKeyAndBothTypes) {
  Writer w = Writer::header(0, 1);
  w.key("llama.block_count", 8).text("two");
  const GgufMetadata m = parse(w).metadata;
  const Error wrong = error_of([&] { m.integer("llama.block_count"); });
  EXPECT_EQ(wrong.code(), ErrorCode::format);
  EXPECT_STREQ(wrong.what(), "'m.gguf': key 'llama.block_count' is a string, expected an integer");
  EXPECT_STREQ(error_of([&] { m.text("general.name"); }).what(),
               "'m.gguf': key 'general.name' is missing, expected a string");
  EXPECT_EQ(m.integer_or("absent", 7), 7);
  EXPECT_EQ(m.text_or("absent", "x"), "x");
  EXPECT_EQ(m.number_or("absent", 0.5), 0.5);
  EXPECT_TRUE(m.boolean_or("absent", true));
  EXPECT_EQ(error_of([&] { m.integer_or("llama.block_count", 7); }).code(), ErrorCode::format);
}

TEST(Gguf, ValuesThatDoNotFitAreRefused) {
  Writer large = Writer::header(0, 1);
  large.key("n", 10).put(~std::uint64_t{0});
  EXPECT_TRUE(mentions(refusal(large), "18446744073709551615"));
  Writer flag = Writer::header(0, 1);
  flag.key("flag", 7).put<std::uint8_t>(2);
  EXPECT_TRUE(mentions(refusal(flag), "'flag'") && mentions(refusal(flag), "2, expected 0 or 1"));
  Writer nested = Writer::header(0, 1);
  nested.key("a", 9).put<std::uint32_t>(9).put<std::uint64_t>(1).put<std::uint32_t>(4).put<std::uint64_t>(0);
  EXPECT_EQ(refusal(nested).code(), ErrorCode::unsupported);
  Writer nameless = Writer::header(0, 1);
  nameless.key("", 7).put<std::uint8_t>(1).put<std::uint64_t>(0);
  EXPECT_EQ(refusal(nameless).code(), ErrorCode::format);
}

TEST(Gguf, TypesThatAreNotReadAreNamed) {
  const auto with_type = [](std::uint32_t type) {
    Writer w = Writer::header(1, 0);
    w.text("w").put<std::uint32_t>(1).put<std::uint64_t>(256).put(type).put<std::uint64_t>(0);
    return refusal(w);
  };
  for (const auto& [number, name] : std::vector<std::pair<std::uint32_t, const char*>>{{4, "Q4_2"},
                                                                                       {5, "Q4_3"},
                                                                                       {9, "Q8_1"},
                                                                                       {15, "Q8_K"},
                                                                                       {31, "Q4_0_4_4"},
                                                                                       {33, "Q4_0_8_8"},
                                                                                       {36, "IQ4_NL_4_4"},
                                                                                       {41, "Q1_0"}}) {
    const Error error = with_type(number);
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_TRUE(mentions(error, name) && mentions(error, "'w'")) << error.what();
  }
}

TEST(Gguf, OverlappingTensorsAreRefused) {
  Writer w = Writer::header(2, 0);
  w.text("a").put<std::uint32_t>(1).put<std::uint64_t>(16).put<std::uint32_t>(0).put<std::uint64_t>(0);
  w.text("b").put<std::uint32_t>(1).put<std::uint64_t>(16).put<std::uint32_t>(0).put<std::uint64_t>(32);
  for (int i = 0; i < 64; ++i) w.put<std::uint32_t>(0);
  EXPECT_TRUE(mentions(refusal(w), "'a'") && mentions(refusal(w), "'b'") && mentions(refusal(w), "overlap"));
}

TEST(Gguf, MetadataCannotGrowFarBeyondTheFile) {
  // A byte of the file becomes an integer of eight.
  Writer w = Writer::header(0, 1);
  constexpr std::uint64_t kCount = 40'000'000;
  w.key("bytes", 9).put<std::uint32_t>(0).put(kCount);
  const std::string text = w.bytes() + std::string(kCount, '\1');
  const Error error = error_of([&] { parse_gguf(in_memory(text, "m.gguf")); });
  EXPECT_TRUE(mentions(error, "'bytes'") && mentions(error, "memory")) << error.what();
}

TEST(Gguf, VocabulariesOfTheSharedFiles) {
  const std::string path = shared_data("data/tokenizers/gguf-vocab/ggml-vocab-gpt-2.gguf");
  if (path.empty()) GTEST_SKIP() << "the shared data are not there";
  const GgufFile file = read_gguf(path);
  EXPECT_EQ(file.metadata.text("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(file.metadata.texts("tokenizer.ggml.tokens").size(), 50257u);
  EXPECT_EQ(file.metadata.texts("tokenizer.ggml.tokens").back(), "<|endoftext|>");
}

}  // namespace
}  // namespace kirchhoff::io
