#pragma once
#include <string>  // for string
#include <vector>  // for vector

#include "opened_model.h"
#include "session.h"

namespace kirchhoff::cli {

/// A model that is looked at without a prompt.
struct WeightsSubject {
  OpenedModel opened;
  Model model;

  TokenNames names() const { return opened.names(); }
  /// A token as tables show it.
  std::string shown(TokenId id) const;
};

/// {"schema", "version", "provenance"}: without tokens, and with a prompt of null.
Json new_result(std::string_view name, const Session& session, const WeightsSubject& subject);

/// The line above every such analysis.
std::string model_line(const Session& session, const WeightsSubject& subject);

/// The notes of a result, a faint line each.
std::string notes_lines(const Session& session, const std::vector<std::string>& notes);

}  // namespace kirchhoff::cli
