#include <filesystem>  // for is_directory
#include <memory>      // for make_shared

#include "attribution_view.h"
#include "commands.h"
#include "json_option.h"
#include "kirchhoff/base/error.h"
#include "kirchhoff/engine/compare.h"
#include "kirchhoff/model/tokenizer.h"
#include "opened_model.h"
#include "progress_printer.h"
#include "table.h"
#include "text_width.h"
#include "units.h"

namespace kirchhoff::cli {
namespace {

struct InfoCommand {
  ModelOptions model;
  JsonOption json;
  bool hash = false;
};

Json config_json(const ModelConfig& c) {
  return {{"family", c.family},     {"architecture", c.architecture},
          {"n_layers", c.n_layers}, {"d_model", c.d_model},
          {"n_heads", c.n_heads},   {"n_kv_heads", c.n_kv_heads},
          {"d_head", c.d_head},     {"d_mlp", c.attn_only ? Json(nullptr) : Json(c.d_mlp)},
          {"d_vocab", c.d_vocab},   {"d_vocab_out", c.d_vocab_out},
          {"n_ctx", c.n_ctx},       {"norm_eps", c.norm_eps},
          {"parallel", c.parallel}, {"gated_mlp", c.gated_mlp},
          {"causal", c.causal},     {"smeared_keys", c.smeared_keys}};
}

int info_command(Session& session, const InfoCommand& options) {
  const OpenedModel opened = open_model(options.model.model);
  const Model model = load_weights(session, opened, options.model);
  const std::string tokenizer = opened.tokenizer ? opened.tokenizer->description() : "";
  const std::string bos = opened.tokenizer ? decide_bos(opened.files, *opened.tokenizer).why : "";
  const std::string sha256 = options.hash ? io::content_hash(opened.files) : "";
  if (options.json.wanted()) {
    Json result = new_result("model.info");
    result["model"] = model.origin.argument;
    result["path"] = model.origin.path;
    result["format"] = model.origin.format;
    result["config"] = config_json(model.config);
    result["parameters"] = model.origin.weight_bytes / 4;
    result["weight_bytes"] = model.origin.weight_bytes;
    result["packed"] = model.origin.packed;
    result["tied"] = model.tied;
    result["tokenizer"] = tokenizer.empty() ? Json(nullptr) : Json(tokenizer);
    result["bos"] = bos.empty() ? Json(nullptr) : Json(bos);
    result["fingerprint"] = io::fingerprint(opened.files);
    result["sha256"] = sha256.empty() ? Json(nullptr) : Json(sha256);
    result["folded"] = model.origin.folded;
    result["ignored"] = model.origin.ignored;
    options.json.print(session, result);
    return 0;
  }
  Terminal& out = session.out;
  constexpr Index kLabel = 12;  // describe() puts its labels in a column of this width
  const auto write = [&out](const std::string& line) {
    out.write(wrapped(line, out.columns() - kLabel, std::string(kLabel, ' ')).append("\n"));
  };
  const auto write_fact = [&](std::string_view label, const std::string& text) {
    if (!text.empty()) write(padded(label, kLabel) + text);
  };
  for (const std::string& line : describe(model)) write(line);
  write_fact("tokenizer", tokenizer.empty() ? "none: the model works with ids (--ids 1,2,3)" : tokenizer);
  write_fact("prompts", bos);
  write_fact("fingerprint",
             fmt::format("{} (sampled sha256 of the weight files{})", io::fingerprint(opened.files).substr(0, 16),
                         options.hash ? "" : "; --hash reads them whole"));
  write_fact("sha256", sha256);
  return 0;
}

struct VerifyCommand {
  ModelOptions model;
  std::optional<std::string> expected;
  std::string precision = "f32";
  double tolerance = 2e-5;
  JsonOption json;
};

/// The directory of a model: itself, or where its file lies.
std::string beside(const std::string& path) {
  if (std::filesystem::is_directory(path)) return path;
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

Json comparison_json(const Comparison& comparison) {
  Json result = new_result("model.verify");
  result["sites"] = comparison.sites;
  result["max_rel_error"] = comparison.max_rel_error;
  result["worst"] = comparison.worst;
  result["failures"] = comparison.failures;
  result["tolerance"] = comparison.tolerance;
  result["precision"] = comparison.precision == Precision::f32 ? "f32" : "f64";
  result["expected"] = comparison.directory;
  result["kinds"] = Json::array();
  for (const KindComparison& kind : comparison.kinds)
    result["kinds"].push_back({{"kind", kind.kind},
                               {"tensors", kind.tensors},
                               {"max_abs_error", kind.max_abs_error},
                               {"max_rel_error", kind.max_rel_error},
                               {"worst", kind.worst},
                               {"where", kind.where}});
  if (!comparison.reference_defect.empty()) result["reference_defect"] = comparison.reference_defect;
  result["skipped"] = Json::array();
  for (const SkippedKind& kind : comparison.skipped)
    result["skipped"].push_back({{"kind", kind.kind}, {"tensors", kind.tensors}, {"reason", kind.reason}});
  return result;
}

void print_comparison(Session& session, const Comparison& comparison) {
  Terminal& out = session.out;
  out.write(fmt::format(
      "expected values: {} · computed in {} · tolerance {:g}, relative to each tensor's largest magnitude\n\n",
      comparison.directory, comparison.precision == Precision::f32 ? "float32" : "float64", comparison.tolerance));
  Table table({{"kind"}, {"tensors", true}, {"abs error", true}, {"rel error", true}, {"worst"}, {"entry"}});
  for (const KindComparison& kind : comparison.kinds) {
    const bool bad = !(kind.max_rel_error <= comparison.tolerance);
    table.add({kind.kind,
               std::to_string(kind.tensors),
               fmt::format("{:.2e}", kind.max_abs_error),
               {fmt::format("{:.2e}", kind.max_rel_error), bad ? Style::error : Style::plain},
               kind.worst,
               kind.where});
  }
  out.write(table.render(out));
  for (const SkippedKind& kind : comparison.skipped)
    out.write(note(out, fmt::format("{}: {} tensors not compared: {}", kind.kind, kind.tensors, kind.reason)));
  if (!comparison.reference_defect.empty())
    out.write(note(out, "compared with a known defect of the reference taken over: " + comparison.reference_defect));
  for (const std::string& failure : comparison.failures)
    out.write(fmt::format("  {} {}\n", out.paint(Style::error, "failed:"), failure));
  out.write(
      fmt::format("\n{}: {} tensors, largest relative error {:.2e} at {}\n",
                  comparison.passed() ? out.paint(Style::good, "agrees") : out.paint(Style::error, "does not agree"),
                  comparison.sites, comparison.max_rel_error, comparison.worst));
}

int verify_command(Session& session, const VerifyCommand& options) {
  check(options.tolerance > 0.0, ErrorCode::usage, "option '--tolerance': {} is not above 0", options.tolerance);
  OpenedModel opened;  // verifying needs no tokenizer
  opened.files = io::open_model_files(options.model.model);
  const Model model = load_weights(session, opened, options.model);
  CompareOptions compare;
  compare.precision = options.precision == "f64" ? Precision::f64 : Precision::f32;
  compare.tolerance = options.tolerance;
  Comparison comparison;
  {
    ProgressPrinter printer(session.err, session.quiet);
    compare.progress = printer.callback();
    comparison = compare_with_expected(model, options.expected.value_or(beside(opened.files.path)), compare);
  }
  if (options.json.wanted())
    options.json.print(session, comparison_json(comparison));
  else
    print_comparison(session, comparison);
  return comparison.passed() ? 0 : 4;
}

}  // namespace

void add_model(Command& root, Session& session) {
  Command& model = root.add_command("model", "facts about a model, comparison with values computed elsewhere, export");

  Command& info = model.add_command("info", "what a model is, what was folded when it was loaded, its tokenizer");
  auto info_options = std::make_shared<InfoCommand>();
  info_options->model.declare(info);
  info.flag("--hash", info_options->hash, "also the sha256 of the weight files");
  info_options->json.declare(info);
  info.on_run([&session, info_options] { return info_command(session, *info_options); });

  Command& verify = model.add_command("verify", "compare every recorded value with expected ones; exit 0 or 4");
  auto verify_options = std::make_shared<VerifyCommand>();
  verify_options->model.declare(verify);
  verify.argument("EXPECTED_DIR", verify_options->expected,
                  "a directory with expected.json + expected.safetensors, or a TransformerLens cache.safetensors "
                  "(default: beside the model)",
                  false);
  verify.option("--precision", "P", verify_options->precision, "which arithmetic to check", {"f32", "f64"});
  verify.option("--tolerance", "X", verify_options->tolerance, "largest relative error that passes (default 2e-5)");
  verify_options->json.declare(verify);
  verify.on_run([&session, verify_options] { return verify_command(session, *verify_options); });

  add_model_export(model, session);
}

}  // namespace kirchhoff::cli
