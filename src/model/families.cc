#include "model/families.h"

#include <algorithm>  // for find

namespace kirchhoff {
namespace {

bool contains(const std::vector<std::string>& list, std::string_view value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> all = {gpt2_family(),     gpt_neo_family(), gptj_family(),       gpt_neox_family(),
                                          opt_family(),      bloom_family(),   falcon_family(),     llama_family(),
                                          mistral_family(),  qwen2_family(),   qwen3_family(),      gemma_family(),
                                          gemma2_family(),   gemma3_family(),  phi_family(),        phi3_family(),
                                          stablelm_family(), olmo2_family(),   starcoder2_family(), mpt_family()};
  return all;
}

const Family& family_of_model_type(ConfigReader& config) {
  const std::string type = config.text("model_type");
  std::vector<std::string> known;
  for (const Family& family : families()) {
    if (contains(family.model_types, type)) {
      if (config.has("architectures"))
        for (const std::string& architecture : config.texts("architectures"))
          if (!contains(family.architectures, architecture))
            config.bad_value("architectures",
                             fmt::format("one of {} for model_type '{}'", fmt::join(family.architectures, ", "), type),
                             ErrorCode::unsupported);
      return family;
    }
    known.insert(known.end(), family.model_types.begin(), family.model_types.end());
  }
  config.bad_value("model_type", fmt::format("one of {}", fmt::join(known, ", ")), ErrorCode::unsupported);
}

const Family& family_of_gguf(const std::string& architecture, const std::string& file) {
  std::vector<std::string> known;
  for (const Family& family : families()) {
    if (contains(family.gguf_architectures, architecture)) return family;
    known.insert(known.end(), family.gguf_architectures.begin(), family.gguf_architectures.end());
  }
  fail(ErrorCode::unsupported, "'{}': key 'general.architecture' is \"{}\", expected one of {}", file, architecture,
       fmt::join(known, ", "));
}

}  // namespace kirchhoff
