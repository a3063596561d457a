#include "kirchhoff/engine/signature.h"

#include <fmt/format.h>

#include <algorithm>  // for minmax_element
#include <cmath>      // for abs, floor, round

#include "kirchhoff/base/random.h"
#include "kirchhoff/engine/run.h"
#include "kirchhoff/model/random_model.h"

namespace kirchhoff {
namespace {

constexpr double kCells = 1000.0;  // of a row's range: 1e-3, where float32 errs by about 1e-6
constexpr double kMargin = 0.1;    // of a cell: nearer to a border a logit does not count

/// FNV-1a, 64 bits.
class Hash {
 public:
  void add(std::string_view bytes) {
    for (const char c : bytes) add_byte(static_cast<unsigned char>(c));
  }
  void add(std::int64_t value) {  // little-endian whatever the machine
    for (int shift = 0; shift < 64; shift += 8) add_byte(static_cast<unsigned char>(value >> shift));
  }
  std::uint64_t value() const { return state_; }

 private:
  void add_byte(unsigned char byte) { state_ = (state_ ^ byte) * 0x100000001b3U; }
  std::uint64_t state_ = 0xcbf29ce484222325U;
};

std::vector<Tokens> fixed_batch(Index d_vocab, std::uint64_t seed) {
  Random random(seed);
  std::vector<Tokens> batch;
  for (const Index length : {1, 7, 19}) {
    Tokens& tokens = batch.emplace_back();
    for (Index i = 0; i < length; ++i) tokens.push_back(static_cast<TokenId>(random.below(d_vocab)));
  }
  return batch;
}

/// Hashes one position's logits; returns how many of them count.
Index add_row(Hash& hash, std::span<const float> logits, std::span<const double> exact) {
  const auto [least, most] = std::minmax_element(exact.begin(), exact.end());
  const double cell = (*most - *least) / kCells;
  Index counted = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double position = (exact[i] - *least) / cell + 0.5;
    if (std::abs(position - std::round(position)) < kMargin) continue;  // cells meet at whole numbers
    hash.add(static_cast<std::int64_t>(std::floor((static_cast<double>(logits[i]) - *least) / cell + 0.5)));
    ++counted;
  }
  return counted;
}

}  // namespace

Signature engine_signature(const Progress& progress) {
  const std::vector<NamedShape> shapes = capability_shapes();
  Hash hash;
  Signature result;
  for (const NamedShape& shape : shapes) {
    report(progress, "signature", result.models, static_cast<Index>(shapes.size()));
    const auto seed = static_cast<std::uint64_t>(++result.models);
    const Model model = random_model(shape.config, seed);
    const std::vector<Tokens> batch = fixed_batch(shape.config.d_vocab, seed);
    const Trace trace = run(model, batch);
    const TraceF64 exact = run_f64(model, batch);
    hash.add(shape.name);
    for (Index sequence = 0; sequence < static_cast<Index>(batch.size()); ++sequence) {
      const auto logits = trace.logits_of(sequence);
      const auto exact_logits = exact.logits_of(sequence);
      for (Index row = 0; row < logits.dim[0]; ++row)
        result.values += add_row(hash, logits.row(row), exact_logits.row(row));
    }
  }
  result.hash = fmt::format("{:016x}", hash.value());
  return result;
}

}  // namespace kirchhoff
