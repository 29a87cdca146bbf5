#include "client/config.hpp"

#include <fmt/format.h>

#include "config/paths.hpp"
#include "config/reading.hpp"
#include "config/reference.hpp"

namespace gleaner {
namespace {

using config::Key;
using config::Need;

constexpr std::uint32_t kDevicesMax = 1'000'000;

std::vector<Key> data_keys(DataBinding& data) {
  return {
      {.name = "path",
       .kind = config::readable_directory(data.path),
       .description = "The directory with this device's data: IDX files, plain or gzip, or those of CIFAR or LEAF.",
       .need = Need::required},
      {.name = "split",
       .kind = config::one_of(data.split, {"iid", "dirichlet"}),
       .description = "For demonstrations and tests: take only a share of a common data set, cut out this way. "
                      "Without it all samples are used."},
      {.name = "alpha",
       .kind = config::number(data.alpha, {.least = 1e-4, .most = 1e6}),
       .description = "Concentration of split dirichlet: small is skewed, large is even."},
      {.name = "devices",
       .kind = config::integer(data.devices, {1, kDevicesMax}),
       .description = "Into how many shares the data set is split."},
      {.name = "index",
       .kind = config::integer(data.index, {0, kDevicesMax - 1}),
       .description = "Which share is this device's, from 0."},
      {.name = "split_seed",
       .kind = config::integer(data.split_seed),
       .description = "Seed of the split; the same on all devices."},
      {.name = "samples_min",
       .kind = config::integer(data.samples_min, {1, 1'000'000'000}),
       .description = "The fewest samples that any share may have."},
  };
}

config::Schema schema_of(ClientConfig& client) {
  config::Schema schema;
  schema.sections = {
      {"client",
       "The device and its coordinator.",
       {{.name = "coordinator",
         .kind = config::endpoint(client.host, client.port, config::Ports::given),
         .description = "Where the coordinator listens; the port is 7433 when it is left out.",
         .need = Need::required},
        {.name = "server_name",
         .kind = config::text(client.server_name),
         .description = "The name that the coordinator's certificate must carry, when it is not the host above."},
        {.name = "state_directory",
         .kind = config::directory_to_write(client.state_directory),
         .description = "Where models and residuals are kept, one subfolder a run; made when it is not there."},
        {.name = "backend",
         .kind = config::one_of(client.backend, {"auto", "cpu", "cuda", "reference"}),
         .description = "What the kernels run on; `auto` says in the log what it chose."}}},
      {"tls",
       "Files in PEM format, read again on SIGHUP. The name in the certificate is the device's name.",
       {{.name = "ca",
         .kind = config::readable_file(client.ca),
         .description = "Certificates of the authorities that may vouch for the coordinator.",
         .need = Need::required},
        {.name = "certificate",
         .kind = config::readable_file(client.certificate),
         .description = "This device's certificate, with the intermediate ones after it.",
         .need = Need::required},
        {.name = "key",
         .kind = config::readable_file(client.key),
         .description = "The private key of the certificate.",
         .need = Need::required}}},
      {"retry",
       "How long to wait between attempts to connect; the wait doubles from the one to the other.",
       {{.name = "min",
         .kind = config::duration(client.retry_min, {std::chrono::milliseconds(10), std::chrono::hours(1)}),
         .description = "The first wait."},
        {.name = "max",
         .kind = config::duration(client.retry_max, {std::chrono::milliseconds(10), std::chrono::hours(24)}),
         .description = "The longest wait, whatever a coordinator asks for: so long may a device take that was "
                        "allowed again."}}},
      {"log",
       "What is logged, and where to.",
       {{.name = "level",
         .kind = config::log_level(client.log_level),
         .description = "The least important lines that are written."},
        {.name = "file",
         .kind = config::file_to_write(client.log_file),
         .description = "The file that lines are appended to; standard error when there is none."}}},
  };
  schema.named = {{"data",
                   "Data that the device offers under a name, which a run's file asks for. One section a data set, at "
                   "least one.",
                   [&client](const std::string& name) { return data_keys(client.data[name]); }}};
  return schema;
}

void check_data(const std::string& name, const DataBinding& data, config::Reading& reading) {
  const auto key = [&](const char* last) { return fmt::format("data.{}.{}", name, last); };
  if (reading.sound({key("index"), key("devices")}) && data.index >= data.devices) {
    reading.mistake(key("index"), fmt::format("is {}, expected less than the {} devices that the data is split into",
                                              data.index, data.devices));
  }
  if (!reading.sound({key("split")})) return;
  for (const char* last : {"devices", "index", "split_seed", "samples_min"}) {
    if (data.split.empty() && reading.given(key(last))) {
      reading.mistake(key(last), R"(has no effect without split; add split = "iid" or "dirichlet", or remove it)");
    }
  }
  if (data.split != "dirichlet" && reading.given(key("alpha"))) {
    reading.mistake(key("alpha"), R"(has no effect without split = "dirichlet"; add that, or remove it)");
  }
}

}  // namespace

Result<ClientConfig> load_client_config(const std::string& path) {
  GLEANER_ASSIGN(const std::string text, config::read_file(path));
  ClientConfig client;
  config::Reading reading(text, path);
  reading.bind(schema_of(client));
  if (reading.sound({"retry.min", "retry.max"}) && client.retry_min > client.retry_max) {
    reading.mistake(reading.given("retry.min") ? "retry.min" : "retry.max",
                    "the first wait is longer than the longest, expected retry.min of at most retry.max");
  }
  if (client.data.empty() && reading.complete() && reading.sound({"data"})) {
    reading.mistake("data", "is missing, expected at least one section [data.NAME] with a path");
  }
  for (const auto& [name, data] : client.data) check_data(name, data, reading);
  GLEANER_TRY(reading.status());
  return client;
}

std::string client_config_reference() {
  ClientConfig client;
  return config::to_markdown(schema_of(client), "###");
}

}  // namespace gleaner
