#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "common/clock.hpp"
#include "protocol/pki/certificate.hpp"
#include "protocol/pki/issue.hpp"

namespace gleaner::pki {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Pki : public ::testing::Test {
 protected:
  Pki() {
    std::string pattern = (std::filesystem::temp_directory_path() / "gleaner_pki_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~Pki() override { std::filesystem::remove_all(folder_); }

  KeyFiles files(const std::string& name) const {
    return {.certificate = folder_ + "/" + name + ".crt", .key = folder_ + "/" + name + ".key"};
  }
  KeyFiles new_ca(const std::string& name) const {
    EXPECT_TRUE(make_ca(name, Validity::days(now_, 3650), files(name)).has_value());
    return files(name);
  }
  Status issue(const KeyFiles& ca, const CertificateRequest& request) const {
    return issue_certificate(ca, request, files(request.name));
  }

  std::string folder_;
  std::int64_t now_ = system_clock().wall_unix_ms() / 1000;
};

TEST_F(Pki, CaAndDevice) {
  const KeyFiles ca = new_ca("ca");
  ASSERT_TRUE(issue(ca, {.role = Role::device, .name = "d1", .validity = Validity::days(now_, 90)}).has_value());
  const auto authority = inspect(ca.certificate);
  ASSERT_TRUE(authority.has_value());
  EXPECT_TRUE(authority->is_ca);
  EXPECT_EQ(authority->subject, "ca");
  const auto device = inspect(files("d1").certificate);
  ASSERT_TRUE(device.has_value());
  EXPECT_FALSE(device->is_ca);
  EXPECT_EQ(device->subject, "d1");
  EXPECT_EQ(device->issuer, "ca");
  EXPECT_THAT(device->uris, ElementsAre("urn:gleaner:device:d1"));
  EXPECT_THAT(device->dns, IsEmpty());
  EXPECT_EQ(device->serial.size(), 32U);
  EXPECT_NE(device->serial, authority->serial);
  EXPECT_EQ(device->not_before_unix_s, now_ - 300);
  EXPECT_EQ(device->not_after_unix_s, now_ + 90 * 86'400);
  EXPECT_TRUE(check_issued_by(files("d1").certificate, ca.certificate).has_value());
  EXPECT_TRUE(check_key_matches(files("d1").certificate, files("d1").key).has_value());
}

TEST_F(Pki, CoordinatorWithSeveralAddresses) {
  const KeyFiles ca = new_ca("ca");
  const CertificateRequest request{.role = Role::coordinator,
                                   .name = "c1",
                                   .addresses = {"fl.example.org", "192.0.2.7", "::1", "localhost"},
                                   .validity = Validity::days(now_, 90)};
  ASSERT_TRUE(issue(ca, request).has_value());
  const auto facts = inspect(files("c1").certificate);
  ASSERT_TRUE(facts.has_value());
  EXPECT_THAT(facts->dns, ElementsAre("fl.example.org", "localhost"));
  EXPECT_THAT(facts->ips, ElementsAre("192.0.2.7", "::1"));
  EXPECT_THAT(facts->uris, IsEmpty());
}

TEST_F(Pki, KeysAreSecretAndNothingIsLeftBehind) {
  const KeyFiles ca = new_ca("ca");
  struct stat facts{};
  ASSERT_EQ(::stat(ca.key.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat(ca.certificate.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777U & ~0644U, 0U);
  std::size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_)) ++entries;
  EXPECT_EQ(entries, 2U);
}

TEST_F(Pki, NothingIsOverwritten) {
  const KeyFiles ca = new_ca("ca");
  const auto before = inspect(ca.certificate)->serial;
  const Status again = make_ca("other", Validity::days(now_, 1), ca);
  ASSERT_FALSE(again.has_value());
  EXPECT_EQ(again.error().code(), ErrorCode::conflict);
  EXPECT_THAT(again.error().message(), HasSubstr("ca.key"));
  EXPECT_EQ(inspect(ca.certificate)->serial, before);
  // A certificate in the way leaves no key behind.
  std::ofstream(files("d1").certificate) << "mine";
  EXPECT_FALSE(issue(ca, {.name = "d1", .validity = Validity::days(now_, 1)}).has_value());
  EXPECT_FALSE(std::filesystem::exists(files("d1").key));
}

TEST_F(Pki, BadNamesAreRefused) {
  const KeyFiles ca = new_ca("ca");
  for (const std::string name : {"", "A", "a b", "a,URI:urn:gleaner:device:b", "-a"}) {
    const Status status = issue_certificate(ca, {.name = name, .validity = Validity::days(now_, 1)}, files("x"));
    ASSERT_FALSE(status.has_value()) << name;
    EXPECT_EQ(status.error().code(), ErrorCode::bad_input);
  }
  CertificateRequest request{.role = Role::coordinator, .name = "c", .validity = Validity::days(now_, 1)};
  EXPECT_THAT(issue(ca, request).error().message(), HasSubstr("at least one"));
  request.addresses = {"a,IP:1.2.3.4"};
  EXPECT_THAT(issue(ca, request).error().message(), HasSubstr("neither a DNS name"));
}

TEST_F(Pki, OthersFilesAreExplained) {
  const KeyFiles ca = new_ca("ca"), other = new_ca("other");
  ASSERT_TRUE(issue(ca, {.name = "d1", .validity = Validity::days(now_, 90)}).has_value());
  const Status issued = check_issued_by(files("d1").certificate, other.certificate);
  ASSERT_FALSE(issued.has_value());
  EXPECT_THAT(issued.error().message(), HasSubstr("not issued by a CA of"));
  EXPECT_THAT(issued.error().message(), HasSubstr("\"ca\""));
  const Status matches = check_key_matches(files("d1").certificate, other.key);
  ASSERT_FALSE(matches.has_value());
  EXPECT_THAT(matches.error().message(), HasSubstr("does not belong"));
  EXPECT_THAT(inspect(folder_ + "/none.crt").error().message(), HasSubstr("No such file"));
  EXPECT_THAT(inspect(ca.key).error().message(), HasSubstr("BEGIN CERTIFICATE"));
  EXPECT_THAT(check_key_matches(ca.certificate, ca.certificate).error().message(), HasSubstr("BEGIN PRIVATE KEY"));
  EXPECT_THAT(issue_certificate(files("d1"), {.name = "d2", .validity = Validity::days(now_, 1)}, files("d2"))
                  .error()
                  .message(),
              HasSubstr("not the certificate of a CA"));
}

TEST_F(Pki, DatesAreCheckedAndCutToTheCas) {
  ASSERT_TRUE(make_ca("ca", Validity::days(now_, 10), files("ca")).has_value());
  ASSERT_TRUE(issue(files("ca"), {.name = "d1", .validity = Validity::days(now_, 90)}).has_value());
  const auto facts = inspect(files("d1").certificate);
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->not_after_unix_s, now_ + 10 * 86'400);
  EXPECT_TRUE(check_dates(*facts, "it", now_).has_value());
  const Status early = check_dates(*facts, "it", now_ - 301);
  ASSERT_FALSE(early.has_value());
  EXPECT_EQ(early.error().code(), ErrorCode::retry);
  EXPECT_THAT(early.error().message(), HasSubstr("clock"));
  const Status late = check_dates(*facts, "it", now_ + 11 * 86'400);
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code(), ErrorCode::bad_input);
  EXPECT_THAT(late.error().message(), HasSubstr("expired"));
}

TEST_F(Pki, AClockToldToTheDayLeavesTheMessageTheSame) {
  const CertificateFacts facts{.not_before_unix_s = 86'400 * 20'000, .not_after_unix_s = 86'400 * 20'001};
  const auto told = [&facts](std::int64_t now, ClockShown shown) {
    return check_dates(facts, "it", now, shown).error().message();
  };
  for (const std::int64_t day : {86'400 * 19'000, 86'400 * 21'000}) {
    EXPECT_EQ(told(day, ClockShown::day), told(day + 86'399, ClockShown::day));
    EXPECT_NE(told(day, ClockShown::day), told(day + 86'400, ClockShown::day));
    EXPECT_NE(told(day, ClockShown::second), told(day + 1, ClockShown::second));
  }
  EXPECT_EQ(day_of(0), "1970-01-01");
}

}  // namespace
}  // namespace gleaner::pki
