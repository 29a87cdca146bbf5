#include "tests/integration/harness/world.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "common/check.hpp"
#include "common/clock.hpp"
#include "coordinator/admin/target.hpp"
#include "coordinator/run_settings.hpp"
#include "training/synthetic.hpp"

namespace gleaner::testing {
namespace {

namespace fs = std::filesystem;

void put_be32(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>((value >> shift) & 0xffU));
}

void write_idx(const World& world, const std::string& prefix, const Dataset& data) {
  std::string images;
  put_be32(images, 0x803);
  for (const std::uint32_t size : {data.samples, data.height, data.width}) put_be32(images, size);
  images.append(reinterpret_cast<const char*>(data.pixels.data()), data.pixels.size());
  std::string labels;
  put_be32(labels, 0x801);
  put_be32(labels, data.samples);
  labels.append(reinterpret_cast<const char*>(data.labels.data()), data.labels.size());
  world.write("data/" + prefix + "-images-idx3-ubyte", images);
  world.write("data/" + prefix + "-labels-idx1-ubyte", labels);
}

std::string last_lines(const std::string& text, std::size_t count) {
  std::size_t at = text.size();
  for (std::size_t lines = 0; at > 0 && lines <= count; --at) lines += text[at - 1] == '\n' ? 1 : 0;
  return text.substr(at);
}

}  // namespace

bool eventually(const std::function<bool()>& holds, milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    ::poll(nullptr, 0, 10);  // a breath between two questions
  }
  return true;
}

std::size_t count_lines(const std::string& text, const std::string& part) {
  std::istringstream lines(text);
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line);) count += line.find(part) != std::string::npos ? 1 : 0;
  return count;
}

World::World(std::uint32_t devices) : devices_(devices) {
  std::string pattern = (fs::temp_directory_path() / "gleaner_XXXXXX").string();
  folder_ = ::mkdtemp(pattern.data());
  fs::create_directory(path("data"));
  make_pki();
  make_data();
  reserve_port();
  configure({});
  for (std::uint32_t i = 0; i < devices; ++i) configure_client(i);
}

World::~World() {
  if (::testing::Test::HasFailure()) {
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path().extension() != ".log") continue;
      std::cout << "---- " << entry.path().filename().string() << "\n"
                << last_lines(read(entry.path().filename().string()), 40) << "\n";
    }
  }
  clients_.clear();
  coordinator_.reset();
  if (reserved_ >= 0) ::close(reserved_);
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void World::write(const std::string& name, const std::string& text) const {
  std::ofstream(path(name), std::ios::binary) << text;
}

std::string World::read(const std::string& name) const {
  std::ostringstream text;
  text << std::ifstream(path(name), std::ios::binary).rdbuf();
  return text.str();
}

pki::Validity World::valid() const { return pki::Validity::days(system_clock().wall_unix_ms() / 1000, 30); }

void World::issue(const std::string& ca, const pki::CertificateRequest& request) const {
  const Status issued = pki::issue_certificate({path(ca + ".crt"), path(ca + ".key")}, request,
                                               {path(request.name + ".crt"), path(request.name + ".key")});
  ASSERT_TRUE(issued) << issued.error().message();
}

TlsFiles World::tls_files(const std::string& name, const std::string& ca) const {
  return {.ca = path(ca + ".crt"), .certificate = path(name + ".crt"), .key = path(name + ".key")};
}

void World::make_pki() const {
  for (const std::string ca : {"ca", "other"}) {
    const Status made = pki::make_ca("test " + ca, valid(), {path(ca + ".crt"), path(ca + ".key")});
    GLEANER_CHECK(made.has_value());
  }
  issue("ca", {.role = pki::Role::coordinator,
               .name = "coordinator",
               .addresses = {"localhost", "127.0.0.1"},
               .validity = valid()});
  for (std::uint32_t i = 0; i < devices_; ++i) {
    issue("ca", {.name = client_name(i), .addresses = {}, .validity = valid()});
  }
}

void World::make_data() const {
  const SyntheticSpec spec{.samples = 60 * std::max(1U, devices_), .classes = 10, .height = 8, .width = 8};
  write_idx(*this, "train", synthetic_dataset(spec, {.pattern = 1, .noise = 2}));
  write_idx(*this, "t10k", synthetic_dataset(spec, {.pattern = 1, .noise = 3}));
}

