#include "kirchhoff/study/provenance.h"

namespace kirchhoff {

Provenance provenance_of(const Model& model) {
  Provenance provenance;
  provenance.model = model.origin.argument;
  provenance.path = model.origin.path;
  provenance.format = model.origin.format;
  provenance.family = model.config.family;
  provenance.packed = model.origin.packed;
  return provenance;
}

}  // namespace kirchhoff
