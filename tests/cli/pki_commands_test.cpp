#include <gmock/gmock.h>
#include <sys/stat.h>

#include <boost/json.hpp>

#include "protocol/pki/certificate.hpp"
#include "tests/cli/cli_run.hpp"

namespace gleaner::cli {
namespace {

namespace json = boost::json;
using testing::ElementsAre;
using testing::HasSubstr;

class PkiCommands : public InTemporaryFolder {
 protected:
  std::string dir() const { return path("pki"); }
  std::string file(const std::string& name) const { return dir() + "/" + name; }
  Ran issue(std::vector<std::string> args) const {
    args.insert(args.begin(), {"pki", "issue"});
    args.insert(args.end(), {"--dir", dir()});
    return run_cli(std::move(args));
  }
};

TEST_F(PkiCommands, InitAndIssueMakeCertificatesThatFit) {
  ASSERT_EQ(run_cli({"pki", "init", dir(), "--name", "hospital"}).code, kOk);
  ASSERT_EQ(issue({"jetson-1"}).code, kOk);
  ASSERT_EQ(issue({"server", "--kind", "coordinator", "--dns", "a.example", "--dns", "b.example", "--ip", "::1"}).code,
            kOk);
  ASSERT_EQ(issue({"alice", "--kind", "operator"}).code, kOk);
  for (const char* name : {"jetson-1", "server", "alice"}) {
    const std::string stem = file(name);
    EXPECT_TRUE(pki::check_issued_by(stem + ".pem", file("ca.pem")));
    EXPECT_TRUE(pki::check_key_matches(stem + ".pem", stem + ".key"));
    struct stat status{};
    ASSERT_EQ(::stat((stem + ".key").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
  }
  EXPECT_THAT(pki::inspect(file("jetson-1.pem"))->uris, ElementsAre("urn:gleaner:device:jetson-1"));
  EXPECT_THAT(pki::inspect(file("alice.pem"))->uris, ElementsAre("urn:gleaner:operator:alice"));
  const auto server = pki::inspect(file("server.pem"));
  EXPECT_THAT(server->dns, ElementsAre("a.example", "b.example"));
  EXPECT_THAT(server->ips, ElementsAre("::1"));
}

TEST_F(PkiCommands, NothingIsOverwritten) {
  ASSERT_EQ(run_cli({"pki", "init", dir()}).code, kOk);
  EXPECT_EQ(run_cli({"pki", "init", dir()}).code, kConflict);
  ASSERT_EQ(issue({"a"}).code, kOk);
  EXPECT_EQ(issue({"a"}).code, kConflict);
  EXPECT_EQ(issue({"ca"}).code, kUsage);
}

TEST_F(PkiCommands, MistakesAreNamed) {
  ASSERT_EQ(run_cli({"pki", "init", dir()}).code, kOk);
  const auto mistakes = std::vector<std::pair<std::vector<std::string>, std::string>>{
      {{"server", "--kind", "coordinator"}, "--dns"},
      {{"a", "--dns", "a.example"}, "--kind coordinator"},
      {{"a", "--kind", "boss"}, "device, coordinator or operator"},
      {{"Not A Name"}, "Not A Name"},
      {{"a", "--days", "0"}, "--days"}};
  for (const auto& [args, expected] : mistakes) {
    const Ran ran = issue(args);
    EXPECT_EQ(ran.code, kUsage) << expected;
    EXPECT_THAT(ran.err, HasSubstr(expected));
  }
  EXPECT_EQ(run_cli({"pki", "issue", "a", "--dir", path("nowhere")}).code, kUsage);
}

TEST_F(PkiCommands, ShowSaysWhatIsInACertificate) {
  ASSERT_EQ(run_cli({"pki", "init", dir(), "--name", "hospital"}).code, kOk);
  ASSERT_EQ(issue({"jetson-1", "--days", "10"}).code, kOk);
  const Ran text = run_cli({"pki", "show", file("jetson-1.pem")});
  EXPECT_EQ(text.code, kOk);
  EXPECT_THAT(text.out, HasSubstr("uri       urn:gleaner:device:jetson-1\n"));
  EXPECT_THAT(text.out, HasSubstr("issuer    hospital\n"));
  EXPECT_THAT(text.out, HasSubstr("now       valid\n"));
  const Ran as_json = run_cli({"pki", "show", file("ca.pem"), "--json"});
  EXPECT_TRUE(json::parse(as_json.out).at("is_ca").as_bool());
  write("garbage.pem", "not a certificate");
  EXPECT_EQ(run_cli({"pki", "show", path("garbage.pem")}).code, kUsage);
  EXPECT_EQ(run_cli({"pki", "show", path("missing.pem")}).code, kUsage);
}

}  // namespace
}  // namespace gleaner::cli
