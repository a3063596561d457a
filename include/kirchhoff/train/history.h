#pragma once
#include <optional>  // for optional
#include <string>    // for string
#include <vector>    // for vector

#include "kirchhoff/train/evaluation.h"

// history.jsonl: what was seen of a model while it was trained, one JSON object a line (docs/training.md).

namespace kirchhoff::train {

/// A moment of a training. Nothing in it is a time: the same run gives the same bytes.
struct HistoryRecord {
  Index step = 0;                ///< steps done
  Index tokens = 0;              ///< read in them
  std::optional<double> loss{};  ///< of training, nats per scored token: mean over the steps since the last record
  std::optional<double> learning_rate{}, gradient_norm{};  ///< of the last step
  std::optional<Evaluation> evaluation{};
};

/// One line, with its end. The same bytes for the same numbers: each is the shortest that reads as the same double.
/// Error{numerical} naming the number that is not finite.
std::string history_line(const HistoryRecord& record);
/// Reads it; `place` is for messages: "FILE:3". Error{format}: not one JSON object, a key unknown, missing or of the
/// wrong kind.
HistoryRecord parse_history_line(const std::string& line, const std::string& place);

/// Appends to a file, which is made where there is none. When it returns the line is with the operating system.
/// Error{io}.
void append_history(const std::string& path, const HistoryRecord& record);

struct History {
  std::vector<HistoryRecord> records;  ///< steps ascend
  bool unfinished = false;  ///< the last line has no end: its writer is at it, or was stopped; it is left out
};
/// Errors: not_found, io; format (the line, and what is wrong with it; steps that do not ascend).
History read_history(const std::string& path);

/// Removes the records after `step`, and a line without end: what a run that goes on from `step` writes again. Whole or
/// not at all. A file that does not exist stays so. Errors as read_history.
void truncate_history(const std::string& path, Index step);

}  // namespace kirchhoff::train
