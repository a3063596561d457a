#include "model/slots.h"

namespace kirchhoff {
namespace {

LayerWeights& at(Weights& weights, Index layer) { return weights.layers[static_cast<std::size_t>(layer)]; }

using W = Weights&;
using L = Index;
using Matrix_ = WeightMatrix*;
using Vector_ = WeightVector*;

const Slot kSlots[] = {
    {"W_E", "v m", false, [](W w, L) -> Matrix_ { return &w.W_E; }, nullptr},
    {"W_pos", "p m", false, [](W w, L) -> Matrix_ { return &w.W_pos; }, nullptr},
    {"W_U", "u m", false, [](W w, L) -> Matrix_ { return &w.W_U; }, nullptr},
    {"b_U", "u", false, nullptr, [](W w, L) -> Vector_ { return &w.b_U; }},
    {"ln_embed.w", "m", false, nullptr, [](W w, L) -> Vector_ { return &w.ln_embed.w; }},
    {"ln_embed.b", "m", false, nullptr, [](W w, L) -> Vector_ { return &w.ln_embed.b; }},
    {"ln_final.w", "m", false, nullptr, [](W w, L) -> Vector_ { return &w.ln_final.w; }},
    {"ln_final.b", "m", false, nullptr, [](W w, L) -> Vector_ { return &w.ln_final.b; }},
    {"ln1.w", "m", true, nullptr, [](W w, L l) -> Vector_ { return &at(w, l).ln1.w; }},
    {"ln1.b", "m", true, nullptr, [](W w, L l) -> Vector_ { return &at(w, l).ln1.b; }},
    {"ln2.w", "m", true, nullptr, [](W w, L l) -> Vector_ { return &at(w, l).ln2.w; }},
    {"ln2.b", "m", true, nullptr, [](W w, L l) -> Vector_ { return &at(w, l).ln2.b; }},
    {"ln1_post.w", "m", true, nullptr, [](W w, L l) -> Vector_ { return &at(w, l).ln1_post.w; }},
    {"ln1_post.b", "m", true, nullptr, [](W w, L l) -> Vector_ { return &at(w, l).ln1_post.b; }},
    {"ln2_post.w", "m", true, nullptr, [](W w, L l) -> Vector_ { return &at(w, l).ln2_post.w; }},
    {"ln2_post.b", "m", true, nullptr, [](W w, L l) -> Vector_ { return &at(w, l).ln2_post.b; }},
    {"W_Q", "(h d) m", true, [](W w, L l) -> Matrix_ { return &at(w, l).W_Q; }, nullptr},
    {"W_K", "(g d) m", true, [](W w, L l) -> Matrix_ { return &at(w, l).W_K; }, nullptr},
    {"W_V", "(g d) m", true, [](W w, L l) -> Matrix_ { return &at(w, l).W_V; }, nullptr},
    {"W_O", "m (h d)", true, [](W w, L l) -> Matrix_ { return &at(w, l).W_O; }, nullptr},
    {"b_Q", "(h d)", true, nullptr, [](W w, L l) -> Vector_ { return &at(w, l).b_Q; }},
    {"b_K", "(g d)", true, nullptr, [](W w, L l) -> Vector_ { return &at(w, l).b_K; }},
    {"b_V", "(g d)", true, nullptr, [](W w, L l) -> Vector_ { return &at(w, l).b_V; }},
    {"b_O", "m", true, nullptr, [](W w, L l) -> Vector_ { return &at(w, l).b_O; }},
    {"q_norm", "(h d)", true, nullptr, [](W w, L l) -> Vector_ { return &at(w, l).q_norm; }},
    {"k_norm", "(g d)", true, nullptr, [](W w, L l) -> Vector_ { return &at(w, l).k_norm; }},
    {"smear", "g", true, nullptr, [](W w, L l) -> Vector_ { return &at(w, l).smear; }},
    {"W_in", "f m", true, [](W w, L l) -> Matrix_ { return &at(w, l).W_in; }, nullptr},
    {"W_gate", "f m", true, [](W w, L l) -> Matrix_ { return &at(w, l).W_gate; }, nullptr},
    {"W_out", "m f", true, [](W w, L l) -> Matrix_ { return &at(w, l).W_out; }, nullptr},
    {"b_in", "f", true, nullptr, [](W w, L l) -> Vector_ { return &at(w, l).b_in; }},
    {"b_gate", "f", true, nullptr, [](W w, L l) -> Vector_ { return &at(w, l).b_gate; }},
    {"b_out", "m", true, nullptr, [](W w, L l) -> Vector_ { return &at(w, l).b_out; }},
    {"mlp_ln.w", "f", true, nullptr, [](W w, L l) -> Vector_ { return &at(w, l).mlp_ln_w; }},
    {"mlp_ln.b", "f", true, nullptr, [](W w, L l) -> Vector_ { return &at(w, l).mlp_ln_b; }},
};

void need(bool present, bool wanted, std::string_view what, std::string_view where) {
  check(present || !wanted, ErrorCode::format, "the model has no {}{}, which its config needs", what, where);
}

}  // namespace

Slot find_slot(std::string_view name, QkNorm qk_norm) {
  for (Slot slot : kSlots) {
    if (slot.name != name) continue;
    if (qk_norm == QkNorm::per_head && (name == "q_norm" || name == "k_norm")) slot.axes = "d";
    return slot;
  }
  fail(ErrorCode::internal, "no weight is called '{}'", name);
}

void check_complete(const Model& model) {
  const ModelConfig& c = model.config;
  const Weights& w = model.weights;
  need(w.W_E.present(), true, "W_E", "");
  need(w.W_U.present(), true, "W_U", "");
  need(w.W_pos.present(), c.positions == Positions::learned || c.positions == Positions::shortformer, "W_pos", "");
  for (Index l = 0; l < c.n_layers; ++l) {
    const LayerWeights& layer = w.layers[static_cast<std::size_t>(l)];
    const std::string where = fmt::format(" in layer {}", l);
    need(layer.W_Q.present(), true, "W_Q", where);
    need(layer.W_K.present(), true, "W_K", where);
    need(layer.W_V.present(), true, "W_V", where);
    need(layer.W_O.present(), true, "W_O", where);
    need(layer.W_in.present(), !c.attn_only, "W_in", where);
    need(layer.W_out.present(), !c.attn_only, "W_out", where);
    need(layer.W_gate.present(), !c.attn_only && c.gated_mlp, "W_gate", where);
    need(layer.q_norm.present() && layer.k_norm.present(), c.qk_norm != QkNorm::none, "q_norm and k_norm", where);
    need(layer.smear.present(), c.smeared_keys, "smear", where);
  }
}

}  // namespace kirchhoff
