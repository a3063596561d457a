// Loads a model, runs it on a prompt, prints the most likely next tokens.
//
//   01_run MODEL PROMPT      01_run gemma3.gguf "The capital of France is"
#include <fmt/core.h>

#include "prompt.h"

int main(int argc, char** argv) try {
  if (argc != 3) return fmt::print(stderr, "usage: {} MODEL PROMPT\n", argv[0]), 2;
  const example::Loaded loaded = example::load(argv[1], argv[2]);

  // Logits of the last position alone: the unembedding of a long prompt is a large part of the work.
  const kirchhoff::Trace trace =
      kirchhoff::run(loaded.model, loaded.prompt, {.logits = kirchhoff::LogitPositions::last});

  for (const kirchhoff::TokenScore& next : kirchhoff::top_tokens(trace.logits_of(0).row(0), 5))
    fmt::print("{:<12} logit {:8.4f}  probability {:.4f}\n", example::shown(loaded, next.id), next.logit,
               next.probability);
  return 0;
} catch (const kirchhoff::Error& error) {
  return fmt::print(stderr, "error: {}\n", error.what()), 1;
}
