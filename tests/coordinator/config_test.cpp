#include "coordinator/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/config/temp_folder.hpp"

namespace gleaner {
namespace {

using testing::HasSubstr;

class CoordinatorConfigFile : public testing::Test {
 protected:
  CoordinatorConfigFile() {
    for (const char* file : {"pki/ca.pem", "pki/coordinator.pem", "pki/coordinator.key"}) folder_.write(file);
  }

  Result<CoordinatorConfig> load_text(const std::string& text) {
    return load_coordinator_config(folder_.write("c.toml", text));
  }
  Result<CoordinatorConfig> load(const std::string& rest) {
    return load_text(
        "[tls]\nca = \"pki/ca.pem\"\ncertificate = \"pki/coordinator.pem\"\nkey = \"pki/coordinator.key\"\n" + rest);
  }

  std::string mistakes(const std::string& rest) {
    const auto loaded = load(rest);
    if (loaded) return "";
    EXPECT_EQ(loaded.error().code(), ErrorCode::bad_input);
    std::string text = loaded.error().message();
    const std::string prefix = folder_.path().string() + "/";
    for (auto at = text.find(prefix); at != std::string::npos; at = text.find(prefix)) text.erase(at, prefix.size());
    return text;
  }

  TempFolder folder_;
};

TEST_F(CoordinatorConfigFile, TheLeastThatIsNeededGivesTheDefaults) {
  const auto loaded = load("");
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->listen.host, "::");
  EXPECT_EQ(loaded->listen.port, 7433);
  EXPECT_EQ(loaded->http.host, "127.0.0.1");
  EXPECT_EQ(loaded->database, folder_ / "gleaner.db");
  EXPECT_EQ(loaded->admin_socket, folder_ / "gleaner.sock");
  EXPECT_EQ(loaded->deny_list, "");
  EXPECT_EQ(loaded->inflight_bytes_max, 64ULL << 20);
}

TEST_F(CoordinatorConfigFile, EveryKeyIsRead) {
  folder_.write("deny");
  const auto loaded = load(R"(deny_list = "deny"
[coordinator]
listen = "0.0.0.0:0"
database = "db/runs.db"
workers = 3
backend = "cuda"
[admin]
socket = "admin.sock"
http = "[::1]"
[limits]
connections_max = 10
inflight_bytes_max = "2MiB"
payload_bytes_per_device_max = 1048576
heartbeat = "5s"
handshake_timeout = "2s"
[log]
level = "error"
file = "a.log"
)");
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->deny_list, folder_ / "deny");
  EXPECT_EQ(loaded->listen.host, "0.0.0.0");
  EXPECT_EQ(loaded->listen.port, 0);
  EXPECT_EQ(loaded->database, folder_ / "db/runs.db");
  EXPECT_EQ(loaded->workers, 3U);
  EXPECT_EQ(loaded->backend, "cuda");
  EXPECT_EQ(loaded->admin_socket, folder_ / "admin.sock");
  EXPECT_EQ(loaded->http.host, "::1");
  EXPECT_EQ(loaded->http.port, 7480);
  EXPECT_EQ(loaded->connections_max, 10U);
  EXPECT_EQ(loaded->inflight_bytes_max, 2ULL << 20);
  EXPECT_EQ(loaded->payload_bytes_per_device_max, 1ULL << 20);
  EXPECT_EQ(loaded->heartbeat, std::chrono::seconds(5));
  EXPECT_EQ(loaded->handshake_timeout, std::chrono::seconds(2));
  EXPECT_EQ(loaded->log_level, LogLevel::error);
  EXPECT_EQ(loaded->log_file, folder_ / "a.log");
}

