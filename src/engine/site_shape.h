#pragma once
#include "kirchhoff/engine/sites.h"

namespace kirchhoff::engine {

/// How the numbers of a site lie in one sequence: rows (by position, or by query position of a head), each of `heads`
/// times `width` numbers.
struct SiteShape {
  bool by_key = false;  ///< scores and patterns, [head, query, key]: the last axis counts keys
  bool has_heads = false;
  Index heads = 1;
  Index width = 0;  ///< of the last axis; by_key: 0, it depends on the run
};

inline SiteShape shape_of_site(const ModelConfig& c, Site site) {
  SiteShape shape;
  for (const Axis axis : info(site).axes) switch (axis) {
      case Axis::none:
      case Axis::pos:
      case Axis::query_pos:
        break;
      case Axis::key_pos:
        shape.by_key = true;
        break;
      case Axis::head:
      case Axis::kv_head:
        shape.has_heads = true;
        shape.heads = axis == Axis::head ? c.n_heads : c.n_kv_heads;
        break;
      case Axis::one:
        shape.width = 1;
        break;
      case Axis::d_head:
        shape.width = c.d_head;
        break;
      case Axis::d_model:
        shape.width = c.d_model;
        break;
      case Axis::d_mlp:
        shape.width = c.d_mlp;
        break;
      case Axis::d_vocab:
        shape.width = c.d_vocab_out;
        break;
    }
  return shape;
}

}  // namespace kirchhoff::engine
