#include "coordinator/admin/unix_socket.hpp"

#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/coordinator/admin/fake_backend.hpp"

namespace gleaner::admin {
namespace {

class UnixSocket : public testing::Test {
 protected:
  ~UnixSocket() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ / "gleaner.sock"; }
  const std::filesystem::path folder_ = make_temporary_folder();
};

TEST_F(UnixSocket, IsForItsOwnerAndGoesWithTheListener) {
  EXPECT_EQ(*probe_socket(path()), SocketState::absent);
  {
    const auto listener = UnixListener::listen(path());
    ASSERT_TRUE(listener);
    struct stat status{};
    ASSERT_EQ(::lstat(path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
    EXPECT_EQ(*probe_socket(path()), SocketState::answers);
  }
  EXPECT_EQ(*probe_socket(path()), SocketState::absent);
}

TEST_F(UnixSocket, IsNotTakenFromSomebodyWhoAnswers) {
  const auto first = UnixListener::listen(path());
  ASSERT_TRUE(first);
  const auto second = UnixListener::listen(path());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), ErrorCode::conflict);
  EXPECT_EQ(*probe_socket(path()), SocketState::answers);
}

TEST_F(UnixSocket, AStaleOneIsReplaced) {
  {
    auto crashed = UnixListener::listen(path());
    ASSERT_TRUE(crashed);
    std::filesystem::rename(path(), path() + ".kept");  // so that its end does not remove it
  }
  std::filesystem::rename(path() + ".kept", path());
  EXPECT_EQ(*probe_socket(path()), SocketState::stale);
  EXPECT_TRUE(UnixListener::listen(path()));
}

TEST_F(UnixSocket, AnotherFileIsLeftAlone) {
  std::ofstream(path()) << "precious";
  const auto listener = UnixListener::listen(path());
  ASSERT_FALSE(listener);
  EXPECT_EQ(listener.error().code(), ErrorCode::bad_input);
  EXPECT_TRUE(std::filesystem::is_regular_file(path()));
}

TEST_F(UnixSocket, TheSuccessorsNameStays) {
  auto old = UnixListener::listen(path());
  ASSERT_TRUE(old);
  std::filesystem::remove(path());
  const auto successor = UnixListener::listen(path());
  ASSERT_TRUE(successor);
  {
    const UnixListener ended = std::move(*old);
  }
  EXPECT_EQ(*probe_socket(path()), SocketState::answers);
}

TEST_F(UnixSocket, PathsThatCannotBe) {
  EXPECT_EQ(probe_socket("").error().code(), ErrorCode::bad_input);
  EXPECT_EQ(UnixListener::listen(folder_ / std::string(120, 'x')).error().code(), ErrorCode::bad_input);
  EXPECT_EQ(UnixListener::listen(folder_ / "no" / "folder").error().code(), ErrorCode::bad_input);
}

TEST_F(UnixSocket, PeerIsAUserByName) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const passwd* me = ::getpwuid(::geteuid());
  EXPECT_EQ(peer_user(ends[0]), me != nullptr ? me->pw_name : "uid " + std::to_string(::geteuid()));
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace gleaner::admin
