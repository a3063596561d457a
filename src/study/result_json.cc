#include "kirchhoff/study/result_json.h"

#include <fmt/format.h>

#include <cmath>  // for isfinite

namespace kirchhoff {

Json new_result(std::string_view name) { return {{"schema", fmt::format("kirchhoff.{}", name)}, {"version", 1}}; }

std::string TokenNames::bytes(TokenId id) const {
  const text::TokenInfo* info = tokenizer ? tokenizer->find(id) : nullptr;
  return info ? info->bytes : fmt::format("<{}>", id);
}

bool TokenNames::special(TokenId id) const {
  const text::TokenInfo* info = tokenizer ? tokenizer->find(id) : nullptr;
  return info && info->special;
}

Json text_json(std::string_view bytes) {
  return text::valid_utf8_prefix(bytes) == bytes.size() ? Json(std::string(bytes)) : Json(nullptr);
}

std::string hex(std::string_view bytes) {
  std::string digits;
  for (const char c : bytes) digits += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return digits;
}

std::string head_name(Index layer, Index head) { return fmt::format("{}.{}", layer, head); }

Json to_json(TokenId id, const TokenNames& names) {
  if (!names.tokenizer) return {{"id", id}, {"text", nullptr}, {"bytes", nullptr}};
  const std::string bytes = names.bytes(id);
  return {{"id", id}, {"text", text_json(bytes)}, {"bytes", hex(bytes)}};
}

Json to_json(const TokenScore& score, const TokenNames& names) {
  return {{"id", score.id},
          {"text", names.tokenizer ? text_json(names.bytes(score.id)) : Json(nullptr)},
          {"logit", score.logit},
          {"prob", score.probability}};
}

Json to_json(const RankedToken& ranked, const TokenNames& names) {
  Json result = to_json(ranked.score, names);
  result["rank"] = ranked.rank;
  return result;
}

Json to_json(std::span<const TokenScore> scores, const TokenNames& names) {
  Json list = Json::array();
  for (const TokenScore& score : scores) list.push_back(to_json(score, names));
  return list;
}

Json to_json(const Attribution& attribution, const TokenNames& names) {
  const LogitTarget& target = attribution.target;
  Json parts = Json::array();
  for (const AttributionPart& part : attribution.parts) parts.push_back({{"node", part.node}, {"value", part.value}});
  Json result = {{"metric", attribution.own},
                 {"metric_name", metric_name(target)},
                 {"sum", attribution.sum},
                 {"closure", attribution.closure},
                 {"target", to_json(target.token, names)},
                 {"foil", target.foil ? to_json(*target.foil, names) : Json(nullptr)},
                 {"pos", target.pos},
                 {"final_scale", attribution.final_scale}};
  if (attribution.soft_capped) result["metric_after_softcap"] = *attribution.soft_capped;
  result["totals"] = {{"embed", attribution.total(PartKind::embed)},
                      {"pos", attribution.total(PartKind::pos)},
                      {"heads", attribution.total(PartKind::head)},
                      {"mlps", attribution.total(PartKind::mlp)},
                      {"biases", attribution.total(PartKind::bias)}};
  result["parts"] = std::move(parts);
  return result;
}

Json to_json(std::span<const LensRow> rows, const TokenNames& names) {
  Json list = Json::array();
  for (const LensRow& row : rows) {
    Json tokens = Json::array();
    for (const RankedToken& token : row.tokens) tokens.push_back(to_json(token, names));
    list.push_back({{"label", row.label},
                    {"top", to_json(row.top, names)},
                    {"tokens", std::move(tokens)},
                    {"entropy", row.entropy}});
  }
  return list;
}

Json to_json(const HeadRead& read) {
  Json sources = Json::array();
  for (const SourceRead& source : read.sources) {
    sources.push_back({{"pos", source.pos},
                       {"attention", source.attention},
                       {"value_weighted", source.value_weighted},
                       {"output_weighted", source.output_weighted}});
    // What a window hides has no score.
    if (source.score) sources.back()["score"] = std::isfinite(*source.score) ? Json(*source.score) : Json();
  }
  return {{"head", head_name(read.layer, read.head)},
          {"query", read.query_pos},
          {"entropy", read.entropy},
          {"sources", std::move(sources)}};
}

Json to_json(const HeadHabits& habits) {
  return {{"head", head_name(habits.layer, habits.head)},
          {"entropy", habits.entropy},
          {"previous", habits.previous},
          {"current", habits.current},
          {"first", habits.first},
          {"induction", habits.induction < 0.0 ? Json(nullptr) : Json(habits.induction)}};
}

Json to_json(const Provenance& provenance, const TokenNames& names) {
  Json tokens = Json::array();
  for (const TokenId id : provenance.tokens) tokens.push_back(to_json(id, names));
  const auto or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  return {{"program", provenance.program},
          {"model", provenance.model},
          {"path", provenance.path},
          {"format", provenance.format},
          {"family", provenance.family},
          {"weights", provenance.packed ? "packed" : "float32"},
          {"fingerprint", or_null(provenance.fingerprint)},
          {"tokenizer", or_null(provenance.tokenizer)},
          {"prompt", provenance.prompt.empty() ? Json(nullptr) : text_json(provenance.prompt)},
          {"tokens", std::move(tokens)},
          {"bos", provenance.bos},
          {"truncated", or_null(provenance.truncated)},
          {"arithmetic", provenance.arithmetic},
          {"seed", provenance.seed}};
}

}  // namespace kirchhoff
