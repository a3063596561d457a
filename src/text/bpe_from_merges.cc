#include "text/bpe_from_merges.h"

#include "kirchhoff/base/error.h"

namespace kirchhoff::text {

std::shared_ptr<const BpeModel> bpe_from_merges(Vocabulary vocabulary,
                                                const std::vector<std::pair<std::string, std::string>>& merges,
                                                BpeOptions options, const std::string& where) {
  const auto find = [&](const std::string& token, std::size_t i, std::string_view what) {
    const std::optional<TokenId> id = vocabulary.find(token);
    check(id.has_value(), ErrorCode::format, "{}[{}] joins '{}' and '{}': {} '{}' is not in the vocabulary", where, i,
          merges[i].first, merges[i].second, what, token);
    return *id;
  };
  MergeTable table(merges.size());
  std::string joined;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    const auto& [left, right] = merges[i];
    check(!left.empty() && !right.empty(), ErrorCode::format, "{}[{}] joins '{}' and '{}': a part is empty", where, i,
          left, right);
    const std::size_t prefix = options.continuing_prefix.size();
    check(right.size() > prefix || prefix == 0, ErrorCode::format, "{}[{}]: '{}' does not begin with the prefix '{}'",
          where, i, right, options.continuing_prefix);
    joined.assign(left).append(right, prefix);
    const TokenId left_id = find(left, i, "the token"), right_id = find(right, i, "the token");
    table.set(left_id, right_id, {static_cast<std::uint32_t>(i), find(joined, i, "the result")});
  }
  return std::make_shared<const BpeModel>(std::move(vocabulary), std::move(table), std::move(options));
}

}  // namespace kirchhoff::text
