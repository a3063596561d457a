#include "kirchhoff/weights/head_chain.h"

namespace kirchhoff {
namespace {

template <class NameOf>
std::string chain_text(const HeadChain& chain, const NameOf& name_of) {
  std::string text;
  for (auto head = chain.heads.rbegin(); head != chain.heads.rend(); ++head) {
    if (!text.empty()) text += '*';
    text += name_of(head->first, head->second);
  }
  return text;
}

}  // namespace

std::string name(const HeadChain& chain) {
  return chain_text(chain, [](Index layer, Index head) { return fmt::format("{}.{}", layer, head); });
}

std::string node(const HeadChain& chain) {
  return chain_text(chain, [](Index layer, Index head) { return fmt::format("a{}.h{}", layer, head); });
}

HeadMatrices head_matrices(const Model& model, const HeadChain& chain, const HeadForm& form) {
  check(!chain.heads.empty(), ErrorCode::usage, "a chain of no heads");
  for (std::size_t i = 1; i < chain.heads.size(); ++i)
    check(chain.heads[i - 1].first < chain.heads[i].first, ErrorCode::usage,
          "virtual head {}: layers fall from left to right, as the last to act stands first", name(chain));
  HeadMatrices result = head_matrices(model, chain.heads.back().first, chain.heads.back().second, form);
  for (std::size_t i = chain.heads.size() - 1; i-- > 0;) {
    const auto [layer, head] = chain.heads[i];
    const HeadMatrices writer = head_matrices(model, layer, head, {.raw = form.raw, .offset = 0});
    result = virtual_head(keys_through(result, writer), writer);
  }
  return result;
}

}  // namespace kirchhoff
