#include "kirchhoff/engine/bench.h"

#include <memory>  // for make_shared

#include "commands.h"
#include "gemm_speed.h"
#include "json_option.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/base/parallel.h"
#include "kirchhoff/engine/signature.h"
#include "kirchhoff/model/random_model.h"
#include "kirchhoff/tensor/tensor.h"
#include "progress_printer.h"

namespace kirchhoff::cli {
namespace {

/// The rate beside that of the matrix products alone, of a ForwardBench or a PatchBench.
template <class Bench>
void add_rates(Json& result, const Bench& bench) {
  result["gemm_gflops"] = bench.gemm_gflops;
  result["gflops"] = bench.gflops;
  result["ratio"] = bench.ratio;
  result["lowest_ratio"] = bench.lowest_ratio;
  result["highest_ratio"] = bench.highest_ratio;
}

struct ForwardCommand {
  std::string shape = "gpt2-small";
  ForwardBenchOptions bench;
  JsonOption json;
};

int forward_command(Session& session, const ForwardCommand& options) {
  check(options.bench.tokens > 0 && options.bench.repeats > 0, ErrorCode::usage,
        "options '--tokens' and '--repeats' must be 1 or more");
  const Model model = random_model(shape_of(options.shape), session.seed);
  ForwardBench bench;
  {
    ProgressPrinter printer(session.err, session.quiet);
    ForwardBenchOptions bench_options = options.bench;
    bench_options.progress = printer.callback();
    bench = bench_forward(model, bench_options);
  }
  if (options.json.wanted()) {
    Json result = new_result("bench.forward");
    result["shape"] = options.shape;
    result["tokens"] = options.bench.tokens;
    result["threads"] = thread_count();
    add_rates(result, bench);
    result["tokens_per_s"] = bench.tokens_per_s;
    result["seconds"] = bench.seconds;
    result["flops"] = bench.flops;
    result["peak_mib"] = bench.peak_mib;
    options.json.print(session, result);
    return 0;
  }
  session.out.write(fmt::format(
      "forward of {}, {} tokens, {} threads: {:.1f} GFLOP/s, {} of the {:.1f} that the matrix products alone reach\n"
      "  {:.0f} tokens/s, {:.4f} s, peak {:.0f} MiB; {} pairs of runs: {:.1f} % to {:.1f} %\n",
      options.shape, options.bench.tokens, thread_count(), bench.gflops,
      session.out.paint(Style::strong, fmt::format("{:.1f} %", 100.0 * bench.ratio)), bench.gemm_gflops,
      bench.tokens_per_s, bench.seconds, bench.peak_mib, options.bench.repeats, 100.0 * bench.lowest_ratio,
      100.0 * bench.highest_ratio));
  return 0;
}

struct PatchBenchCommand {
  std::string shape = "gpt2-small", sites = "head-pos";
  PatchBenchOptions bench;
  JsonOption json;
};

int patch_bench_command(Session& session, const PatchBenchCommand& options) {
  check(options.bench.tokens > 0 && options.bench.batch > 0 && options.bench.repeats > 0, ErrorCode::usage,
        "options '--tokens', '--batch' and '--repeats' must be 1 or more");
  PatchBenchOptions bench_options = options.bench;
  bench_options.sweep = options.sites == "resid"  ? PatchSweep::resid
                        : options.sites == "head" ? PatchSweep::head
                        : options.sites == "edge" ? PatchSweep::edge
                                                  : PatchSweep::head_pos;
  const Model model = random_model(shape_of(options.shape), session.seed, {.tied = true});
  PatchBench bench;
  {
    ProgressPrinter printer(session.err, session.quiet);
    bench_options.progress = printer.callback();
    bench = bench_patch(model, bench_options);
  }
  if (options.json.wanted()) {
    Json result = new_result("bench.patch");
    result["shape"] = options.shape;
    result["sites"] = options.sites;
    result["tokens"] = options.bench.tokens;
    result["batch"] = options.bench.batch;
    result["threads"] = thread_count();
    result["variants"] = bench.variants;
    add_rates(result, bench);
    result["seconds"] = bench.seconds;
    result["base_seconds"] = bench.base_seconds;
    result["flops"] = bench.flops;
    result["peak_mib"] = bench.peak_mib;
    options.json.print(session, result);
    return 0;
  }
  session.out.write(fmt::format(
      "patching {} of {}, {} x {} tokens, {} threads: {} variants in {:.3f} s, {:.2f} ms each\n"
      "  {:.1f} GFLOP/s of what the sweep needs ({:.0f} GFLOP), {} of the {:.1f} that the matrix products alone reach\n"
      "  peak {:.0f} MiB; {} pairs of runs: {:.1f} % to {:.1f} %\n",
      options.sites, options.shape, options.bench.batch, options.bench.tokens, thread_count(), bench.variants,
      bench.seconds, 1e3 * bench.seconds / static_cast<double>(bench.variants), bench.gflops, bench.flops * 1e-9,
      session.out.paint(Style::strong, fmt::format("{:.1f} %", 100.0 * bench.ratio)), bench.gemm_gflops, bench.peak_mib,
      options.bench.repeats, 100.0 * bench.lowest_ratio, 100.0 * bench.highest_ratio));
  return 0;
}

struct BackwardCommand {
  std::string shape = "gpt2-small";
  BackwardBenchOptions bench;
  JsonOption json;
};

int backward_command(Session& session, const BackwardCommand& options) {
  keep_freed_memory();  // as PyTorch does
  check(options.bench.tokens > 1 && options.bench.repeats > 0, ErrorCode::usage,
        "options '--tokens' must be 2 or more and '--repeats' 1 or more");
  const Model model = random_model(shape_of(options.shape), session.seed);
  BackwardBench bench;
  {
    ProgressPrinter printer(session.err, session.quiet);
    BackwardBenchOptions bench_options = options.bench;
    bench_options.progress = printer.callback();
    bench = bench_backward(model, bench_options);
  }
  if (options.json.wanted()) {
    Json result = new_result("bench.backward");
    result["shape"] = options.shape;
    result["tokens"] = options.bench.tokens;
    result["threads"] = thread_count();
    result["weights"] = options.bench.weights;
    result["ratio"] = bench.ratio;
    result["lowest_ratio"] = bench.lowest_ratio;
    result["highest_ratio"] = bench.highest_ratio;
    result["seconds"] = bench.seconds;
    result["forward_seconds"] = bench.forward_seconds;
    result["peak_mib"] = bench.peak_mib;
    options.json.print(session, result);
    return 0;
  }
  session.out.write(fmt::format(
      "backward of {}{}, {} tokens, {} threads: {} forwards\n"
      "  {:.4f} s beside {:.4f} s, peak {:.0f} MiB; {} pairs of runs: {:.2f} to {:.2f}\n",
      options.shape, options.bench.weights ? " with weights" : "", options.bench.tokens, thread_count(),
      session.out.paint(Style::strong, fmt::format("{:.2f}", bench.ratio)), bench.seconds, bench.forward_seconds,
      bench.peak_mib, options.bench.repeats, bench.lowest_ratio, bench.highest_ratio));
  return 0;
}

int signature_command(Session& session, const JsonOption& json) {
  Signature signature;
  {
    ProgressPrinter printer(session.err, session.quiet);
    signature = engine_signature(printer.callback());
  }
  if (json.wanted()) {
    Json result = new_result("bench.signature");
    result["signature"] = signature.hash;
    result["models"] = signature.models;
    result["values"] = signature.values;
    json.print(session, result);
    return 0;
  }
  session.out.write(fmt::format("{}\n", signature.hash));
  return 0;
}

struct GemmCommand {
  Index m = 1024, k = 768, n = 3072;
  JsonOption json;
};

int gemm_command(Session& session, const GemmCommand& options) {
  check(options.m > 0 && options.k > 0 && options.n > 0, ErrorCode::usage, "the sizes must be 1 or more");
  const double gflops = gemm_gflops(options.m, options.k, options.n);
  if (options.json.wanted()) {
    Json result = new_result("bench.gemm");
    result["shape"] = {options.m, options.k, options.n};
    result["threads"] = thread_count();
    result["gemm_gflops"] = gflops;
    options.json.print(session, result);
    return 0;
  }
  session.out.write(fmt::format("[{}, {}] x [{}, {}], {} threads: {:.1f} GFLOP/s\n", options.m, options.k, options.k,
                                options.n, thread_count(), gflops));
  return 0;
}

}  // namespace

void add_bench(Command& root, Session& session) {
  Command& bench = root.add_command("bench", "speed against the machine's own matrix products; the engine's signature");

  Command& forward = bench.add_command("forward", "a forward pass of a random model of a well-known shape");
  auto forward_options = std::make_shared<ForwardCommand>();
  forward.option("--shape", "NAME", forward_options->shape, "default gpt2-small", shape_names());
  forward.option("--tokens", "N", forward_options->bench.tokens, "length of the prompt (default 1024)");
  forward.option("--repeats", "N", forward_options->bench.repeats, "pairs of measurements (default 5)");
  forward_options->json.declare(forward);
  forward.on_run([&session, forward_options] { return forward_command(session, *forward_options); });

  Command& patch = bench.add_command("patch", "activation patching: all variants of a sweep over a random model");
  auto patch_options = std::make_shared<PatchBenchCommand>();
  patch.option("--shape", "NAME", patch_options->shape, "default gpt2-small", shape_names());
  patch.option("--tokens", "N", patch_options->bench.tokens, "length of the prompt (default 16)");
  patch.option("--sites", "SWEEP", patch_options->sites,
               "head-pos (default): each head at each position; head: at all; resid: the stream of each layer at each "
               "position; edge: 128 edges",
               std::vector<std::string>{"head-pos", "head", "resid", "edge"});
  patch.option("--batch", "N", patch_options->bench.batch, "prompts that each variant runs on (default 1)");
  patch.option("--repeats", "N", patch_options->bench.repeats, "pairs of measurements (default 3)");
  patch_options->json.declare(patch);
  patch.on_run([&session, patch_options] { return patch_bench_command(session, *patch_options); });

  Command& backward = bench.add_command("backward", "the gradients of a random model's loss, in forwards");
  auto backward_options = std::make_shared<BackwardCommand>();
  backward.option("--shape", "NAME", backward_options->shape, "default gpt2-small", shape_names());
  backward.option("--tokens", "N", backward_options->bench.tokens, "length of the prompt (default 1024)");
  backward.option("--repeats", "N", backward_options->bench.repeats, "pairs of measurements (default 5)");
  backward.flag("--weights", backward_options->bench.weights, "the gradients of the parameters, too");
  backward_options->json.declare(backward);
  backward.on_run([&session, backward_options] { return backward_command(session, *backward_options); });

  add_bench_weights(bench, session);
  add_bench_train(bench, session);

  Command& signature = bench.add_command("signature", "one hash of rounded logits over a fixed set of tiny models");
  auto signature_json = std::make_shared<JsonOption>();
  signature_json->declare(signature);
  signature.on_run([&session, signature_json] { return signature_command(session, *signature_json); });

  Command& gemm = bench.add_command("gemm", "one matrix product, [m, k] x [k, n]");
  auto gemm_options = std::make_shared<GemmCommand>();
  gemm.option("--m", "N", gemm_options->m, "rows (default 1024)");
  gemm.option("--k", "N", gemm_options->k, "inner size (default 768)");
  gemm.option("--n", "N", gemm_options->n, "columns (default 3072)");
  gemm_options->json.declare(gemm);
  gemm.on_run([&session, gemm_options] { return gemm_command(session, *gemm_options); });
}

}  // namespace kirchhoff::cli
