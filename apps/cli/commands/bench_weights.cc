// kirchhoff bench weights: how fast circuits are read from weights.
#include <memory>  // for make_shared

#include "commands.h"
#include "json_option.h"
#include "kirchhoff/base/parallel.h"
#include "kirchhoff/model/random_model.h"
#include "kirchhoff/weights/bench.h"
#include "progress_printer.h"
#include "table.h"

namespace kirchhoff::cli {
namespace {

struct WeightsBenchCommand {
  std::string shape = "gpt2-small";
  WeightsBenchOptions bench;
  JsonOption json;
};

int weights_bench_command(Session& session, const WeightsBenchCommand& options) {
  const Model model = random_model(shape_of(options.shape), session.seed);
  std::vector<WeightsBench> benches;
  {
    ProgressPrinter printer(session.err, session.quiet);
    WeightsBenchOptions bench_options = options.bench;
    bench_options.progress = printer.callback();
    benches = bench_weights(model, bench_options);
  }
  if (options.json.wanted()) {
    Json result = new_result("bench.weights");
    result["shape"] = options.shape;
    result["threads"] = thread_count();
    result["repeats"] = options.bench.repeats;
    result["analyses"] = Json::array();
    for (const WeightsBench& bench : benches)
      result["analyses"].push_back(
          {{"name", bench.name},
           {"count", bench.count},
           {"seconds", bench.seconds},
           {"extra_mib", bench.extra_mib},
           {"gemm_seconds", bench.gemm_seconds > 0.0 ? Json(bench.gemm_seconds) : Json(nullptr)}});
    options.json.print(session, result);
    return 0;
  }
  session.out.write(
      fmt::format("{}, {} threads, medians of {} runs\n", options.shape, thread_count(), options.bench.repeats));
  Table table({{"analysis"}, {"of", true}, {"seconds", true}, {"extra MiB", true}, {"of the GEMM rate", true}});
  for (const WeightsBench& bench : benches)
    table.add({bench.name, std::to_string(bench.count), fmt::format("{:.4f}", bench.seconds),
               fmt::format("{:.0f}", bench.extra_mib),
               bench.gemm_seconds > 0.0 ? fmt::format("{:.2f}", bench.gemm_seconds / bench.seconds) : ""});
  session.out.write(table.render(session.out));
  return 0;
}

}  // namespace

void add_bench_weights(Command& bench, Session& session) {
  Command& command = bench.add_command("weights", "circuits of a random model: eigenvalues, composition, top entries");
  auto options = std::make_shared<WeightsBenchCommand>();
  command.option("--shape", "NAME", options->shape, "default gpt2-small", shape_names());
  command.option("--rows", "N", options->bench.rows, "rows whose largest entries are found (default 2048)");
  command.option("--repeats", "N", options->bench.repeats, "measurements (default 5)");
  options->json.declare(command);
  command.on_run([&session, options] { return weights_bench_command(session, *options); });
}

}  // namespace kirchhoff::cli
