#include "induction_view.h"

#include "kirchhoff/study/result_json.h"
#include "text_width.h"

namespace kirchhoff::cli {
namespace {

class InductionText {
 public:
  InductionText(const Session& session, const Subject& subject, const InductionStory& story)
      : session_(session), subject_(subject), story_(story) {}

  std::string all() const {
    std::string text = fmt::format("\n{}  {}\n", session_.out.paint(Style::title, "Induction"), beginning());
    for (const InductionHead& head : story_.heads) text += of(head);
    return text;
  }

 private:
  std::string beginning() const {
    const std::string shown = story_.heads.size() < static_cast<std::size_t>(story_.matching)
                                  ? fmt::format(" (of {} with this pattern)", story_.matching)
                                  : "";
    return fmt::format("{} stood before at {}: heads that go on as it went on there{}", query(),
                       fmt::join(story_.copies, ", "), shown);
  }
  std::string query() const { return subject_.shown_at(story_.query_pos); }
  std::string token_at(Index pos) const { return subject_.shown(subject_.prompt.ids[static_cast<std::size_t>(pos)]); }

  std::string of(const InductionHead& head) const {
    std::string text = line(2, pattern(head), Evidence::observational);
    if (head.key) text += line(4, key(head, *head.key), Evidence::attributional);
    if (head.copying) text += line(4, copying(head, *head.copying), Evidence::attributional);
    if (head.cost) text += line(4, cost(head, *head.cost), Evidence::causal);
    for (const UntoldClause& clause : head.untold)
      text += session_.out.paint(Style::faint, indented(4, fmt::format("no {} clause: {}", clause.clause, clause.why)));
    return text;
  }

  std::string pattern(const InductionHead& head) const {
    const bool several = story_.copies.size() > 1;
    const std::string among =
        several ? fmt::format(", and {:.2f} to what followed all {} copies", head.attention, story_.copies.size()) : "";
    return fmt::format(
        "head {} attends from {} to {}, the token after {} earlier {}: {:.2f}{}; with other tokens in the "
        "place of the {} at most {:.2f}",
        head_name(head.layer, head.head), query(), subject_.shown_at(head.key_pos), several ? "an" : "the",
        token_at(story_.query_pos), head.key_attention, among, several ? "copies" : "copy", head.null.high);
  }
  std::string key(const InductionHead& head, const InductionKey& key) const {
    const std::optional<Score>& previous = key.previous_token;
    const std::string role = previous && previous->value >= kRoleScore && previous->value > previous->null.high
                                 ? fmt::format(", a previous-token head ({:.2f} over this prompt, chance {:.2f})",
                                               previous->value, previous->null.mean)
                                 : "";
    return fmt::format(
        "its key there is written by head {}{}, which reads {} with {:.2f}: {:.0f} % of the score's lead of "
        "{:.2f} over {} other keys, through K-composition; heads that read elsewhere at most {:.0f} %",
        head_name(key.layer, key.head), role, subject_.shown_at(head.key_pos - 1), key.attention, 100.0 * key.share,
        key.lead, key.others, 100.0 * key.null.high);
  }
  std::string copying(const InductionHead& head, const InductionCopying& copying) const {
    return fmt::format(
        "its OV copies: {:+.2f} on the logit of {}, rank {} of {}; on other tokens of the prompt at most "
        "{:+.2f}",
        copying.value, token_at(head.key_pos), copying.rank, subject_.model.config.d_vocab_out, copying.null.high);
  }
  std::string cost(const InductionHead& head, const InductionCost& cost) const {
    return fmt::format("ablating it costs {:.2f} logits of {}, {:.2f} nats; other heads of its layer at most {:.2f}",
                       cost.logit, token_at(head.key_pos), cost.nats, cost.null.high);
  }

  std::string line(Index indent, const std::string& text, Evidence evidence) const {
    return indented(indent, fmt::format("{} [{}]", text, name(evidence)));
  }
  std::string indented(Index indent, const std::string& text) const {
    const std::string spaces(static_cast<std::size_t>(indent), ' ');
    return fmt::format("{}{}\n", spaces, wrapped(text, session_.out.columns() - indent - 2, spaces + "  "));
  }

  const Session& session_;
  const Subject& subject_;
  const InductionStory& story_;
};

}  // namespace

std::string induction_section(const Session& session, const Subject& subject, const InductionFinding& finding) {
  return finding.story ? InductionText(session, subject, *finding.story).all() : std::string();
}

}  // namespace kirchhoff::cli
