#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "benchmarks/service/fleet.hpp"
#include "benchmarks/service/rows.hpp"

namespace gleaner::bench {
namespace {

constexpr std::uint32_t kReplayed = 0;  // the device that keeps its answers back, so that the client comes to rest
constexpr std::uint32_t kClient = 1;
constexpr std::uint32_t kPlain = 2;
constexpr std::uint32_t kSide = 28;
constexpr std::uint32_t kClasses = 10;
constexpr std::uint32_t kSamples = 200;
constexpr std::uint32_t kDimension = kSide * kSide * kClasses + kClasses;
constexpr std::uint32_t kRounds = 8;
constexpr Duration kTimeout = std::chrono::seconds(60);

void put_big_endian(std::ofstream& file, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) file.put(static_cast<char>(value >> shift));
}

Status write_samples(const std::string& folder) {
  std::filesystem::create_directory(folder);
  std::ofstream images(folder + "/train-images-idx3-ubyte", std::ios::binary);
  std::ofstream labels(folder + "/train-labels-idx1-ubyte", std::ios::binary);
  put_big_endian(images, 0x803);
  for (const std::uint32_t size : {kSamples, kSide, kSide}) put_big_endian(images, size);
  put_big_endian(labels, 0x801);
  put_big_endian(labels, kSamples);
  for (std::uint32_t i = 0; i < kSamples; ++i) {
    labels.put(static_cast<char>(i % kClasses));
    for (std::uint32_t pixel = 0; pixel < kSide * kSide; ++pixel) {
      images.put(static_cast<char>((pixel * (i % kClasses + 1)) % 251));
    }
  }
  images.close();
  labels.close();
  if (!images || !labels) return fail(ErrorCode::bad_input, "cannot write the samples to " + folder);
  return {};
}

Result<Child> start_client(const Bed& bed, std::uint16_t port) {
  GLEANER_ASSIGN(const TlsFiles tls, bed.device(kClient));
  GLEANER_TRY(write_samples(bed.at("samples")));
  const std::string path = bed.at("client.toml");
  std::ofstream file(path);
  file << fmt::format(
      "[client]\ncoordinator = \"127.0.0.1:{}\"\nstate_directory = \"{}\"\n"
      "[tls]\nca = \"{}\"\ncertificate = \"{}\"\nkey = \"{}\"\n"
      "[data.fashion-mnist]\npath = \"{}\"\n",
      port, bed.at("client-state"), tls.ca, tls.certificate, tls.key, bed.at("samples"));
  file.close();
  return Child::start({programs_folder() + "/gleaner-client", "run", "--config", path}, bed.at("client.log"));
}

std::string run_file() {
  return "[run]\nname = \"rest\"\nrecipe = \"topk\"\nrounds = 1000000\nreproducible = true\n"
         "[model]\nname = \"softmax\"\n[data]\nname = \"fashion-mnist\"\n"
         "[cohort]\nsize = 2\nmin_devices = 2\nplanner = \"uniform\"\n";
}

}  // namespace

Status measure_client(const Bed& bed, Rows& rows) {
  GLEANER_ASSIGN(Coordinator coordinator, Coordinator::start(bed, "rest"));
  FleetLoad load{.first_device = kReplayed, .devices = 1, .payloads = {}};
  load.payloads.push_back(random_payload(1, kDimension, kDimension / 100));
  GLEANER_ASSIGN(auto fleet, Fleet::make(bed, coordinator.port(), std::move(load)));
  GLEANER_TRY(coordinator.start_run(run_file()));
  GLEANER_TRY(fleet->connect(1, kTimeout));
  GLEANER_ASSIGN(Child client, start_client(bed, coordinator.port()));
  GLEANER_TRY(fleet->run_rounds(kRounds, kTimeout));
  GLEANER_ASSIGN(const Memory memory, client.memory());

  GLEANER_ASSIGN(const TlsFiles plain_files, bed.device(kPlain));
  GLEANER_ASSIGN(const Child plain,
                 Child::start({own_program(), "plain-client", plain_files.ca, plain_files.certificate, plain_files.key,
                               std::to_string(coordinator.port()), "{ready}"},
                              bed.at("plain-client.log")));
  GLEANER_TRY(plain.ready_line(kTimeout));
  GLEANER_ASSIGN(const Memory plain_memory, plain.memory());
  constexpr double kOwnBytes = 8.0 * kDimension + 4.0 * kSamples * kSide * kSide;
  rows.push_back(
      {.name = "client",
       .text = fmt::format("a client at rest after {} rounds, beside its model, residual and data", kRounds),
       .unit = "MB",
       .value = (static_cast<double>(memory.resident_bytes) - kOwnBytes) / 1e6,
       .target = 20.0,
       .references = {{"a process with one TLS link", static_cast<double>(plain_memory.resident_bytes) / 1e6}},
       .note = {}});
  fleet.reset();
  GLEANER_TRY(client.stop());
  return coordinator.stop();
}

}  // namespace gleaner::bench
