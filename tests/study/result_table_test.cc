#include "kirchhoff/study/result_table.h"

#include <gtest/gtest.h>

#include <cmath>  // for isnan

#include "kirchhoff/base/error.h"

namespace kirchhoff {
namespace {

TEST(ResultCsv, OneRowAnObjectWithQuotesAndPaths) {
  const Json result = Json::parse(R"({"schema": "s", "ids": [{"id": 1}], "paths": [
    {"path": ["embed", "a0.h1"], "value": 0.5, "token": {"id": 7, "text": "a,\"b"}},
    {"path": ["embed"], "value": null, "more": true}]})");
  EXPECT_EQ(csv_of(result),
            "path,value,token.id,token.text,more\n"
            "embed > a0.h1,0.5,7,\"a,\"\"b\",\n"
            "embed,,,,true\n");
}

TEST(ResultCsv, SeveralListsAreToldApart) {
  const Json result = Json::parse(R"({"top": [{"v": 1}], "bottom": [{"v": -1}, {"v": -2}]})");
  EXPECT_EQ(csv_of(result), "list,v\ntop,1\nbottom,-1\nbottom,-2\n");
}

TEST(ResultCsv, ListsOfObjectsInObjectsAreUnnested) {
  const Json result = Json::parse(R"({"heads": [{"head": "a0.h1", "pattern": [[1, 0], [0.5, 0.5]],
                                 "sources": [{"pos": 0, "attention": 0.25}, {"pos": 1, "attention": 0.75}]}]})");
  EXPECT_EQ(csv_of(result), "head,sources.pos,sources.attention\na0.h1,0,0.25\na0.h1,1,0.75\n");
}

TEST(ResultCsv, AMatrixAloneIsATable) {
  EXPECT_EQ(csv_of(Json::parse(R"({"eigenvalues": [[1.5, 0], [0.25, -1]]})")), "re,im\n1.5,0\n0.25,-1\n");
  EXPECT_EQ(csv_of(Json::parse(R"({"losses": [[1, 2, 3]]})")), "0,1,2\n1,2,3\n");
}

TEST(ResultCsv, NothingToTabulateIsRefused) {
  EXPECT_THROW(csv_of(Json::parse(R"({"total": 3, "ragged": [[1], [1, 2]]})")), Error);
}

TEST(ResultArrays, KeepTheShapesOfNestedLists) {
  const Json result =
      Json::parse(R"({"schema": "s", "version": 1, "total": 2.5, "flag": true, "provenance": {"seed": 1},
    "pairs": [{"from": "a", "q": 1, "null": {"mean": 0.5}}, {"from": "b", "q": null, "null": {"mean": 0.25}}],
    "heads": [{"pattern": [[1, 0], [2, 3]]}, {"pattern": [[4, 5], [6, 7]]}],
    "ragged": [[1], [1, 2]]})");
  const auto arrays = arrays_of(result);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : arrays) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"total", "flag", "pairs.q", "pairs.null.mean", "heads.pattern"}));
  EXPECT_EQ(arrays[0].second.shape(), Shape{});
  EXPECT_DOUBLE_EQ(arrays[0].second[0], 2.5);
  EXPECT_DOUBLE_EQ(arrays[1].second[0], 1.0);
  EXPECT_DOUBLE_EQ(arrays[2].second[0], 1.0);
  EXPECT_TRUE(std::isnan(arrays[2].second[1]));
  EXPECT_DOUBLE_EQ(arrays[3].second[1], 0.25);
  EXPECT_EQ(arrays[4].second.shape(), (Shape{2, 2, 2}));
  EXPECT_DOUBLE_EQ(arrays[4].second[6], 6.0);
}

}  // namespace
}  // namespace kirchhoff
