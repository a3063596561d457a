#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "kirchhoff/engine/graph.h"

namespace kirchhoff {

/// A graph with a number for each edge and a choice of them, as the EAP-IG library (hannamw/EAP-IG) writes it to JSON:
///
///   {"cfg": {"n_layers", "n_heads", "parallel_attn_mlp", "d_model"},
///    "nodes": {"input": {"in_graph": true}, "a0.h0": ..., "m0": ..., "logits": ...},
///    "edges": {"input->a0.h0<q>": {"score": -0.0003, "in_graph": false}, "a0.h0->m0": ..., ...}}
///
/// Its "input" is `embed` here, its "a9.h3<q>" is a9.h3.q; keys and values are copied for each query head.
struct ScoredGraph {
  struct ScoredEdge {
    Edge edge;
    double score = 0.0;
    bool in_graph = false;
  };
  Index n_layers = 0, n_heads = 0, d_model = 0;
  bool parallel = false;
  std::vector<Writer> writers_in_graph;
  bool logits_in_graph = false;
  std::vector<ScoredEdge> edges;  ///< in the order of the file

  /// What a Graph needs to know of the network.
  ModelConfig network() const;
};

/// Errors: io; format, naming the file and the node or edge that no such network has.
ScoredGraph read_eap_graph(const std::string& path);
/// The text of such a file. Numbers are written so that reading them gives the same doubles.
std::string eap_graph_json(const ScoredGraph& graph);

}  // namespace kirchhoff
