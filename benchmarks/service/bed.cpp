#include "benchmarks/service/bed.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <fstream>

#include "coordinator/admin/client.hpp"
#include "protocol/link/host_port.hpp"

namespace gleaner::bench {
namespace {

constexpr std::int64_t kDays = 2;
// Thousands of certificates are not worth the disk that is measured.
constexpr const char* kMemoryFolder = "/dev/shm";
constexpr Duration kStartTimeout = std::chrono::seconds(20);

pki::Validity validity() { return pki::Validity::days(system_clock().wall_unix_ms() / 1000, kDays); }

Status write_text(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) return fail(ErrorCode::bad_input, fmt::format("cannot write {}", path));
  return {};
}

}  // namespace

Result<Folder> Folder::make(const std::string& parent) {
  std::string path = parent + "/gleaner-bench-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) {
    return fail(ErrorCode::bad_input, fmt::format("cannot make a folder in {}: choose another with --folder", parent));
  }
  return Folder(path);
}

Folder::~Folder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Result<Bed> Bed::make(const std::string& parent) {
  GLEANER_ASSIGN(Folder folder, Folder::make(parent));
  GLEANER_ASSIGN(Folder certificates, Folder::make(::access(kMemoryFolder, W_OK) == 0 ? kMemoryFolder : parent));
  const pki::KeyFiles ca{certificates.at("ca.pem"), certificates.at("ca.key")};
  GLEANER_TRY(pki::make_ca("bench", validity(), ca));
  GLEANER_TRY(pki::issue_certificate(
      ca, {.role = pki::Role::coordinator, .name = "coordinator", .addresses = {"127.0.0.1"}, .validity = validity()},
      {certificates.at("coordinator.pem"), certificates.at("coordinator.key")}));
  return Bed(std::move(folder), std::move(certificates), ca);
}

std::string Bed::device_name(std::uint32_t index) { return fmt::format("device-{:05}", index); }

Result<TlsFiles> Bed::device(std::uint32_t index) const {
  const std::string name = device_name(index);
  const TlsFiles files{
      .ca = ca_.certificate, .certificate = certificates_.at(name + ".pem"), .key = certificates_.at(name + ".key")};
  if (!std::filesystem::exists(files.certificate)) {
    GLEANER_TRY(
        pki::issue_certificate(ca_, {.role = pki::Role::device, .name = name, .addresses = {}, .validity = validity()},
                               {files.certificate, files.key}));
  }
  return files;
}

TlsFiles Bed::coordinator() const {
  return {.ca = ca_.certificate,
          .certificate = certificates_.at("coordinator.pem"),
          .key = certificates_.at("coordinator.key")};
}

Result<Coordinator> Coordinator::start(const Bed& bed, const std::string& name) {
  const TlsFiles tls = bed.coordinator();
  const std::string config = bed.at(name + ".toml");
  const std::string socket = bed.at(name + ".sock");
  const std::string database = bed.at(name + ".db");
  GLEANER_TRY(write_text(config, fmt::format("[coordinator]\nlisten = \"127.0.0.1:0\"\ndatabase = \"{}\"\n"
                                             "[tls]\nca = \"{}\"\ncertificate = \"{}\"\nkey = \"{}\"\n"
                                             "[admin]\nsocket = \"{}\"\nhttp = \"127.0.0.1:0\"\n",
                                             database, tls.ca, tls.certificate, tls.key, socket)));
  GLEANER_ASSIGN(Child process, Child::start({programs_folder() + "/gleaner-coordinator", "serve", "--config", config,
                                              "--ready-fd", "{ready}"},
                                             bed.at(name + ".log")));
  GLEANER_ASSIGN(const std::string line, process.ready_line(kStartTimeout));
  std::uint16_t port = 0;
  std::from_chars(line.data(), line.data() + line.size(), port);
  return Coordinator(std::move(process), port, socket, database);
}

Status Coordinator::start_run(const std::string& toml) const {
  GLEANER_ASSIGN(AdminClient client, AdminClient::connect(socket_));
  GLEANER_TRY(client.post("/v1/runs?path=%2Fbench%2Frun.toml", toml));
  return {};
}

Result<std::uint64_t> Coordinator::inflight_bytes() const {
  GLEANER_ASSIGN(AdminClient client, AdminClient::connect(socket_));
  GLEANER_ASSIGN(const std::string text, client.get("/metrics"));
  const std::string key = "\ngleaner_inflight_payload_bytes ";
  const auto at = text.find(key);
  if (at == std::string::npos) return fail(ErrorCode::fatal, "the metrics lack the bytes in flight");
  return static_cast<std::uint64_t>(std::strtod(text.c_str() + at + key.size(), nullptr));
}

std::uint32_t Coordinator::snapshots_written() const {
  std::ifstream log(process_.log());
  std::uint32_t count = 0;
  for (std::string line; std::getline(log, line);) {
    if (line.find("snapshot of version") != std::string::npos && line.ends_with("written")) ++count;
  }
  return count;
}

Status Coordinator::stop() {
  GLEANER_ASSIGN(const int code, process_.stop());
  if (code != 0) return fail(ErrorCode::fatal, fmt::format("the coordinator ended with {}", code));
  return {};
}

}  // namespace gleaner::bench
