#include "train/text_data.h"

#include "kirchhoff/base/error.h"
namespace kirchhoff::train {
DataFiles prepare_text(const TrainingConfig&, const std::vector<std::string>&, const std::string&, const Progress&) {
  fail(ErrorCode::unsupported, "text");
}
TrainingData open_text(const TrainingConfig&, const std::string&) { fail(ErrorCode::unsupported, "text"); }
}  // namespace kirchhoff::train
