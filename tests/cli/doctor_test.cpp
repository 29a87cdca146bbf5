// gleaner doctor against sound and broken set-ups of a coordinator and a run.

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <boost/json.hpp>
#include <fstream>

#include "coordinator/admin/unix_socket.hpp"
#include "storage/database.hpp"
#include "tests/cli/doctor_world.hpp"

namespace gleaner::cli {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class Doctor : public DoctorWorld {};

TEST_F(Doctor, ASoundCoordinatorHasNoFailures) {
  write_coordinator();
  const Diagnosis found = coordinator();
  EXPECT_EQ(found.code, kOk) << found.text;
  EXPECT_THAT(found.lines_with("FAIL"), IsEmpty());
  EXPECT_THAT(found.text, HasSubstr("ok    the certificate is for localhost, 127.0.0.1\n"));
  EXPECT_THAT(found.text, HasSubstr("gleaner.db will be made at the first start"));
  EXPECT_THAT(found.text, HasSubstr("no coordinator is running"));
  EXPECT_THAT(found.text, HasSubstr("kernels run on cpu"));
}

TEST_F(Doctor, EveryMistakeInAFileIsALine) {
  write("coordinator.toml", "[coordinator]\nlisten = 5\nworkers = -1\nbackend = \"gpu\"\n");
  const Diagnosis found = coordinator();
  EXPECT_EQ(found.code, kFailure);
  EXPECT_GE(found.lines_with("FAIL").size(), 3U);
  for (const char* line : {"coordinator.toml:2", "coordinator.toml:3", "coordinator.toml:4"}) {
    EXPECT_THAT(found.lines_with("FAIL"), Contains(HasSubstr(line)));
  }
}

TEST_F(Doctor, JsonHasLevelsAndCounts) {
  write_coordinator();
  const Ran ran = run_cli({"doctor", "--coordinator", path("coordinator.toml"), "--json"});
  const auto value = boost::json::parse(ran.out);
  EXPECT_EQ(value.at("failed").to_number<int>(), 0);
  EXPECT_GT(value.at("findings").as_array().size(), 8U);
  EXPECT_EQ(value.at("findings").at(0).at("level").as_string(), "ok");
}

TEST_F(Doctor, AnExpiredCertificate) {
  issue("old", pki::Role::coordinator, -400, -35);
  write_coordinator("127.0.0.1:0", "127.0.0.1:0", "old");
  const Diagnosis found = coordinator();
  EXPECT_EQ(found.code, kFailure);
  EXPECT_THAT(found.lines_with("FAIL"),
              ElementsAre(AllOf(HasSubstr("old.pem"), HasSubstr("expired"), HasSubstr("gleaner pki issue"))));
}

TEST_F(Doctor, ACertificateOfTomorrowPointsToTheClock) {
  issue("early", pki::Role::coordinator, 2, 365);
  write_coordinator("127.0.0.1:0", "127.0.0.1:0", "early");
  const Diagnosis found = coordinator();
  EXPECT_EQ(found.code, kFailure);
  EXPECT_THAT(found.lines_with("FAIL"), ElementsAre(AllOf(HasSubstr("early.pem"), HasSubstr("clock"))));
}

TEST_F(Doctor, ACertificateThatExpiresSoonIsAWarning) {
  issue("soon", pki::Role::coordinator, -300, 10);
  write_coordinator("127.0.0.1:0", "127.0.0.1:0", "soon");
  const Diagnosis found = coordinator();
  EXPECT_EQ(found.code, kOk);
  EXPECT_THAT(found.lines_with("warn"),
              Contains(AllOf(HasSubstr("soon.pem"), AnyOf(HasSubstr("9 days"), HasSubstr("10 days")))));
}

TEST_F(Doctor, ACertificateOfAnotherAuthorityAndAKeyOfAnotherCertificate) {
  make_authority("other");
  issue("stranger", pki::Role::coordinator, -1, 365, "other");
  write_coordinator("127.0.0.1:0", "127.0.0.1:0", "stranger");
  std::filesystem::copy_file(path("server.key"), path("stranger.key"),
                             std::filesystem::copy_options::overwrite_existing);
  ::chmod(path("stranger.key").c_str(), 0644);
  const Diagnosis found = coordinator();
  EXPECT_EQ(found.code, kFailure);
  EXPECT_EQ(found.lines_with("FAIL").size(), 2U) << found.text;
  EXPECT_THAT(found.lines_with("FAIL"), Contains(HasSubstr("stranger.key")));
  EXPECT_THAT(found.lines_with("warn"), Contains(AllOf(HasSubstr("mode 0644"), HasSubstr("chmod 600"))));
}

TEST_F(Doctor, ADeviceCertificateIsNoCoordinators) {
  write_coordinator("127.0.0.1:0", "127.0.0.1:0", "device");
  const Diagnosis found = coordinator();
  EXPECT_EQ(found.code, kFailure);
  EXPECT_THAT(found.lines_with("FAIL"),
              ElementsAre(AllOf(HasSubstr("names no host"), HasSubstr("--kind coordinator"))));
}

TEST_F(Doctor, APortThatIsTakenNamesWhoHasIt) {
  const RunningServer other;
  write_coordinator("127.0.0.1:0", "127.0.0.1:" + std::to_string(other.http_port()));
  const Diagnosis found = coordinator();
  EXPECT_EQ(found.code, kFailure);
  EXPECT_THAT(found.lines_with("FAIL"), ElementsAre(AllOf(HasSubstr("admin.http"), HasSubstr("in use by "),
                                                          HasSubstr("(process " + std::to_string(::getpid()) + ")"))));
}

TEST_F(Doctor, APortOfTheRunningCoordinatorIsFine) {
  const RunningServer running;
  write_coordinator("127.0.0.1:0", "127.0.0.1:" + std::to_string(running.http_port()));
  std::string text = read("coordinator.toml");
  text.replace(text.find("gleaner.sock"), 12, running.socket());
  write("coordinator.toml", text);
  const Diagnosis found = coordinator();
  EXPECT_EQ(found.code, kOk) << found.text;
  EXPECT_THAT(found.text, HasSubstr("the coordinator answers on " + running.socket()));
  EXPECT_THAT(found.text, HasSubstr("while the coordinator answers"));
}

TEST_F(Doctor, AnAddressOfAnotherMachine) {
  write_coordinator("192.0.2.1:7433");
  const Diagnosis found = coordinator();
  EXPECT_EQ(found.code, kFailure);
  EXPECT_THAT(found.lines_with("FAIL"), Contains(AllOf(HasSubstr("coordinator.listen"), HasSubstr("192.0.2.1"))));
  EXPECT_THAT(found.lines_with("warn"), Contains(HasSubstr("but the coordinator listens on 192.0.2.1")));
}

TEST_F(Doctor, ASoundDatabaseServedOrNot) {
  write_coordinator();
  auto served = Database::open(path("gleaner.db"), Database::Access::serve);
  ASSERT_TRUE(served) << served.error().message();
  EXPECT_THAT(coordinator().text, HasSubstr("is served by process " + std::to_string(::getpid())));
  served->reset();
  const Diagnosis found = coordinator();
  EXPECT_EQ(found.code, kOk) << found.text;
  EXPECT_THAT(found.text, HasSubstr("is served by nobody"));
  EXPECT_THAT(found.text, HasSubstr("is sound; it holds 0 runs"));
  EXPECT_EQ(run_cli({"db", "check", "--database", path("gleaner.db")}).code, kOk);
}

TEST_F(Doctor, ADamagedDatabase) {
  write_coordinator();
  ASSERT_TRUE(Database::open(path("gleaner.db"), Database::Access::serve));
  std::string bytes = read("gleaner.db");
  for (std::size_t i = 200; i < bytes.size(); ++i) bytes[i] = static_cast<char>(bytes[i] ^ 0x5a);
  write("gleaner.db", bytes);
  EXPECT_EQ(coordinator().code, kFailure);
  write("gleaner.db", "no database at all");
  EXPECT_EQ(coordinator().code, kFailure);
  EXPECT_NE(run_cli({"db", "check", "--database", path("gleaner.db")}).code, kOk);
  EXPECT_EQ(run_cli({"db", "check", "--database", path("none.db")}).code, kConflict);
}

TEST_F(Doctor, ARunAndItsData) {
  write_data();
  const std::string run =
      "[run]\nname = \"night\"\nrecipe = \"topk\"\n\n[model]\nname = \"softmax\"\n\n[data]\nname = "
      "\"fashion-mnist\"\n";
  write("run.toml", run + "evaluation = \"data\"\n");
  const Diagnosis sound = run_file();
  EXPECT_EQ(sound.code, kOk) << sound.text;
  EXPECT_THAT(sound.text, HasSubstr("night with topk on fashion-mnist"));
  EXPECT_THAT(sound.text, HasSubstr("evaluation data: 20 samples of 16 features"));
  std::filesystem::remove(path("data/t10k-labels-idx1-ubyte"));
  EXPECT_EQ(run_file().code, kFailure);
  write("run.toml", run + "evalution = \"data\"\n");
  const Diagnosis misspelt = run_file();
  EXPECT_EQ(misspelt.code, kFailure);
  EXPECT_THAT(misspelt.lines_with("FAIL"), ElementsAre(AllOf(HasSubstr("run.toml:10"), HasSubstr("evaluation"))));
}

TEST_F(Doctor, WithoutAFileItSaysWhatToName) {
  const Ran ran = run_cli({"doctor", "--coordinator", path("none.toml")});
  EXPECT_EQ(ran.code, kFailure);
  EXPECT_THAT(ran.out, StartsWith("FAIL  "));
}

}  // namespace
}  // namespace gleaner::cli
