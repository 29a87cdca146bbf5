#include "config/paths.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/config/temp_folder.hpp"

namespace gleaner::config {
namespace {

// Sets and settles; what is wrong, or "".
std::string read_into(const Kind& kind, const std::string& value, const TempFolder& folder) {
  if (const auto fault = kind.set({value, {}})) return fault->what;
  const auto fault = kind.settle ? kind.settle(folder.path()) : std::nullopt;
  return fault ? fault->what : "";
}

TEST(Paths, AreRelativeToTheFileAndBecomeAbsolute) {
  const TempFolder folder;
  folder.write("pki/ca.pem");
  std::string into;
  EXPECT_EQ(read_into(readable_file(into), "./pki/../pki/ca.pem", folder), "");
  EXPECT_EQ(into, folder / "pki/ca.pem");
  EXPECT_EQ(read_into(readable_directory(into), folder / "pki", folder), "");
  EXPECT_EQ(into, folder / "pki");
}

TEST(Paths, MissingOnesNameWhatWasTried) {
  const TempFolder folder;
  folder.write("file");
  std::string into;
  EXPECT_EQ(read_into(readable_file(into), "no.pem", folder), "no such file: " + (folder / "no.pem"));
  into.clear();
  EXPECT_EQ(read_into(readable_directory(into), "no", folder), "no such directory: " + (folder / "no"));
  into.clear();
  EXPECT_EQ(read_into(readable_directory(into), "file", folder), "is no directory: " + (folder / "file"));
  into.clear();
  EXPECT_EQ(read_into(readable_file(into), ".", folder), "is a directory: " + (folder / ""));
  into.clear();
  EXPECT_EQ(read_into(readable_file(into), "file/below", folder), "no such file: " + (folder / "file/below"));
}

// Root may do everything, so it becomes somebody else for a while.
class AsNobody {
 public:
  AsNobody() : root_(::geteuid() == 0) {
    if (root_) EXPECT_EQ(::seteuid(65534), 0);
  }
  ~AsNobody() {
    if (root_) EXPECT_EQ(::seteuid(0), 0);
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;

 private:
  bool root_;
};

TEST(Paths, WhatMayNotBeReadOrWrittenIsFoundBeforeItIsNeeded) {
  const TempFolder folder;
  ::chmod(folder.write("secret").c_str(), 0);
  std::filesystem::create_directory(folder / "closed");
  ::chmod((folder / "closed").c_str(), 0555);
  ::chmod(folder.path().c_str(), 0555);
  const auto fault_of = [&](const std::function<Kind(std::string&)>& make, const std::string& value) {
    const AsNobody nobody;
    std::string into;
    return read_into(make(into), value, folder);
  };
  EXPECT_EQ(fault_of(readable_file, "secret"), "Permission denied: " + (folder / "secret"));
  EXPECT_EQ(fault_of(readable_directory, "closed"), "");
  EXPECT_EQ(fault_of(directory_to_write, "closed/a"), "Permission denied: " + (folder / "closed"));
  EXPECT_EQ(fault_of(file_to_write, "a.db"), "Permission denied: " + folder.path().string());
  EXPECT_EQ(fault_of(file_to_write, "secret"), "Permission denied: " + (folder / "secret"));
  ::chmod(folder.path().c_str(), 0755);
}

TEST(Paths, EmptyIsAllowedOnlyWhereThereIsNoDefault) {
  const TempFolder folder;
  std::string optional;
  EXPECT_EQ(read_into(file_to_write(optional), "", folder), "");
  EXPECT_EQ(optional, "");
  std::string with_default = "state";
  EXPECT_EQ(read_into(directory_to_write(with_default), "", folder), "is empty");
}

TEST(Paths, WhatIsToBeWrittenMustBeMakeable) {
  const TempFolder folder;
  folder.write("file");
  std::string into;
  EXPECT_EQ(read_into(directory_to_write(into), "new/deeper/", folder), "");
  EXPECT_FALSE(std::filesystem::exists(folder / "new")) << "checking makes nothing";
  into.clear();
  EXPECT_EQ(read_into(directory_to_write(into), "file", folder), "is no directory: " + (folder / "file"));
  into.clear();
  EXPECT_EQ(read_into(directory_to_write(into), "file/below", folder), "is no directory: " + (folder / "file"));
  into.clear();
  EXPECT_EQ(read_into(file_to_write(into), "new/a.db", folder), "");
  into.clear();
  EXPECT_EQ(read_into(file_to_write(into), "file", folder), "");
  into.clear();
  EXPECT_EQ(read_into(file_to_write(into), "file/a.db", folder), "is no directory: " + (folder / "file"));
  into.clear();
  EXPECT_EQ(read_into(file_to_write(into), ".", folder), "is a directory: " + (folder / ""));
}

TEST(Paths, UnixSocketsAreShort) {
  const TempFolder folder;
  std::string into;
  EXPECT_EQ(read_into(unix_socket(into), "a.sock", folder), "");
  into.clear();
  const std::string longest = "/tmp/" + std::string(102, 'x');
  EXPECT_EQ(read_into(unix_socket(into), longest, folder), "");
  into.clear();
  EXPECT_EQ(read_into(unix_socket(into), longest + "x", folder), "has 108 bytes: " + longest + "x");
}

TEST(Paths, EndpointsKeepThePortThatIsNotGiven) {
  const TempFolder folder;
  std::string host = "::";
  std::uint16_t port = 7433;
  EXPECT_EQ(read_into(endpoint(host, port, Ports::given), "example.org", folder), "");
  EXPECT_EQ(host, "example.org");
  EXPECT_EQ(port, 7433);
  EXPECT_EQ(read_into(endpoint(host, port, Ports::given), "[::1]:1", folder), "");
  EXPECT_EQ(endpoint(host, port, Ports::given).show(), "\"[::1]:1\"");
  EXPECT_EQ(read_into(endpoint(host, port, Ports::given), "a:0", folder), "is the string \"a:0\", whose port is 0");
  EXPECT_EQ(read_into(endpoint(host, port, Ports::any_free_too), "a:0", folder), "");
  EXPECT_EQ(read_into(endpoint(host, port, Ports::given), "::1:5", folder),
            "is the string \"::1:5\", whose IPv6 address stands in no brackets");
}

}  // namespace
}  // namespace gleaner::config
