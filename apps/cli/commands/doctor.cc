#include <spdlog/version.h>
#include <utf8proc.h>
#include <zlib.h>
#include <CLI/Version.hpp>

#include <memory>  // for make_shared

#include "commands.h"
#include "gemm_speed.h"
#include "json_option.h"
#include "kirchhoff/base/parallel.h"
#include "kirchhoff/kernels/cpu.h"
#include "kirchhoff/model/load.h"
#include "table.h"
#include "units.h"
#include "version.h"

namespace kirchhoff::cli {
namespace {

using Versions = std::vector<std::pair<std::string, std::string>>;

Versions library_versions(const kernels::CpuReport& cpu) {
  return {{"matrix products", cpu.gemm_library},
          {"fmt", fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
          {"spdlog", fmt::format("{}.{}.{}", SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH)},
          {"CLI11", CLI11_VERSION},
          {"nlohmann-json", fmt::format("{}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                        NLOHMANN_JSON_VERSION_PATCH)},
          {"utf8proc", utf8proc_version()},
          {"zlib", zlibVersion()}};
}

std::string verdict(const kernels::CpuFeature& feature) {
  if (feature.works) return "works";
  return feature.advertised ? "advertised, but fails when tried: not used" : "not there";
}

int doctor_command(Session& session, const JsonOption& json) {
  const kernels::CpuReport& cpu = kernels::cpu();
  const double gflops = gemm_gflops(1024, 768, 3072);
  const Versions libraries = library_versions(cpu);
  if (json.wanted()) {
    Json result = new_result("doctor");
    result["program"] = version_line();
    result["processor"] = cpu.processor;
    result["features"] = Json::array();
    for (const kernels::CpuFeature& feature : cpu.features)
      result["features"].push_back(
          {{"name", feature.name}, {"advertised", feature.advertised}, {"works", feature.works}});
    result["isa"] = kernels::name(cpu.isa);
    result["isa_forced"] = cpu.isa_forced;
    result["gemm_isa"] = cpu.gemm_isa;
    result["threads"] = thread_count();
    result["available_memory"] = available_memory();
    result["gemm_gflops"] = gflops;
    result["libraries"] = Json::object();
    for (const auto& [library, version] : libraries) result["libraries"][library] = version;
    json.print(session, result);
    return 0;
  }
  Terminal& out = session.out;
  const auto title = [&out](const char* text) { out.write(fmt::format("\n{}\n", out.paint(Style::title, text))); };
  out.write(fmt::format("{}\n", version_line()));
  title("Processor");
  Table facts({{""}, {""}});
  facts.add({"processor", cpu.processor.empty() ? "unknown" : cpu.processor});
  facts.add({"threads", std::to_string(thread_count())});
  facts.add({"available memory", readable_bytes(available_memory())});
  facts.add({"vector kernels", fmt::format("{}{}", kernels::name(cpu.isa), cpu.isa_forced ? " (KIRCHHOFF_ISA)" : "")});
  facts.add({"matrix products", fmt::format("up to {}", cpu.gemm_isa)});
  facts.add({"measured", fmt::format("{:.1f} GFLOP/s for [1024, 768] x [768, 3072]", gflops)});
  out.write(facts.render(out));
  title("Features");
  Table features({{""}, {""}});
  for (const kernels::CpuFeature& feature : cpu.features) {
    const Style style = feature.works ? Style::good : feature.advertised ? Style::error : Style::faint;
    features.add({feature.name, {verdict(feature), style}});
  }
  out.write(features.render(out));
  title("Libraries");
  Table versions({{""}, {""}});
  for (const auto& [library, version] : libraries) versions.add({library, version});
  out.write(versions.render(out));
  return 0;
}

}  // namespace

void add_doctor(Command& root, Session& session) {
  Command& command =
      root.add_command("doctor", "what this machine has: processor features as tried, memory, libraries, speed");
  auto json = std::make_shared<JsonOption>();
  json->declare(command);
  command.on_run([&session, json] { return doctor_command(session, *json); });
}

}  // namespace kirchhoff::cli
