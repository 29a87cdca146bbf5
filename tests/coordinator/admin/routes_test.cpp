#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cstring>

#include "coordinator/admin/client.hpp"
#include "coordinator/admin/codes.hpp"
#include "coordinator/admin/safetensors.hpp"
#include "coordinator/admin/unix_socket.hpp"
#include "tests/coordinator/admin/fake_backend.hpp"
#include "tests/coordinator/admin/raw_peer.hpp"

namespace gleaner {
namespace {

namespace json = boost::json;
using testing::ElementsAre;
using testing::HasSubstr;

class Routes : public testing::Test {
 protected:
  std::string ask(const std::string& method, const std::string& target, const std::string& body = "") {
    return ask_unix(server_.socket(), fmt::format("{} {} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: "
                                                  "{}\r\n\r\n{}",
                                                  method, target, body.size(), body));
  }
  json::value ask_json(const std::string& method, const std::string& target, const std::string& body = "") {
    const std::string reply = ask(method, target, body);
    EXPECT_EQ(status_of(reply), 200) << reply;
    return json::parse(body_of(reply));
  }
  std::string last_call() { return server_.backend().calls().back(); }

  RunningServer server_;
  const std::string me_ = [] {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    std::string name = admin::peer_user(ends[0]);
    ::close(ends[0]);
    ::close(ends[1]);
    return name;
  }();
};

TEST_F(Routes, ListsRuns) {
  const json::value reply = ask_json("GET", "/v1/runs");
  ASSERT_EQ(reply.at("runs").as_array().size(), 2U);
  const json::value& run = reply.at("runs").at(0);
  EXPECT_EQ(run.at("name").as_string(), "demo");
  EXPECT_EQ(run.at("id").as_string(), "abcdef0123456789");
  EXPECT_EQ(run.at("state").as_string(), "active");
  EXPECT_EQ(run.at("evaluation").at("accuracy").as_double(), 0.8321);
  EXPECT_EQ(run.at("traffic").at("up_bytes").to_number<int>(), 1'000'000);
}

TEST_F(Routes, ShowsARunWithSoManyRounds) {
  const json::value reply = ask_json("GET", "/v1/runs/demo?rounds=3");
  EXPECT_EQ(last_call(), "show_run demo 3");
  EXPECT_EQ(reply.at("run").at("name").as_string(), "demo");
  ASSERT_EQ(reply.at("rounds").as_array().size(), 3U);
  EXPECT_TRUE(reply.at("rounds").at(1).at("accuracy").is_null());
  ask_json("GET", "/v1/runs/demo");
  EXPECT_EQ(last_call(), "show_run demo 10");
}

TEST_F(Routes, ChangesCarryTheUserAtTheOtherEnd) {
  ask_json("POST", "/v1/runs?path=%2Fetc%2Frun.toml", "[run]\n");
  EXPECT_EQ(last_call(), "start_run " + me_ + " /etc/run.toml [run]\n");
  EXPECT_EQ(ask_json("POST", "/v1/runs/demo/pause").at("state").as_string(), "paused");
  EXPECT_EQ(last_call(), "pause_run " + me_ + " demo");
  EXPECT_EQ(ask_json("POST", "/v1/runs/demo/resume").at("state").as_string(), "active");
  EXPECT_EQ(last_call(), "resume_run " + me_ + " demo");
  EXPECT_EQ(ask_json("POST", "/v1/runs/demo/stop").at("state").as_string(), "stopped");
  EXPECT_EQ(last_call(), "stop_run " + me_ + " demo");
  ask_json("POST", "/v1/devices/phone-3/revoke");
  EXPECT_EQ(last_call(), "revoke " + me_ + " phone-3");
  ask_json("POST", "/v1/devices/phone-3/revoke?unseen=1");
  EXPECT_EQ(last_call(), "revoke " + me_ + " phone-3 unseen");
  ask_json("POST", "/v1/devices/phone-3/allow");
  EXPECT_EQ(last_call(), "allow " + me_ + " phone-3");
  ask_json("POST", "/v1/database/backup?path=%2Fbackup%2Fa.db");
  EXPECT_EQ(last_call(), "backup " + me_ + " /backup/a.db");
}

TEST_F(Routes, DevicesDatabaseAndAudit) {
  const json::value devices = ask_json("GET", "/v1/devices");
  EXPECT_EQ(devices.at("devices").as_array().size(), 3U);
  EXPECT_TRUE(devices.at("devices").at(2).at("revoked").as_bool());
  ask_json("POST", "/v1/database/check");
  EXPECT_EQ(last_call(), "check_database");
  const json::value audit = ask_json("GET", "/v1/audit?count=7");
  EXPECT_EQ(last_call(), "audit_log 7");
  EXPECT_EQ(audit.at("entries").as_array().size(), 1U);
}

TEST_F(Routes, ModelIsASafetensorsFile) {
  const std::string reply = ask("GET", "/v1/runs/demo/model");
  EXPECT_EQ(status_of(reply), 200);
  const ExportedModel model = sample_model("mlp");
  const std::string body = body_of(reply);
  const std::string header = *admin::safetensors_header(model);
  const std::size_t bytes = model.parameters.size() * sizeof(float);
  ASSERT_EQ(body.size(), header.size() + bytes);
  EXPECT_TRUE(body.starts_with(header));
  EXPECT_EQ(std::memcmp(body.data() + header.size(), model.parameters.data(), bytes), 0);
}

TEST_F(Routes, ErrorsHaveACodeAMessageAndAStatus) {
  for (const admin::CodeRow& row : admin::kCodes) {
    server_.backend().fail_with(Error(row.code, "what went wrong"));
    for (const char* target : {"/v1/runs", "/v1/runs/demo", "/v1/runs/demo/model", "/v1/devices", "/v1/audit"}) {
      const std::string reply = ask("GET", target);
      EXPECT_EQ(status_of(reply), static_cast<int>(row.http_status));
      EXPECT_EQ(body_of(reply), fmt::format("{{\"code\":\"{}\",\"message\":\"what went wrong\"}}\n", row.name));
    }
  }
}

TEST_F(Routes, MistakesInRequestsNeverReachTheBackend) {
  const std::vector<std::tuple<const char*, const char*, int>> mistakes = {
      {"GET", "/?x=1", 400},
      {"POST", "/", 405},
      {"GET", "/v1", 404},
      {"GET", "/v2/runs", 404},
      {"GET", "/v1/runs/Bad%20Name", 404},
      {"GET", "/v1/runs/..", 400},
      {"GET", "/v1/runs?x=1", 400},
      {"GET", "/v1/runs/demo?rounds=0", 400},
      {"GET", "/v1/runs/demo?rounds=many", 400},
      {"GET", "/v1/audit?count=1000000", 400},
      {"DELETE", "/v1/runs/demo", 405},
      {"GET", "/v1/runs/demo/stop", 405},
      {"POST", "/v1/devices", 405},
      {"POST", "/v1/runs?path=%2Fa", 400},
      {"POST", "/v1/database/backup", 400},
      {"POST", "/v1/database/backup?path=relative.db", 400},
      {"BREW", "/v1/runs", 405}};
  for (const auto& [method, target, status] : mistakes) {
    const std::string reply = ask(method, target);
    EXPECT_EQ(status_of(reply), status) << method << " " << target;
    EXPECT_TRUE(json::parse(body_of(reply)).as_object().contains("message"));
  }
  EXPECT_EQ(status_of(ask("POST", "/v1/runs", "[run]\n")), 400) << "a run needs its file's path";
  EXPECT_THAT(server_.backend().calls(), ElementsAre());
}

TEST_F(Routes, HealthIsThatItLivesAndReadinessThatItServes) {
  for (const char* target : {"/healthz", "/readyz"}) {
    const json::value reply = ask_json("GET", target);
    EXPECT_TRUE(reply.at("serving").as_bool());
    EXPECT_FALSE(reply.at("suspended").as_bool());
    EXPECT_EQ(reply.at("reason").as_string(), "");
  }
  server_.backend().set_serving(false);
  const json::value health = ask_json("GET", "/healthz");
  EXPECT_FALSE(health.at("serving").as_bool());
  EXPECT_TRUE(health.at("suspended").as_bool());
  EXPECT_THAT(std::string(health.at("reason").as_string()), HasSubstr("the disk is full"));
  const std::string ready = ask("GET", "/readyz");
  EXPECT_EQ(status_of(ready), 503);
  EXPECT_EQ(json::parse(body_of(ready)), health);
}

TEST_F(Routes, ABackendThatDoesNotAnswerFailsAScrapeAndNoMore) {
  server_.backend().fail_with(Error(ErrorCode::retry, "the database is busy"));
  for (const char* target : {"/metrics", "/"}) EXPECT_EQ(status_of(ask("GET", target)), 503);
  EXPECT_EQ(status_of(ask("GET", "/healthz")), 200);
}

TEST_F(Routes, ThePortServesPageMetricsAndHealthOnly) {
  const auto ask_port = [&](const std::string& request_line) {
    return ask_tcp(server_.http_port(), request_line + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  };
  const std::string metrics = ask_port("GET /metrics");
  EXPECT_EQ(status_of(metrics), 200);
  EXPECT_THAT(metrics, HasSubstr("Content-Type: text/plain; version=0.0.4"));
  EXPECT_EQ(body_of(metrics), "gleaner_fake 1\n");
  EXPECT_EQ(status_of(ask_port("GET /healthz")), 200);
  EXPECT_EQ(status_of(ask_port("GET /readyz")), 200);
  const std::string page = ask_port("GET /");
  EXPECT_EQ(status_of(page), 200);
  EXPECT_THAT(page, HasSubstr("Content-Type: text/html; charset=utf-8"));
  EXPECT_THAT(body_of(page), HasSubstr("<td>jetson-1</td>"));
  const std::string head = ask_port("HEAD /metrics");
  EXPECT_EQ(status_of(head), 200);
  EXPECT_EQ(body_of(head), "");
  for (const char* line : {"GET /v1/runs", "GET /v1/devices", "POST /v1/database/check", "GET /v1/audit"}) {
    EXPECT_EQ(status_of(ask_port(line)), 404) << line;
  }
  EXPECT_EQ(status_of(ask_port("POST /metrics")), 405);
  EXPECT_EQ(status_of(ask_port("POST /")), 405);
  EXPECT_THAT(server_.backend().calls(), ElementsAre("metrics", "overview", "metrics"));
}

TEST_F(Routes, TheClientSpeaksTheSameLanguage) {
  auto client = AdminClient::connect(server_.socket());
  ASSERT_TRUE(client);
  const auto runs = client->get("/v1/runs");
  ASSERT_TRUE(runs);
  EXPECT_EQ(json::parse(*runs).at("runs").as_array().size(), 2U);
  ASSERT_TRUE(client->post("/v1/runs/demo/pause")) << "the connection serves more than one request";
  std::string model;
  const auto sink = [&](ByteView piece, std::uint64_t) -> Status {
    model += as_text(piece);
    return {};
  };
  ASSERT_TRUE(client->download("/v1/runs/demo/model", sink));
  EXPECT_EQ(model, body_of(ask("GET", "/v1/runs/demo/model")));
  server_.backend().fail_with(Error(ErrorCode::conflict, "busy"));
  const auto refused = client->get("/v1/runs");
  ASSERT_FALSE(refused);
  for (const Status& status : {client->download("/v1/runs/demo/model", sink), Status(fail(refused.error()))}) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code(), ErrorCode::conflict);
    EXPECT_EQ(status.error().message(), "busy");
  }
}

}  // namespace
}  // namespace gleaner
