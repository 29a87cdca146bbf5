// gpu_bench: the CUDA kernels on a GPU. Exit status: 0 all equal and all met, 1 different or short, 2 there is no GPU
// or the arguments are wrong.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <random>

#include "benchmarks/cuda/parts.hpp"
#include "kernels/cuda/device_driver.hpp"

namespace gleaner::gpu_bench {
namespace {

struct Options {
  std::uint64_t seed = std::random_device{}();
  std::uint32_t size = 3'000'000;
  std::string json;
  bool times = false;
};

int report_failure(const Error& error, int status) {
  fmt::print(stderr, "gpu_bench: {}\n", error.message());
  return status;
}

int run(const Options& options) {
  const auto driver = cuda::open_device();
  if (!driver) return report_failure(driver.error(), 2);
  fmt::print("seed {}\n", options.seed);
  if (!options.times) {
    if (const auto status = check_equality(**driver, options.seed, options.size); !status) {
      return report_failure(status.error(), 1);
    }
    fmt::print("equal to the CPU, bit for bit, up to {} entries\n", options.size);
    if (const auto status = check_training(**driver, options.seed, options.size); !status) {
      return report_failure(status.error(), 1);
    }
    fmt::print("trains as the CPU within rounding, and selects from it bit for bit\n");
    return 0;
  }
  Report report;
  for (const auto part : {measure, measure_training}) {
    if (const auto status = part(**driver, options.seed, report); !status) return report_failure(status.error(), 1);
  }
  if (!options.json.empty()) {
    std::ofstream file(options.json);
    file << report.json((*driver)->describe_device());
    if (!file.flush()) {
      return report_failure({ErrorCode::fatal, fmt::format("cannot write {}", options.json)}, 1);
    }
  }
  return report.met() ? 0 : 1;
}

}  // namespace
}  // namespace gleaner::gpu_bench

int main(int argc, char** argv) {
  gleaner::gpu_bench::Options options;
  CLI::App app{"The CUDA kernels on a GPU: equal to the CPU, and how fast"};
  app.add_option("--seed", options.seed, "of the inputs; a fresh one otherwise");
  app.add_option("--size", options.size, "entries of the largest input of the equality check")
      ->check(CLI::Range(1'000, 100'000'000));
  app.add_flag("--times", options.times, "measure instead of checking");
  app.add_option("--json", options.json, "write the rows of --times to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return gleaner::gpu_bench::run(options);
}