TEST_F(CoordinatorConfigFile, MistakesOfEveryKindAtOnce) {
  const std::string address =
      R"(, expected "ADDRESS:PORT" such as "0.0.0.0:7433" or "[::]:7433"; port 0 is any free one)";
  EXPECT_EQ(mistakes(R"(deny_lst = "x"
[coordinator]
listen = "::1:7433"
database = ""
workers = -1
backend = "gpu"
[admin]
http = "127.0.0.1:99999"
[limits]
heartbeat = 30
inflight_bytes_max = "1KiB"
[logs]
level = "info"
)"),
            R"(c.toml:5: tls.deny_lst: unknown key; did you mean deny_list?
c.toml:7: coordinator.listen: is the string "::1:7433", whose IPv6 address stands in no brackets)" +
                address + R"(
c.toml:8: coordinator.database: is empty, expected the path of a file that can be written
c.toml:9: coordinator.workers: is the integer -1, expected an integer from 0 to 1024
c.toml:10: coordinator.backend: is the string "gpu", expected "auto", "cpu", "cuda" or "reference"; did you mean "cpu"?
c.toml:12: admin.http: is the string "127.0.0.1:99999", whose port is no number from 0 to 65535)" +
                address + R"(
c.toml:14: limits.heartbeat: is the integer 30, expected a duration from 1s to 10m such as "30s", "1500ms" or "5m"
c.toml:15: limits.inflight_bytes_max: is the string "1KiB", expected a size from 1MiB to 1TiB such as "64MiB", or bytes
c.toml:16: logs: unknown section; did you mean [log]?)");
}

TEST_F(CoordinatorConfigFile, MissingCertificatesNameTheAbsolutePath) {
  const auto loaded = load_text("[tls]\nca = \"ca.pem\"\ncertificate = \"pki/coordinator.pem\"\n");
  ASSERT_FALSE(loaded);
  const std::string file = folder_ / "c.toml";
  EXPECT_EQ(loaded.error().message(), file + ":1: tls.key: is missing, expected the path of a readable file\n" + file +
                                          ":2: tls.ca: no such file: " + (folder_ / "ca.pem") +
                                          ", expected the path of a readable file");
}

TEST_F(CoordinatorConfigFile, TwoListenersNeedTwoPorts) {
  EXPECT_EQ(mistakes("[admin]\nhttp = \"127.0.0.1:7433\"\n"),
            "c.toml:6: admin.http: listens on port 7433 like coordinator.listen ([::]:7433), expected another port");
  EXPECT_EQ(
      mistakes("[coordinator]\nlisten = \"127.0.0.1:7480\"\n"),
      "c.toml:6: coordinator.listen: listens on port 7480 like admin.http (127.0.0.1:7480), expected another port");
  EXPECT_EQ(mistakes("[coordinator]\nlisten = \"10.0.0.1:7480\"\n"), "") << "another address";
  EXPECT_EQ(mistakes("[admin]\ntls = \"[::]:7433\"\n"),
            "c.toml:6: admin.tls: listens on port 7433 like coordinator.listen ([::]:7433), expected another port");
  EXPECT_EQ(mistakes("[admin]\ntls = \"[::]:7480\"\n"),
            "c.toml:6: admin.tls: listens on port 7480 like admin.http (127.0.0.1:7480), expected another port");
  EXPECT_EQ(mistakes("[admin]\ntls = \"[::]\"\n"), "");
  EXPECT_EQ(mistakes("[coordinator]\nlisten = \"[::]:0\"\n[admin]\nhttp = \"[::]:0\"\n"), "")
      << "any free ports differ";
}

TEST_F(CoordinatorConfigFile, SocketAndDatabaseAreTwoFiles) {
  EXPECT_EQ(mistakes("[admin]\nsocket = \"gleaner.db\"\n"),
            "c.toml:6: admin.socket: is the path of coordinator.database: gleaner.db, expected another");
}

TEST_F(CoordinatorConfigFile, NoFile) {
  const auto loaded = load_coordinator_config(folder_ / "none.toml");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code(), ErrorCode::bad_input);
  EXPECT_THAT(loaded.error().message(), HasSubstr("No such file or directory (tried " + (folder_ / "none.toml") + ")"));
}

TEST_F(CoordinatorConfigFile, TheExampleLoads) {
  std::ifstream file(std::string(GLEANER_EXAMPLES) + "/coordinator.toml");
  std::ostringstream text;
  text << file.rdbuf();
  const auto loaded = load_text(text.str());
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->certificate, folder_ / "pki/coordinator.pem");
}

}  // namespace
}  // namespace gleaner
