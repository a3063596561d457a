#pragma once
#include <optional>  // for optional
#include <string>    // for string
#include <utility>   // for pair
#include <vector>    // for vector

#include "command_line.h"
#include "kirchhoff/observe/attribution.h"
#include "kirchhoff/weights/parties.h"
#include "opened_model.h"

namespace kirchhoff::cli {

/// "-1", "3..7", "0,2,-1", "all": positions in [0, length), in the order given. Error{usage} naming what is wrong.
std::vector<Index> parse_positions(const std::string& text, Index length);

/// The same of layers: "8", "3..7", "0,2,-1", "all".
std::vector<Index> parse_layers(const std::string& text, Index n_layers);

/// Error{usage} for a model without layers, which has no heads to look at.
void require_heads(const ModelConfig& config);

/// "9.9", "L5.*", "*.3", lists of these: (layer, head) pairs. Error{usage} naming what is wrong.
std::vector<std::pair<Index, Index>> parse_heads(const std::string& text, Index n_layers, Index n_heads);

/// The same, and virtual heads among them: "1.3*0.2" is 1.3 after 0.2.
std::vector<HeadChain> parse_head_chains(const std::string& text, Index n_layers, Index n_heads);
/// Exactly one of these. Error{usage} naming the option.
HeadChain parse_head_chain(const std::string& text, const ModelConfig& config, const char* option);

/// Heads and virtual heads as above, "embed", "pos", "unembed", "m3", "m*": what writes into the stream or reads it.
std::vector<Party> parse_parties(const std::string& text, const ModelConfig& config);

/// Which logit, or which difference of two.
struct TargetOptions {
  std::optional<std::string> target, foil;
  std::optional<Index> target_id, foil_id;

  void declare(Command& command);
  bool given() const { return target || target_id; }
  /// Reads the options. Without a target the token `top` is taken, and a foil alone is an error.
  LogitTarget resolve(const OpenedModel& opened, TokenId top, Index pos) const;
};

/// The one token whose bytes are `text`. Error{usage} listing the pieces if it takes several.
TokenId single_token(const text::Tokenizer& tokenizer, const std::string& text, const std::string& option);

}  // namespace kirchhoff::cli
