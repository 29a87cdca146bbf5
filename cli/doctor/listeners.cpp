#include "cli/doctor/listeners.hpp"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace gleaner::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kListening = "0A";

// Lines of /proc/net/tcp: "0: 0100007F:1D38 00000000:0000 0A ... inode"; the inode is the tenth word.
void add_inodes(const char* table, std::uint16_t port, std::set<std::string>& inodes) {
  std::ifstream lines(table);
  const std::string suffix = fmt::format(":{:04X}", port);
  std::string line;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string slot;
    std::string local;
    std::string remote;
    std::string state;
    if (!(words >> slot >> local >> remote >> state) || state != kListening || !local.ends_with(suffix)) continue;
    std::string word;
    for (int i = 0; i < 6 && words >> word; ++i) {
    }
    inodes.insert(fmt::format("socket:[{}]", word));
  }
}

bool holds_one(const fs::path& process, const std::set<std::string>& inodes) {
  std::error_code error;
  for (fs::directory_iterator at(process / "fd", error), end; !error && at != end; at.increment(error)) {
    std::error_code unreadable;
    if (inodes.contains(fs::read_symlink(at->path(), unreadable).string())) return true;
  }
  return false;
}

}  // namespace

std::string listener_on(std::uint16_t port) {
  std::set<std::string> inodes;
  add_inodes("/proc/net/tcp", port, inodes);
  add_inodes("/proc/net/tcp6", port, inodes);
  if (inodes.empty()) return "";
  std::error_code error;
  for (fs::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    const std::string pid = at->path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos || !holds_one(at->path(), inodes)) continue;
    std::string name;
    std::getline(std::ifstream(at->path() / "comm"), name);
    return fmt::format("{} (process {})", name, pid);
  }
  return "";
}

}  // namespace gleaner::cli
