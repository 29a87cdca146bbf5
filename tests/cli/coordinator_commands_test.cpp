// The commands that talk to a coordinator, against its administration with a made-up backend.

#include <gmock/gmock.h>

#include <boost/json.hpp>

#include "coordinator/admin/safetensors.hpp"
#include "tests/cli/cli_run.hpp"

namespace gleaner::cli {
namespace {

namespace json = boost::json;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class CoordinatorCommands : public InTemporaryFolder {
 protected:
  Ran ask(std::vector<std::string> args, const Terminal& terminal = {}) {
    args.insert(args.end(), {"--socket", server_.socket()});
    return run_cli(std::move(args), terminal);
  }
  std::string last_call() { return server_.backend().calls().back(); }

  RunningServer server_;
};

TEST_F(CoordinatorCommands, RunListIsATable) {
  const Ran ran = ask({"run", "list"});
  EXPECT_EQ(ran.code, kOk);
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out, StartsWith("RUN    STATE       RECIPE  ROUND  DEVICES  ACCURACY       UP     DOWN  STARTED\n"
                                  "demo   collecting  gsasg   12/60     8/10   83.21 %  1.00 MB  2.00 MB  "));
  EXPECT_THAT(ran.out, Not(HasSubstr("\x1b")));
}

TEST(RemoteCommands, AnOperatorsCertificateOpensTheTlsPort) {
  const OperatorPki pki;
  pki.issue("ca", pki::Role::operator_, "alice");
  RunningServer server({}, pki.server());
  const std::string place = "127.0.0.1:" + std::to_string(server.tls_port());
  const std::vector<std::string> all = {
      "--remote", place, "--ca", pki.path("ca.pem"), "--cert", pki.path("alice.pem"), "--key", pki.path("alice.key")};
  const auto ask = [](std::vector<std::string> args, const std::vector<std::string>& more) {
    args.insert(args.end(), more.begin(), more.end());
    return run_cli(args);
  };
  const Ran ran = ask({"run", "list"}, all);
  EXPECT_EQ(ran.code, kOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("\nnight "));
  const Ran missing = ask({"run", "list"}, {all.begin(), all.begin() + 4});
  EXPECT_EQ(missing.code, kUsage);
  EXPECT_THAT(missing.err, HasSubstr("--remote needs --ca, --cert and --key"));
  const Ran without = ask({"run", "list"}, {all.begin() + 2, all.end()});
  EXPECT_EQ(without.code, kUsage);
  EXPECT_THAT(without.err, HasSubstr("need --remote"));
  const Ran both = ask({"run", "list", "--socket", server.socket()}, all);
  EXPECT_EQ(both.code, kUsage);
  server.stop();
  const Ran gone = ask({"run", "list"}, all);
  EXPECT_EQ(gone.code, kUnreachable);
  EXPECT_THAT(gone.err, HasSubstr("cannot reach the coordinator at " + place));
}

TEST_F(CoordinatorCommands, JsonIsWhatTheCoordinatorSent) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"run", "list", "--json"}, {"--json", "run", "list"}, {"run", "--json", "list"}}) {
    const Ran ran = ask(args);
    EXPECT_EQ(ran.code, kOk);
    EXPECT_EQ(json::parse(ran.out).at("runs").at(1).at("name").as_string(), "night");
  }
  EXPECT_EQ(json::parse(ask({"devices", "--json"}).out).at("devices").as_array().size(), 3U);
  EXPECT_EQ(json::parse(ask({"audit", "--json"}).out).at("entries").as_array().size(), 1U);
  EXPECT_EQ(json::parse(ask({"run", "show", "demo", "--json"}).out).at("rounds").as_array().size(), 10U);
}

TEST_F(CoordinatorCommands, RunShowHasFactsAndRounds) {
  const Ran ran = ask({"run", "show", "demo", "--rounds", "3"});
  EXPECT_EQ(ran.code, kOk);
  EXPECT_EQ(last_call(), "show_run demo 3");
  EXPECT_THAT(ran.out, HasSubstr("state       collecting (waiting for 3 answers)\n"));
  EXPECT_THAT(ran.out, HasSubstr("up          1.00 MB  1/50 of dense\n"));
  EXPECT_THAT(ran.out, HasSubstr("    3        3        8      0        0  0 B   0 B  1.5 s   52.00 %     -\n"));
}

