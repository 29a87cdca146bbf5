#include "tests/cli/doctor_world.hpp"

#include <fmt/format.h>

#include <sstream>

#include "common/clock.hpp"

namespace gleaner::cli {
namespace {

constexpr std::int64_t kDay = 86'400;

// An IDX file of unsigned bytes that count up to below.
std::string idx(const std::vector<std::uint32_t>& dims, unsigned below) {
  std::string out = {0, 0, 8, static_cast<char>(dims.size())};
  std::size_t size = 1;
  for (const std::uint32_t dim : dims) {
    for (const int shift : {24, 16, 8, 0}) out.push_back(static_cast<char>(dim >> shift));
    size *= dim;
  }
  for (std::size_t i = 0; i < size; ++i) out.push_back(static_cast<char>(i % below));
  return out;
}

}  // namespace

std::vector<std::string> Diagnosis::lines_with(const std::string& start) const {
  std::vector<std::string> found;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.starts_with(start)) found.push_back(line);
  }
  return found;
}

DoctorWorld::DoctorWorld() : now_s_(system_clock().wall_unix_ms() / 1000) {
  make_authority("ca");
  issue("server", pki::Role::coordinator, -1, 365);
  issue("device", pki::Role::device, -1, 365);
}

void DoctorWorld::make_authority(const std::string& name) {
  const pki::Validity validity{now_s_ - 1000 * kDay, now_s_ + 1000 * kDay};
  const Status made = pki::make_ca(name, validity, {path(name + ".pem"), path(name + ".key")});
  EXPECT_TRUE(made) << made.error().message();
}

void DoctorWorld::issue(const std::string& name, pki::Role role, std::int64_t from_days, std::int64_t until_days,
                        const std::string& ca) {
  pki::CertificateRequest request;
  request.role = role;
  request.name = name;
  if (role == pki::Role::coordinator) request.addresses = {"localhost", "127.0.0.1"};
  request.validity = {now_s_ + from_days * kDay, now_s_ + until_days * kDay};
  const Status issued = pki::issue_certificate({path(ca + ".pem"), path(ca + ".key")}, request,
                                               {path(name + ".pem"), path(name + ".key")});
  EXPECT_TRUE(issued) << issued.error().message();
}

void DoctorWorld::write_coordinator(const std::string& listen, const std::string& http,
                                    const std::string& certificate) {
  write("coordinator.toml", fmt::format("[coordinator]\nlisten = \"{}\"\ndatabase = \"gleaner.db\"\n\n[tls]\nca = "
                                        "\"ca.pem\"\ncertificate = \"{}.pem\"\nkey = \"{}.key\"\n\n[admin]\nsocket = "
                                        "\"gleaner.sock\"\nhttp = \"{}\"\n\n[limits]\nconnections_max = 10\n",
                                        listen, certificate, certificate, http));
}

void DoctorWorld::write_client(std::uint16_t port, const std::string& certificate, const std::string& host) {
  write("client.toml", fmt::format("[client]\ncoordinator = \"{}:{}\"\n\n[tls]\nca = \"ca.pem\"\ncertificate = "
                                   "\"{}.pem\"\nkey = \"{}.key\"\n\n[data.mine]\npath = \"data\"\n",
                                   host, port, certificate, certificate));
}

void DoctorWorld::write_data() {
  std::filesystem::create_directories(folder_ / "data");
  for (const std::string split : {"train", "t10k"}) {
    write("data/" + split + "-images-idx3-ubyte", idx({20, 4, 4}, 251));
    write("data/" + split + "-labels-idx1-ubyte", idx({20}, 10));
  }
}

Diagnosis DoctorWorld::examine(const std::string& option, const std::string& name) const {
  const Ran ran = run_cli({"doctor", option, path(name)});
  EXPECT_EQ(ran.err, "");
  return {ran.code, ran.out};
}

}  // namespace gleaner::cli