// The port stays ours between two starts of the coordinator: it is bound here, and never listened on.
void World::reserve_port() {
  reserved_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(reserved_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  GLEANER_CHECK(::bind(reserved_, reinterpret_cast<const sockaddr*>(&address), size) == 0);
  GLEANER_CHECK(::getsockname(reserved_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  port_ = ntohs(address.sin_port);
}

void World::configure(const CoordinatorOptions& options) {
  write("coordinator.toml", fmt::format("[coordinator]\nlisten = \"127.0.0.1:{}\"\ndatabase = \"{}\"\n\n"
                                        "[tls]\nca = \"{}.crt\"\ncertificate = \"{}.crt\"\nkey = \"{}.key\"\n{}\n"
                                        "[admin]\nsocket = \"admin.sock\"\nhttp = \"127.0.0.1:0\"\n\n"
                                        "[limits]\n{}\n[log]\nlevel = \"debug\"\n",
                                        port_, options.database, options.ca, options.certificate, options.certificate,
                                        options.tls, options.limits));
}

void World::configure_client(std::uint32_t index, const ClientOptions& options) {
  const std::string name = client_name(index);
  const std::string certificate = options.certificate.empty() ? name : options.certificate;
  const std::string server = options.server_name.empty() ? "" : "server_name = \"" + options.server_name + "\"\n";
  write(name + ".toml", fmt::format("[client]\ncoordinator = \"127.0.0.1:{}\"\nstate_directory = \"{}\"\n{}\n"
                                    "[tls]\nca = \"{}.crt\"\ncertificate = \"{}.crt\"\nkey = \"{}.key\"\n\n"
                                    "[retry]\nmin = \"20ms\"\nmax = \"{}\"\n\n"
                                    "[data.toy]\npath = \"data\"\nsplit = \"iid\"\ndevices = {}\nindex = {}\n\n"
                                    "[log]\nlevel = \"debug\"\n",
                                    port_, options.state.empty() ? "state-" + name : options.state, server, options.ca,
                                    certificate, certificate, options.retry_max, std::max(1U, devices_), index));
}

Process& World::launch_coordinator(const Environment& environment) {
  coordinator_.reset();
  coordinator_ = std::make_unique<Process>(Launch{.program = GLEANER_COORDINATOR,
                                                  .arguments = {"serve", "--config", path("coordinator.toml")},
                                                  .environment = environment,
                                                  .log = path("coordinator.log"),
                                                  .tells_ready = true});
  return *coordinator_;
}

void World::start_coordinator(const Environment& environment) {
  const std::string line = launch_coordinator(environment).ready_line(kPatience);
  unsigned port = 0;
  unsigned http = 0;
  std::istringstream(line) >> port >> http;
  if (port == 0 && !environment.empty()) return;  // killed on its way, as it was asked for
  ASSERT_EQ(port, port_) << "the coordinator did not start";
  http_port_ = static_cast<std::uint16_t>(http);
}

Process& World::start_client(std::uint32_t index, const Environment& environment) {
  const std::string name = client_name(index);
  clients_[index].reset();
  clients_[index] = std::make_unique<Process>(Launch{.program = GLEANER_CLIENT,
                                                     .arguments = {"run", "--config", path(name + ".toml")},
                                                     .environment = environment,
                                                     .log = path(name + ".log")});
  return *clients_[index];
}

void World::start_clients() {
  for (std::uint32_t i = 0; i < devices_; ++i) start_client(i);
}

void World::end_all() {
  for (auto& [index, process] : clients_) process->signal(SIGTERM);
  for (auto& [index, process] : clients_) {
    const auto ended = process->wait(seconds(20));
    EXPECT_EQ(ended, std::optional(Ended{.exit_code = 0})) << client_name(index);
  }
  if (!coordinator_) return;
  coordinator_->signal(SIGTERM);
  EXPECT_EQ(coordinator_->wait(seconds(20)), std::optional(Ended{.exit_code = 0})) << "coordinator";
}

std::string World::gleaner(const std::vector<std::string>& arguments, int* exit_code) {
  fs::remove(path("gleaner.log"));
  std::vector<std::string> all = arguments;
  all.insert(all.end(), {"--socket", path("admin.sock")});
  Process tool({.program = GLEANER_TOOL, .arguments = all, .environment = {}, .log = path("gleaner.log")});
  const auto ended = tool.wait(kPatience);
  EXPECT_TRUE(ended) << "gleaner does not end";
  if (exit_code != nullptr) *exit_code = ended ? ended->exit_code : -1;
  return read("gleaner.log");
}

std::string World::run_file(const RunOptions& options) {
  return fmt::format(
      "[run]\nname = \"{}\"\nrecipe = \"{}\"\nrounds = {}\nseed = 7\nreproducible = {}\n\n"
      "[model]\nname = \"mlp\"\nhidden_units = 8\n\n"
      "[data]\nname = \"{}\"\nheight = 8\nwidth = 8\nchannels = 1\nclasses = 10\n\n"
      "[training]\nlocal_epochs = 1\nbatch_size = 10\nlearning_rate = 0.05\n\n"
      "[compression]\ndensity = 0.3\ndensity_down = 0.2\n\n"
      "[cohort]\nsize = {}\nmin_devices = {}\n{}\n",
      options.name, options.recipe, options.rounds, options.reproducible, options.data,
      options.reproducible ? options.devices : 0, options.devices, options.cohort);
}

Result<std::string> World::ask(const std::string& target) const {
  GLEANER_ASSIGN(auto client, AdminClient::connect(path("admin.sock")));
  return client.get(target);
}

Result<std::string> World::tell(const std::string& target, const std::string& body) const {
  GLEANER_ASSIGN(auto client, AdminClient::connect(path("admin.sock")));
  return client.post(target, body);
}

void World::start_run(const RunOptions& options) {
  const auto started =
      tell("/v1/runs?path=" + admin::encode_component(path(options.name + ".toml")), run_file(options));
  ASSERT_TRUE(started) << started.error().message();
}

json::value World::get(const std::string& target) const {
  const auto body = ask(target);
  if (!body) return nullptr;
  return json::parse(*body);
}

std::string World::metrics() const { return ask("/metrics").value_or(""); }

double World::metric(const std::string& line_start) const {
  std::istringstream lines(metrics());
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(line_start + " ")) return std::stod(line.substr(line_start.size() + 1));
  }
  return 0.0;
}

json::value World::run(const std::string& name) const {
  const json::value detail = get("/v1/runs/" + name);
  return detail.is_object() ? detail.at("run") : json::value(nullptr);
}

std::uint32_t World::version(const std::string& name) const {
  const json::value shown = run(name);
  return shown.is_object() ? shown.at("version").to_number<std::uint32_t>() : 0;
}

std::string World::state(const std::string& name) const {
  const json::value shown = run(name);
  return shown.is_object() ? std::string(shown.at("state").as_string()) : "";
}

std::string World::hash(const std::string& name) const {
  const json::value shown = run(name);
  return shown.is_object() ? std::string(shown.at("model_hash").as_string()) : "";
}

bool World::reaches(std::uint32_t version, const std::string& name) {
  return eventually([&] { return this->version(name) >= version; });
}

std::string World::finish(const std::string& name) {
  const bool finished = eventually([&] { return state(name) == "finished"; });
  EXPECT_TRUE(finished) << "run " << name << " does not end: " << json::serialize(run(name));
  return finished ? hash(name) : "";
}

json::value World::device(const std::string& name) const {
  const json::value all = get("/v1/devices");
  if (!all.is_object()) return nullptr;
  for (const auto& device : all.at("devices").as_array()) {
    if (device.at("name").as_string() == name) return device;
  }
  return nullptr;
}

std::string World::state_file(std::uint32_t index) const {
  for (const auto& entry : fs::directory_iterator(path("state-" + client_name(index)))) {
    if (entry.path().extension() == ".state") return entry.path().string();
  }
  return "";
}

Result<DeviceState> World::device_state(std::uint32_t index, const RunOptions& options) const {
  GLEANER_ASSIGN(const auto settings, parse_run_settings(run_file(options), "run.toml"));
  const std::string file = state_file(index);
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  const std::string content = text.str();
  const RunId run{std::stoull(fs::path(file).stem().string(), nullptr, 16)};
  return device_state_from(as_bytes(content), run, MemoryKind::residual, settings.spec.dimension);
}

}  // namespace gleaner::testing
