#pragma once
#include <complex>   // for complex
#include <optional>  // for optional
#include <string>    // for string
#include <vector>    // for vector

#include "kirchhoff/study/circuit_json.h"
#include "result_output.h"
#include "weights_subject.h"

namespace kirchhoff::cli {

/// Random heads that positivity is compared with.
constexpr Index kNullSamples = 40;

/// What kirchhoff ov and kirchhoff qk are asked.
struct CircuitCommand {
  ModelOptions model;
  ResultOutput output;
  std::optional<std::string> head, through, token, query, key;
  std::optional<Index> token_id, top;
  Index singular = 0, offset = 0;
  bool diagonal = false, eigen = false, raw = false, full = false;

  Index count() const { return top.value_or(10); }
  /// Nothing in particular was asked for: the largest entries are shown.
  bool extremes(bool token_given) const {
    return !token_given && (top || !(diagonal || eigen || full || singular > 0));
  }
};

/// What a command works on, and where its sections go: to the screen or into one object.
struct CircuitStudy {
  Session& session;
  const CircuitCommand& options;
  WeightsSubject subject;
  CircuitKind kind;
  HeadMatrices head;
  TokenCircuit circuit;
  CircuitOptions circuit_options;
  std::vector<std::string> notes;
  Json result;
  std::vector<std::complex<double>> eigenvalues{}, random_eigenvalues{};  ///< where they were asked for

  bool screen() const { return options.output.screen(); }
  /// What row or column i of the circuit stands for: a token, or a position.
  std::string shown_row(Index i) const { return shown(i, circuit_options.query); }
  std::string shown_column(Index i) const { return shown(i, circuit_options.key); }
  Json row_json(Index i) const { return side_json(i, circuit_options.query); }
  Json column_json(Index i) const { return side_json(i, circuit_options.key); }
  void title(const std::string& text) const {
    session.out.write(fmt::format("\n{}\n", session.out.paint(Style::title, text)));
  }

 private:
  std::string shown(Index i, CircuitInput input) const;
  Json side_json(Index i, CircuitInput input) const;
};

/// "token", "position", or nothing: what a side of a QK circuit stands for. Error{usage} for anything else.
CircuitInput circuit_input(const std::optional<std::string>& text, const char* option);

/// Divided token by token, queries and keys have no spectrum that the vocabulary's Gram knows.
bool divides_by_token(const ModelConfig& config, CircuitKind kind, bool raw);

// The sections of a result, each on the screen or in the object.
void show_token(CircuitStudy& study, TokenId token);
void show_extremes(CircuitStudy& study);
void show_diagonal(CircuitStudy& study);
void show_eigenvalues(CircuitStudy& study);
void show_singular(CircuitStudy& study);
void write_full(CircuitStudy& study);

}  // namespace kirchhoff::cli
