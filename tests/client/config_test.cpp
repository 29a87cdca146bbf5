#include "client/config.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/config/temp_folder.hpp"

namespace gleaner {
namespace {

using testing::HasSubstr;

class ClientConfigFile : public testing::Test {
 protected:
  ClientConfigFile() {
    for (const char* file : {"pki/ca.pem", "pki/device.pem", "pki/device.key", "images/a"}) folder_.write(file);
  }

  // A file that is right but for what the caller adds.
  Result<ClientConfig> load(const std::string& client, const std::string& rest) {
    const std::string head = R"([tls]
ca = "pki/ca.pem"
certificate = "pki/device.pem"
key = "pki/device.key"
[client]
coordinator = "example.org"
)";
    return load_text(head + client + rest);
  }
  Result<ClientConfig> load_text(const std::string& text) { return load_client_config(folder_.write("c.toml", text)); }

  std::string mistakes(const std::string& client, const std::string& rest) {
    const auto loaded = load(client, rest);
    if (loaded) return "";
    EXPECT_EQ(loaded.error().code(), ErrorCode::bad_input);
    // The folder differs from test to test.
    std::string text = loaded.error().message();
    const std::string prefix = folder_.path().string() + "/";
    for (auto at = text.find(prefix); at != std::string::npos; at = text.find(prefix)) text.erase(at, prefix.size());
    return text;
  }

  TempFolder folder_;
};

constexpr const char* kData = "[data.images]\npath = \"images\"\n";

TEST_F(ClientConfigFile, TheLeastThatIsNeededGivesTheDefaults) {
  const auto loaded = load("", kData);
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->host, "example.org");
  EXPECT_EQ(loaded->port, 7433);
  EXPECT_EQ(loaded->key, folder_ / "pki/device.key");
  EXPECT_EQ(loaded->state_directory, folder_ / "state") << "defaults are relative to the file too";
  EXPECT_EQ(loaded->log_file, "");
  EXPECT_EQ(loaded->retry_max, std::chrono::minutes(5));
  ASSERT_EQ(loaded->data.size(), 1U);
  EXPECT_EQ(loaded->data.at("images").path, folder_ / "images");
  EXPECT_EQ(loaded->data.at("images").split, "");
}

TEST_F(ClientConfigFile, EveryKeyIsRead) {
  const auto loaded = load(R"(server_name = "inside"
state_directory = "s"
backend = "cpu"
)",
                           R"([retry]
min = "2s"
max = "1h"
[log]
level = "debug"
file = "log/client.log"
[data.images]
path = "images"
split = "dirichlet"
alpha = 0.1
devices = 3
index = 2
split_seed = 9
samples_min = 4
[data.more]
path = "images"
)");
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->server_name, "inside");
  EXPECT_EQ(loaded->state_directory, folder_ / "s");
  EXPECT_EQ(loaded->backend, "cpu");
  EXPECT_EQ(loaded->retry_min, std::chrono::seconds(2));
  EXPECT_EQ(loaded->retry_max, std::chrono::hours(1));
  EXPECT_EQ(loaded->log_level, LogLevel::debug);
  EXPECT_EQ(loaded->log_file, folder_ / "log/client.log");
  const DataBinding& data = loaded->data.at("images");
  EXPECT_EQ(data.split, "dirichlet");
  EXPECT_EQ(data.alpha, 0.1);
  EXPECT_EQ(data.devices, 3U);
  EXPECT_EQ(data.index, 2U);
  EXPECT_EQ(data.split_seed, 9U);
  EXPECT_EQ(data.samples_min, 4U);
  EXPECT_EQ(loaded->data.size(), 2U);
}

TEST_F(ClientConfigFile, AllThatIsMissingIsNamedAtOnce) {
  const auto loaded = load_text("");
  ASSERT_FALSE(loaded);
  const std::string& all = loaded.error().message();
  for (const char* key : {"client.coordinator", "tls.ca", "tls.certificate", "tls.key", "data"}) {
    EXPECT_THAT(all, HasSubstr(fmt::format(":1: {}: is missing, expected ", key)));
  }
}

TEST_F(ClientConfigFile, MistakesOfEveryKind) {
  EXPECT_EQ(
      mistakes("state_directory = \"pki/ca.pem/x\"\n", R"([retry]
min = "10s"
max = "5s"
[data.images]
path = "imagse"
split = "dirichlett"
devices = 2
index = 2
[data.rest]
path = "images"
alpha = 1
devices = 4
)"),
      "c.toml:7: client.state_directory: is no directory: pki/ca.pem, expected the path of a directory that can be "
      "written\n"
      "c.toml:9: retry.min: the first wait is longer than the longest, expected retry.min of at most retry.max\n"
      "c.toml:12: data.images.path: no such directory: imagse, expected the path of a readable directory\n"
      "c.toml:13: data.images.split: is the string \"dirichlett\", expected \"iid\" or \"dirichlet\"; did you mean "
      "\"dirichlet\"?\n"
      "c.toml:15: data.images.index: is 2, expected less than the 2 devices that the data is split into\n"
      "c.toml:18: data.rest.alpha: has no effect without split = \"dirichlet\"; add that, or remove it\n"
      "c.toml:19: data.rest.devices: has no effect without split; add split = \"iid\" or \"dirichlet\", or remove "
      "it");
}

TEST_F(ClientConfigFile, ALongerFirstWaitThanTheDefaultMaximumIsFound) {
  EXPECT_EQ(mistakes("", "[retry]\nmin = \"6m\"\n" + std::string(kData)),
            "c.toml:8: retry.min: the first wait is longer than the longest, expected retry.min of at most retry.max");
}

TEST_F(ClientConfigFile, PortZeroIsNoCoordinator) {
  const auto loaded = load_text("[client]\ncoordinator = \"a:0\"\n");
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message(),
              HasSubstr("client.coordinator: is the string \"a:0\", whose port is 0, expected"));
}

TEST_F(ClientConfigFile, TheExampleLoads) {
  std::ifstream file(std::string(GLEANER_EXAMPLES) + "/client.toml");
  std::ostringstream text;
  text << file.rdbuf();
  const auto loaded = load_text(text.str());
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->data.at("fashion-mnist").devices, 8U);
}

}  // namespace
}  // namespace gleaner
