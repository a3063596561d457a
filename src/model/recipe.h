#pragma once
#include <string>       // for string
#include <string_view>  // for string_view
#include <vector>       // for vector

#include "kirchhoff/model/config.h"

namespace kirchhoff {

/// One canonical weight and where it is found.
struct TensorRule {
  std::string slot;    ///< canonical name: "W_Q", "ln1.w", "W_E" (model/slots.h)
  std::string tensor;  ///< name in the file; {L} is the layer, {P} the recipe's prefix
  std::string axes;    ///< how it lies (model/axes.h); empty: as the slot wants it
  double plus = 0.0;   ///< added to every value of a vector, in double: Gemma's norms store w and mean 1 + w
  Index layer = -1;    ///< only this layer; -1: every layer
};

/// What a family makes of a config: the facts about the network and the table of its tensors.
struct Recipe {
  ModelConfig config;
  std::vector<TensorRule> rules;
  bool tied = false;      ///< W_U is W_E
  std::string tied_head;  ///< a tensor that may exist then, if it repeats W_E

  /// Candidates for {P} in tensor names; the first that gives an existing W_E tensor is taken.
  std::vector<std::string> prefixes = {""};
  /// Names of tensors that carry nothing ('*' stands for anything): causal masks, rotary tables that are recomputed.
  std::vector<std::string> ignorable;
  /// Tensors that may exist if all their values are zero, because the engine has no such term.
  std::vector<std::string> zero;
  std::vector<std::string> folded;  ///< for people: what loading undoes

  /// Appends a rule.
  void add(std::string slot, std::string tensor, std::string axes = {});
  /// W_<name> from "<module>.weight" and, if `bias`, b_<name> from "<module>.bias".
  void linear(const std::string& name, const std::string& module, bool bias, const std::string& axes = {});
  /// The same for tensors whose bias lies like the rows of the weight: `rows` for both, "m" for the weight's columns.
  void fused(const std::string& name, const std::string& module, bool bias, const std::string& rows,
             const std::string& target_rows = {});
  /// <slot>.w and, if `bias`, <slot>.b.
  void norm(const std::string& slot, const std::string& module, bool bias, double plus = 0.0);
};

/// "h.{L}.attn" with the layer and the prefix put in.
std::string tensor_name(std::string name, const std::string& prefix, Index layer);

/// True if `name` matches `pattern`, in which '*' stands for any run of characters.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace kirchhoff
