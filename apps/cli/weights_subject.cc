#include "weights_subject.h"

#include "attribution_view.h"
#include "subject.h"
#include "version.h"

namespace kirchhoff::cli {

std::string WeightsSubject::shown(TokenId id) const { return text::visible(names().bytes(id)); }

Json new_result(std::string_view name, const Session& session, const WeightsSubject& subject) {
  Provenance provenance = provenance_of(subject.model);
  provenance.program = version_line();
  provenance.fingerprint = io::fingerprint(subject.opened.files);
  provenance.tokenizer = subject.opened.tokenizer ? subject.opened.tokenizer->description() : "";
  provenance.seed = session.seed;
  Json result = kirchhoff::new_result(name);
  result["provenance"] = to_json(provenance, subject.names());
  return result;
}

std::string model_line(const Session& session, const WeightsSubject& subject) {
  return header_line(session, "model", model_text(subject.opened, subject.model));
}

std::string notes_lines(const Session& session, const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& sentence : notes) text += note(session.out, sentence);
  return text;
}

}  // namespace kirchhoff::cli
