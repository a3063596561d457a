#pragma once
#include <string>       // for string
#include <string_view>  // for string_view

namespace kirchhoff::io {

/// "openai-community/gpt2", "gpt2", either with "@revision": whether it can be the name of a model on the Hub.
bool is_hub_name(std::string_view name);

/// The snapshot's directory in the Hub cache (HF_HUB_CACHE, else HF_HOME/hub, else $XDG_CACHE_HOME or ~/.cache,
/// huggingface/hub). Without a revision: main, or the only snapshot there is. Error{not_found} whose help is the
/// command that downloads it.
std::string find_in_hub_cache(std::string_view name);

}  // namespace kirchhoff::io
