#pragma once
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "kirchhoff/io/checkpoint.h"
#include "kirchhoff/model/config_reader.h"
#include "model/recipe.h"

namespace kirchhoff {

/// A family of networks: what its files call themselves, and how a config becomes a recipe. One file each in
/// src/model/families/.
struct Family {
  std::string name;

  std::vector<std::string> model_types = {};    ///< values of config.json's model_type
  std::vector<std::string> architectures = {};  ///< values that its `architectures` may have
  Recipe (*hugging_face)(ConfigReader&) = nullptr;

  std::vector<std::string> gguf_architectures = {};  ///< values of general.architecture
  /// Keys are those of the metadata without the architecture's prefix ("attention.head_count"); the checkpoint tells
  /// what the metadata does not (rows of the embedding, whether there is an output matrix).
  Recipe (*gguf)(ConfigReader&, const io::Checkpoint&) = nullptr;
};

/// Every family, in the order of the README.
const std::vector<Family>& families();

/// Error{unsupported} naming the value and listing what is supported.
const Family& family_of_model_type(ConfigReader& config);
const Family& family_of_gguf(const std::string& architecture, const std::string& file);

/// TransformerLens has one family for everything it holds: the config has the capabilities themselves.
Recipe transformer_lens_recipe(ConfigReader& config);

Family gpt2_family();
Family gpt_neo_family();
Family gptj_family();
Family gpt_neox_family();
Family opt_family();
Family bloom_family();
Family falcon_family();
Family llama_family();
Family mistral_family();
Family qwen2_family();
Family qwen3_family();
Family gemma_family();
Family gemma2_family();
Family gemma3_family();
Family phi_family();
Family phi3_family();
Family stablelm_family();
Family olmo2_family();
Family starcoder2_family();
Family mpt_family();

}  // namespace kirchhoff
