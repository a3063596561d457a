#pragma once
#include "command_line.h"
#include "session.h"

namespace kirchhoff::cli {

// Each declares one command below `root`: its options and what it does. `session` outlives the tree.
void add_explain(Command& root, Session& session);
void add_model(Command& root, Session& session);
void add_model_export(Command& model, Session& session);
void add_inspect(Command& root, Session& session);
void add_tokens(Command& root, Session& session);
void add_run(Command& root, Session& session);
void add_lens(Command& root, Session& session);
void add_dla(Command& root, Session& session);
void add_attn(Command& root, Session& session);
void add_paths(Command& root, Session& session);
void add_qk_terms(Command& root, Session& session);
void add_heads(Command& root, Session& session);
void add_terms(Command& root, Session& session);
void add_icl(Command& root, Session& session);
void add_ablate(Command& root, Session& session);
void add_curves(Command& root, Session& session);
void add_patch(Command& root, Session& session);
void add_ov(Command& root, Session& session);
void add_qk(Command& root, Session& session);
void add_compose(Command& root, Session& session);
void add_skip_trigrams(Command& root, Session& session);
void add_virtual(Command& root, Session& session);
void add_train(Command& root, Session& session);
void add_reproduce(Command& root, Session& session);
void add_bench(Command& root, Session& session);
void add_bench_train(Command& bench, Session& session);
void add_bench_weights(Command& bench, Session& session);
void add_doctor(Command& root, Session& session);
void add_help(Command& root, Session& session);
void add_completion(Command& root, Session& session);

}  // namespace kirchhoff::cli
