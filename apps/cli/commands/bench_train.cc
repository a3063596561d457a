// kirchhoff bench train: a step of training against the machine's own matrix products.
#include <memory>  // for make_shared

#include "commands.h"
#include "json_option.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/base/parallel.h"
#include "kirchhoff/tensor/tensor.h"
#include "kirchhoff/train/bench.h"
#include "progress_printer.h"
#include "units.h"

namespace kirchhoff::cli {
namespace {

struct TrainBenchCommand {
  train::TrainBenchOptions bench;
  JsonOption json;
};

int train_bench_command(Session& session, const TrainBenchCommand& options) {
  const train::TrainBenchOptions& shape = options.bench;
  check(shape.d_model > 0 && shape.vocabulary > 1, ErrorCode::usage,
        "option '--d-model' must be 1 or more, '--vocabulary' 2 or more");
  keep_freed_memory();
  train::TrainBench bench;
  {
    ProgressPrinter printer(session.err, session.quiet);
    train::TrainBenchOptions bench_options = shape;
    bench_options.progress = printer.callback();
    bench = train::bench_train(bench_options);
  }
  if (options.json.wanted()) {
    Json result = new_result("bench.train");
    result["layers"] = shape.layers;
    result["d_model"] = shape.d_model;
    result["heads"] = shape.heads;
    result["context"] = shape.context;
    result["vocabulary"] = shape.vocabulary;
    result["batch"] = shape.batch;
    result["threads"] = thread_count();
    result["repeats"] = shape.repeats;
    result["parameters"] = bench.parameters;
    result["seconds"] = bench.seconds;
    result["lowest_seconds"] = bench.lowest_seconds;
    result["highest_seconds"] = bench.highest_seconds;
    result["tokens_per_s"] = bench.tokens_per_s;
    result["flops"] = bench.flops;
    result["gflops"] = bench.gflops;
    result["gemm_gflops"] = bench.gemm_gflops;
    result["ratio"] = bench.ratio;
    result["peak_mib"] = bench.peak_mib;
    options.json.print(session, result);
    return 0;
  }
  session.out.write(fmt::format(
      "training of {} layers of {} heads, d_model {}, vocabulary {}, {} x {} tokens, {} threads: {:.0f} tokens/s\n"
      "  {:.1f} GFLOP/s of what a step needs ({:.0f} GFLOP), {} of the {:.1f} that one matrix product reaches\n"
      "  {:.3f} s a step, the median of {} ({:.3f} to {:.3f}); {} parameters, peak {:.0f} MiB\n",
      shape.layers, shape.heads, shape.d_model, shape.vocabulary, shape.batch, shape.context, thread_count(),
      bench.tokens_per_s, bench.gflops, 1e-9 * bench.flops,
      session.out.paint(Style::strong, fmt::format("{:.1f} %", 100.0 * bench.ratio)), bench.gemm_gflops, bench.seconds,
      shape.repeats, bench.lowest_seconds, bench.highest_seconds, readable_count(bench.parameters), bench.peak_mib));
  return 0;
}

}  // namespace

void add_bench_train(Command& bench, Session& session) {
  Command& command = bench.add_command("train", "a step of training of an attention-only transformer, AdamW included");
  auto options = std::make_shared<TrainBenchCommand>();
  command.option("--layers", "N", options->bench.layers, "default 2");
  command.option("--d-model", "N", options->bench.d_model, "default 512");
  command.option("--heads", "N", options->bench.heads, "of a layer (default 8)");
  command.option("--context", "N", options->bench.context, "tokens of a sequence (default 256)");
  command.option("--vocabulary", "N", options->bench.vocabulary, "default 8192");
  command.option("--batch", "N", options->bench.batch, "sequences of a step (default 16)");
  command.option("--repeats", "N", options->bench.repeats, "steps that are timed (default 9)");
  options->json.declare(command);
  command.on_run([&session, options] { return train_bench_command(session, *options); });
}

}  // namespace kirchhoff::cli
