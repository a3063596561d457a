// Uses the installed library as a stranger would: consumer MODEL_DIR exits 0 if a run gives finite logits.
#include <kirchhoff/kirchhoff.h>

#include <cmath>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const kirchhoff::Model model = kirchhoff::load_model(std::string(argv[1]));
  const kirchhoff::Trace trace = kirchhoff::run(model, kirchhoff::Tokens{1, 2, 3});
  for (const float logit : trace.logits.values())
    if (!std::isfinite(logit)) return 1;
  return trace.logits.dim(-1) == model.config.d_vocab_out ? 0 : 1;
}
