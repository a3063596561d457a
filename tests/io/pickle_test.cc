#include "io/pickle.h"

#include <gtest/gtest.h>

#include "io_test_support.h"
#include "kirchhoff/io/torch_file.h"

namespace kirchhoff::io {
namespace {

using namespace std::string_literals;

Pickle unpickle(const std::string& text) { return parse_pickle(in_memory(text, "m.pt"), "data.pkl"); }
Error pickle_refusal(const std::string& text) {
  return error_of([&] { unpickle(text); });
}

template <class T>
const T& as(const PickleValue* value) {
  return std::get<T>(value->data);
}

// The pickles were written by Python: pickle.dumps(value, protocol).
TEST(Pickle, ValuesOfEveryProtocol) {
  // {'a': [1, -2, 3.5], 'b': (True, None)}
  const std::vector<std::string> protocols{
      "(dp0\nVa\np1\n(lp2\nI1\naI-2\naF3.5\nasVb\np3\n(I01\nNtp4\ns.",
      "}q\x00(X\x01\x00\x00\x00\x61q\x01]q\x02(K\x01J\xfe\xff\xff\xffG@\x0c\x00\x00\x00\x00\x00\x00\x65X\x01\x00\x00\x00\x62q\x03(I01\nNtq\x04u."s,
      "\x80\x02}q\x00(X\x01\x00\x00\x00\x61q\x01]q\x02(K\x01J\xfe\xff\xff\xffG@\x0c\x00\x00\x00\x00\x00\x00\x65X\x01\x00\x00\x00\x62q\x03\x88N\x86q\x04u."s,
      "\x80\x04\x95&\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01\x61\x94]\x94(K\x01J\xfe\xff\xff\xffG@\x0c\x00\x00\x00\x00\x00\x00\x65\x8c\x01\x62\x94\x88N\x86\x94u."s,
  };
  for (const std::string& text : protocols) {
    const Pickle pickle = unpickle(text);
    EXPECT_EQ(pickle.consumed, text.size());
    const auto& dict = as<PickleDict>(pickle.top);
    ASSERT_EQ(dict.items.size(), 2u);
    EXPECT_EQ(as<std::string>(dict.items[0].first), "a");
    const auto& list = as<PickleSequence>(dict.items[0].second);
    ASSERT_EQ(list.items.size(), 3u);
    EXPECT_FALSE(list.is_tuple);
    EXPECT_EQ(as<std::int64_t>(list.items[0]), 1);
    EXPECT_EQ(as<std::int64_t>(list.items[1]), -2);
    EXPECT_EQ(as<double>(list.items[2]), 3.5);
    const auto& tuple = as<PickleSequence>(dict.items[1].second);
    ASSERT_EQ(tuple.items.size(), 2u);
    EXPECT_TRUE(tuple.is_tuple);
    EXPECT_TRUE(as<bool>(tuple.items[0]));
    EXPECT_TRUE(std::holds_alternative<std::monostate>(tuple.items[1]->data));
  }
}

TEST(Pickle, IntegersOfAnyLength) {
  EXPECT_EQ(as<std::int64_t>(unpickle("\x80\x02\x8a\x00."s).top), 0);
  EXPECT_EQ(as<std::int64_t>(unpickle("\x80\x02\x8a\x01\xff."s).top), -1);
  EXPECT_EQ(as<std::int64_t>(unpickle("\x80\x02\x8a\x06\x00\x00\x00\x00\x00\x01."s).top), std::int64_t{1} << 40);
  EXPECT_EQ(as<std::int64_t>(unpickle("\x80\x02\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."s).top),
            std::numeric_limits<std::int64_t>::min());
  const Pickle large = unpickle("\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."s);
  EXPECT_TRUE(as<std::unique_ptr<PickleBytes>>(large.top)->is_integer);
}

TEST(Pickle, NothingIsEverCalled) {
  EXPECT_TRUE(mentions(pickle_refusal("cos\nsystem\n(S'echo'\ntR."), "'os.system'"));
  EXPECT_TRUE(mentions(pickle_refusal("cbuiltins\neval\n."), "'builtins.eval'"));
  EXPECT_TRUE(mentions(pickle_refusal("(ios\nsystem\n."), "'os.system'"));
  EXPECT_TRUE(mentions(pickle_refusal("\x80\x04\x8c\x05posix\x8c\x06system\x93."s), "'posix.system'"));
  EXPECT_TRUE(mentions(pickle_refusal("ctorch._utils\n_import_dotted_name\n."), "'torch._utils._import_dotted_name'"));
  EXPECT_TRUE(mentions(pickle_refusal("ctorch.serialization\nload\n."), "'torch.serialization.load'"));
  // A name smuggled through attributes of an allowed module, an allowed name of another module.
  EXPECT_TRUE(mentions(pickle_refusal("ctorch\nnn.Module\n."), "'torch.nn.Module'"));
  EXPECT_TRUE(mentions(pickle_refusal("cevil\nOrderedDict\n."), "'evil.OrderedDict'"));
  EXPECT_EQ(pickle_refusal("\x80\x02\x82\x01."s).code(), ErrorCode::unsupported);
  EXPECT_EQ(pickle_refusal("ccollections\nOrderedDict\n)\x81."s).code(), ErrorCode::unsupported);
}

TEST(Pickle, MachinesThatDoNotAddUpAreRefused) {
  for (const std::string& text : {""s,
                                  "."s,
                                  "K\x01K\x02."s,
                                  "0."s,
                                  "t."s,
                                  "(K\x01."s,
                                  "h\x05."s,
                                  "K\x01K\x02s."s,
                                  "}K\x01K\x02K\x03s."s,
                                  "}(K\x01u."s,
                                  "K\x01R."s,
                                  "ccollections\nOrderedDict\n(K\x01tR."s,
                                  "\x80\x09."s,
                                  "\xfa."s,
                                  "]K\x01)R."s,
                                  "X\xff\xff\xff\xff\x61."s,
                                  "\x8d\xff\xff\xff\xff\xff\xff\xff\xff."s,
                                  "Q."s,
                                  ")Q."s,
                                  "X\x01\x00\x00\x00\xff."s}) {
    const Error error = pickle_refusal(text);
    EXPECT_TRUE(error.code() == ErrorCode::format || error.code() == ErrorCode::unsupported) << error.what();
  }
}

TEST(Pickle, ValuesAreCounted) {
  // One list after the other, each of one byte.
  EXPECT_TRUE(mentions(pickle_refusal("(" + std::string(2'000'000, ']') + "t."), "more values"));
  // A text of 1 MB, encoded again and again by three bytes each: _codecs.encode(text, 'latin1').
  std::string text = "(c_codecs\nencode\nq\x01X"s;
  const std::string body(1 << 20, 'x');
  const auto length = static_cast<std::uint32_t>(body.size());
  text.append(reinterpret_cast<const char*>(&length), 4);
  text += body + "\x85q\x02"s;
  for (int i = 0; i < 100000; ++i) text += "h\x01h\x02R";
  EXPECT_TRUE(mentions(pickle_refusal(text + "t."), "more values"));
}

TEST(Pickle, ValuesThatContainThemselvesEnd) {
  // x = []; x.append(x), inside a dict, then through the whole reader.
  const std::string text = "\x80\x02}X\x01\x00\x00\x00\x61]q\x00h\x00\x61s."s;
  EXPECT_NO_THROW(unpickle(text));
}

}  // namespace
}  // namespace kirchhoff::io
