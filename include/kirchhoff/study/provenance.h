#pragma once
#include <cstdint>  // for uint64_t
#include <string>   // for string
#include <vector>   // for vector

#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/model.h"
#include "kirchhoff/text/tokenizer.h"

namespace kirchhoff {

/// What a result rests on: enough to get it again, and to see that something else was asked.
struct Provenance {
  std::string program;      ///< "kirchhoff 0.1.0"
  std::string model;        ///< as the user named it
  std::string path;         ///< what that resolved to
  std::string format;       ///< "gguf"
  std::string family;       ///< "llama"
  bool packed = false;      ///< weights stayed as the file has them
  std::string fingerprint;  ///< of the weights' files; empty if it was not taken
  std::string tokenizer;    ///< its description; empty if there is none
  std::string prompt;       ///< bytes; empty if ids were given
  Tokens tokens;            ///< as run, BOS included
  std::string bos;          ///< what was decided about BOS, and why: "no BOS (the tokenizer says so)"
  std::string truncated;    ///< "kept the last 1024 of 2000 tokens"; empty if nothing was cut
  std::string arithmetic = "float32";
  std::uint64_t seed = 0;
};

/// The part that the model knows.
Provenance provenance_of(const Model& model);

}  // namespace kirchhoff
