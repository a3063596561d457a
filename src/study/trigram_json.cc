#include "kirchhoff/study/trigram_json.h"

namespace kirchhoff {
namespace {

Json token_of(Index token, const TokenNames& names) { return to_json(static_cast<TokenId>(token), names); }

Json tokens_of(const std::vector<Index>& tokens, const TokenNames& names) {
  Json list = Json::array();
  for (const Index token : tokens) list.push_back(token_of(token, names));
  return list;
}

}  // namespace

void add_json(Json& list, const std::string& head, const SourceTrigrams& source, const TokenLikeness* likeness,
              const TokenNames& names) {
  const auto add = [&](const std::vector<TrigramToken>& tokens, const char* side, const auto& likeness_of) {
    Index place = 0;
    for (const TrigramToken& entry : tokens)
      list.push_back({{"head", head},
                      {"source", token_of(source.source, names)},
                      {"side", side},
                      {"place", ++place},
                      {"token", token_of(entry.token, names)},
                      {"value", entry.value},
                      {"deviation", entry.deviation},
                      {"likeness", likeness_of(entry)},
                      {"strength", source.strength}});
  };
  add(source.destinations, "destination", [](const TrigramToken&) { return Json(nullptr); });
  add(source.outs, "out", [&](const TrigramToken& out) {
    return likeness == nullptr ? Json(nullptr) : Json(name(likeness->of(source.source, out.token)));
  });
}

Json to_json(const std::string& head, const TrigramBug& bug, const TokenNames& names) {
  return {{"head", head},
          {"source", token_of(bug.source, names)},
          {"destinations", tokens_of({bug.destination[0].token, bug.destination[1].token}, names)},
          {"outs", tokens_of({bug.out[0].token, bug.out[1].token}, names)},
          {"attention", {bug.destination[0].value, bug.destination[1].value}},
          {"output", {bug.out[0].value, bug.out[1].value}},
          {"strength", bug.strength},
          {"contrast", bug.contrast}};
}

Json to_json(const CopyingCounts& counts) {
  return {{"sources", counts.sources}, {"same", counts.same}, {"variant", counts.variant}, {"similar", counts.similar}};
}

Json to_json(const std::string& head, const SplitCopy& copy, const TokenNames& names) {
  return {{"head", head},
          {"source", token_of(copy.token.whole, names)},
          {"destination", token_of(copy.token.first, names)},
          {"out", token_of(copy.token.second, names)},
          {"text", text_json(copy.token.text)},
          {"attention", copy.destination.value},
          {"output", copy.out.value},
          {"strength", copy.strength}};
}

Json to_json(const BigramComparison& comparison, const TokenNames& names) {
  Json sources = Json::array();
  for (const BigramSource& source : comparison.sources)
    sources.push_back({{"source", token_of(source.source, names)},
                       {"count", source.count},
                       {"distinct", source.distinct},
                       {"correlation", source.correlation ? Json(*source.correlation) : Json(nullptr)},
                       {"loss", source.loss},
                       {"entropy", source.entropy},
                       {"in_text", tokens_of(source.in_text, names)},
                       {"in_path", tokens_of(source.in_path, names)}});
  return {{"correlation", comparison.correlation},
          {"unigram_correlation", comparison.unigram_correlation},
          {"seen_correlation", comparison.seen_correlation},
          {"seen_unigram_correlation", comparison.seen_unigram_correlation},
          {"loss", comparison.loss},
          {"unigram_loss", comparison.unigram_loss},
          {"entropy", comparison.entropy},
          {"pairs", comparison.pairs},
          {"sources", std::move(sources)}};
}

}  // namespace kirchhoff