TEST_F(CoordinatorCommands, RunStartSendsTheFileAndItsPlace) {
  write("night.toml", "[run]\nname = \"night\"\n");
  const Ran ran = ask({"run", "start", path("night.toml")});
  EXPECT_EQ(ran.code, kOk) << ran.err;
  EXPECT_THAT(last_call(), HasSubstr(" " + path("night.toml") + " [run]\nname = \"night\"\n"));
  EXPECT_THAT(ran.out, HasSubstr("gleaner run show demo"));
  const Ran missing = ask({"run", "start", path("none.toml")});
  EXPECT_EQ(missing.code, kUsage);
  EXPECT_THAT(missing.err, HasSubstr(path("none.toml")));
}

TEST_F(CoordinatorCommands, PauseResumeStop) {
  EXPECT_EQ(ask({"run", "pause", "demo"}).out, "Run demo is paused.\n");
  EXPECT_EQ(ask({"run", "resume", "demo"}).code, kOk);
  EXPECT_THAT(last_call(), StartsWith("resume_run "));
  EXPECT_EQ(ask({"run", "stop", "demo", "--yes"}).out, "Run demo is stopped.\n");
  EXPECT_THAT(last_call(), EndsWith(" demo"));
}

TEST_F(CoordinatorCommands, StoppingIsAskedFor) {
  const Ran unasked = ask({"run", "stop", "demo"});
  EXPECT_EQ(unasked.code, kUsage);
  EXPECT_THAT(unasked.err, HasSubstr("--yes"));
  const Ran no = ask({"run", "stop", "demo"}, {.is_terminal = true, .typed = "\n"});
  EXPECT_EQ(no.code, kFailure);
  EXPECT_TRUE(server_.backend().calls().empty());
  const Ran yes = ask({"run", "stop", "demo"}, {.is_terminal = true, .typed = "y\n"});
  EXPECT_EQ(yes.code, kOk);
  EXPECT_THAT(last_call(), StartsWith("stop_run "));
}

TEST_F(CoordinatorCommands, ExportWritesAWholeFileOrNone) {
  const ExportedModel model = sample_model("mlp");
  const std::string header = *admin::safetensors_header(model);
  ASSERT_EQ(ask({"run", "export", "demo", path("m.safetensors")}).code, kOk);
  const std::string written = read("m.safetensors");
  EXPECT_EQ(written.size(), header.size() + model.parameters.size() * sizeof(float));
  EXPECT_THAT(written.substr(0, header.size()), header);
  const Ran again = ask({"run", "export", "demo", path("m.safetensors")});
  EXPECT_EQ(again.code, kConflict);
  EXPECT_THAT(again.err, HasSubstr("--force"));
  EXPECT_EQ(ask({"run", "export", "demo", path("m.safetensors"), "--force"}).code, kOk);
  server_.backend().fail_with(Error(ErrorCode::not_found, "no run is called demo"));
  EXPECT_EQ(ask({"run", "export", "demo", path("n.safetensors")}).code, kConflict);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "nothing half-written stays";
}

TEST_F(CoordinatorCommands, ExportShowsProgressOnATerminalOnly) {
  EXPECT_EQ(ask({"run", "export", "demo", path("a")}).err, "");
  const Ran ran = ask({"run", "export", "demo", path("b")}, {.is_terminal = true});
  EXPECT_THAT(ran.err, StartsWith("\r"));
}

