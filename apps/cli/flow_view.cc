#include "flow_view.h"

#include <vector>  // for vector

#include "attribution_view.h"
#include "table.h"
#include "text_width.h"

namespace kirchhoff::cli {
namespace {

constexpr Index kRows = 30;  // of the table

std::string heads_of(const FlowEdge& edge) {
  std::vector<std::string> texts;
  for (const FlowHead& head : edge.heads)
    texts.push_back(fmt::format("{} {:.2f}", head_name(edge.layer, head.head), head.value));
  return fmt::format("{}", fmt::join(texts, "  "));
}

/// The MLPs with a share of the states at the position that is flown into: "m29 0.34  m28 0.08".
std::string mlps_of(const InformationFlow& flow) {
  std::vector<std::string> texts;
  for (const FlowEdge& edge : flow.edges)
    if (edge.kind == FlowKind::mlp && flow.nodes[edge.to].pos == flow.options.pos)
      texts.push_back(fmt::format("m{} {:.2f}", edge.layer, edge.value));
  return texts.empty() ? std::string("none") : fmt::format("{}", fmt::join(texts, "  "));
}

}  // namespace

std::string flow_section(const Session& session, const Subject& subject, const InformationFlow& flow) {
  std::string text = fmt::format("\n{} into {}\n", session.out.paint(Style::title, "Information flow"),
                                 subject.shown_at(flow.options.pos));
  Table table({{"into"}, {"at"}, {"from"}, {"share", true}, {"heads, with a tenth of the share or more"}});
  std::vector<std::string> reached;
  Index rows = 0;
  for (const FlowEdge& edge : flow.edges) {
    const FlowNode &from = flow.nodes[edge.from], &to = flow.nodes[edge.to];
    if (edge.kind != FlowKind::attention || from.pos == to.pos || ++rows > kRows) continue;
    table.add({to.state,
               {subject.shown_at(to.pos), Style::token},
               {subject.shown_at(from.pos), Style::token},
               fmt::format("{:.3f}", edge.value),
               heads_of(edge)});
  }
  for (const FlowNode& node : flow.nodes)
    if (node.level == 0) reached.push_back(subject.shown_at(node.pos));
  text += table.empty() ? "  nothing from another position reaches the threshold\n" : table.render(session.out);
  const auto line = [&](const std::string& sentence) {
    text += fmt::format("  {}\n", wrapped(sentence, session.out.columns() - 4, "    "));
  };
  if (rows > kRows)
    text += fmt::format("  {} more of lower layers: see '--json', or raise '--threshold'\n", rows - kRows);
  text += "\n";
  line(fmt::format("reached: {} states, {} edges; embeddings of {}", flow.nodes.size(), flow.edges.size(),
                   fmt::join(reached, " ")));
  line(fmt::format("MLPs at {}: {}", subject.shown_at(flow.options.pos), mlps_of(flow)));
  text += note(session.out, fmt::format("shares of what a state is made of, followed down from {:.2f} ('--threshold'); "
                                        "closure {:.1e}",
                                        flow.options.threshold, flow.closure));
  text += note(session.out, "how near a part brings the stream to what it is, by |·|₁: no effect on a prediction");
  return text;
}

}  // namespace kirchhoff::cli