TEST_F(CoordinatorCommands, DevicesAreListedRevokedAndAllowed) {
  const Ran list = ask({"devices"});
  EXPECT_EQ(list.code, kOk);
  EXPECT_THAT(list.out, HasSubstr("jetson-1  connected  192.0.2.7:50312  now"));
  EXPECT_THAT(list.out, HasSubstr("jetson-2  working "));
  EXPECT_THAT(list.out, HasSubstr("phone-3   revoked "));
  EXPECT_EQ(ask({"devices", "list"}).out, list.out);
  EXPECT_EQ(ask({"devices", "revoke", "phone-3"}).code, kOk);
  EXPECT_THAT(last_call(), StartsWith("revoke "));
  EXPECT_EQ(ask({"devices", "allow", "phone-3"}).code, kOk);
  EXPECT_THAT(last_call(), StartsWith("allow "));
}

TEST_F(CoordinatorCommands, DatabaseAndAudit) {
  EXPECT_EQ(ask({"db", "backup", path("copy.db")}).code, kOk);
  EXPECT_THAT(last_call(), EndsWith(" " + path("copy.db")));
  EXPECT_EQ(ask({"db", "check"}).code, kOk);
  EXPECT_EQ(last_call(), "check_database");
  EXPECT_EQ(ask({"audit", "--count", "3"}).out, "2026-01-01T00:00:00Z alice revoke phone-3\n");
  EXPECT_EQ(last_call(), "audit_log 3");
}

TEST_F(CoordinatorCommands, ExitCodesFollowTheError) {
  const std::vector<std::pair<ErrorCode, int>> expected = {
      {ErrorCode::bad_input, kUsage},    {ErrorCode::peer_fault, kFailure}, {ErrorCode::retry, kFailure},
      {ErrorCode::no_space, kFailure},   {ErrorCode::corrupt, kFailure},    {ErrorCode::conflict, kConflict},
      {ErrorCode::not_found, kConflict}, {ErrorCode::fatal, kFailure}};
  for (const auto& [code, exit_code] : expected) {
    server_.backend().fail_with(Error(code, "what went wrong"));
    for (const std::vector<std::string>& args : {std::vector<std::string>{"run", "list"},
                                                 {"run", "show", "demo"},
                                                 {"run", "pause", "demo"},
                                                 {"devices"},
                                                 {"devices", "revoke", "a"},
                                                 {"db", "check"},
                                                 {"audit"}}) {
      const Ran ran = ask(args);
      EXPECT_EQ(ran.code, exit_code);
      EXPECT_EQ(ran.err, "gleaner: what went wrong\n");
      EXPECT_EQ(ran.out, "");
    }
  }
  const Ran as_json = ask({"run", "list", "--json"});
  EXPECT_EQ(json::parse(as_json.out).at("message").as_string(), "what went wrong");
}

TEST_F(CoordinatorCommands, AnErrorsTextCannotDriveATerminal) {
  server_.backend().fail_with(Error(ErrorCode::fatal, "a\x1b[31mb"));
  EXPECT_EQ(ask({"run", "list"}).err, "gleaner: a?[31mb\n");
}

TEST_F(CoordinatorCommands, ANameStaysOneSegmentOfTheTarget) {
  EXPECT_EQ(ask({"run", "show", "demo/../../devices?x=1"}).code, kConflict);
  EXPECT_TRUE(server_.backend().calls().empty());
}

TEST_F(InTemporaryFolder, NobodyThereIsOneLineThatSaysWhatWasTried) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"run", "list"}, {"devices"}, {"audit"}}) {
    std::vector<std::string> with_socket = args;
    with_socket.insert(with_socket.end(), {"--socket", path("gleaner.sock")});
    const Ran ran = run_cli(with_socket);
    EXPECT_EQ(ran.code, kUnreachable);
    EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1);
    EXPECT_THAT(ran.err, HasSubstr(path("gleaner.sock")));
    EXPECT_THAT(ran.err, HasSubstr("gleaner-coordinator serve --config FILE"));
  }
}

TEST_F(InTemporaryFolder, AFileThatIsNoConfigurationIsBadInput) {
  write("coordinator.toml", "[coordinator]\nlisten = 5\n");
  const Ran ran = run_cli({"run", "list", "--config", path("coordinator.toml")});
  EXPECT_EQ(ran.code, kUsage);
  EXPECT_THAT(ran.err, HasSubstr("coordinator.toml:2"));
}

}  // namespace
}  // namespace gleaner::cli
