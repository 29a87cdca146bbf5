#include "client/engine/state_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <vector>

#include "common/check.hpp"
#include "common/descriptor.hpp"
#include "common/text.hpp"

namespace gleaner {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSuffix = ".state";

Error from_errno(const std::string& what, const std::string& path) {
  const int code = errno;
  const bool full = code == ENOSPC || code == EDQUOT;
  return {full ? ErrorCode::no_space : ErrorCode::fatal, fmt::format("{} {}: {}", what, path, std::strerror(code))};
}

Status write_all(int fd, ByteView bytes, const std::string& path) {
  while (!bytes.empty()) {
    const auto written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail(from_errno("cannot write", path));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

class FileStore final : public StateStore {
 public:
  FileStore(fs::path directory, Descriptor lock) : directory_(std::move(directory)), lock_(std::move(lock)) {}

  Result<std::shared_ptr<const Bytes>> load(RunId run) override {
    const auto path = file_of(run);
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0 && errno == ENOENT) return nullptr;
    if (file.get() < 0) return fail(from_errno("cannot open", path));
    std::error_code ec;
    Bytes bytes(fs::file_size(path, ec));
    std::size_t done = 0;
    while (done < bytes.size()) {
      const auto got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return fail(from_errno("cannot read", path));
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    bytes.resize(done);
    return std::make_shared<const Bytes>(std::move(bytes));
  }

  Status save(RunId run, Bytes state) override {
    const std::string path = file_of(run);
    const std::string beside = path + ".new";
    {
      const Descriptor file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
      if (file.get() < 0) return fail(from_errno("cannot create", beside));
      if (auto written = write_all(file.get(), state, beside); !written) {
        ::unlink(beside.c_str());
        return written;
      }
      failpoint("client.state.written");
      if (::fsync(file.get()) != 0) return give_up("cannot sync", beside);
      failpoint("client.state.synced");
    }
    if (::rename(beside.c_str(), path.c_str()) != 0) return give_up("cannot replace", beside);
    failpoint("client.state.renamed");
    const Descriptor directory(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory.get() < 0 || ::fsync(directory.get()) != 0)
      return fail(from_errno("cannot sync", directory_.string()));
    return {};
  }

  Status prune(RunId in_use, std::size_t keep) override {
    std::vector<std::pair<fs::file_time_type, fs::path>> others;
    std::error_code ec;
    for (const auto& entry : fs::directory_iterator(directory_, ec)) {
      if (entry.path().extension() == kSuffix && entry.path() != file_of(in_use))
        others.emplace_back(entry.last_write_time(ec), entry.path());
    }
    std::sort(others.rbegin(), others.rend());
    for (std::size_t i = keep; i < others.size(); ++i) fs::remove(others[i].second, ec);
    if (ec) return fail(ErrorCode::fatal, fmt::format("cannot tidy up {}: {}", directory_.string(), ec.message()));
    return {};
  }

 private:
  // What could not be written whole must not take the room that the next try needs.
  static Status give_up(const std::string& what, const std::string& beside) {
    Error error = from_errno(what, beside);
    ::unlink(beside.c_str());
    return fail(std::move(error));
  }

  std::string file_of(RunId run) const { return directory_ / (to_hex(run.value) + kSuffix); }

  fs::path directory_;
  Descriptor lock_;
};

class MemoryStore final : public StateStore {
 public:
  Result<std::shared_ptr<const Bytes>> load(RunId run) override {
    const auto it = states_.find(run);
    return it == states_.end() ? nullptr : it->second;
  }
  Status save(RunId run, Bytes state) override {
    states_[run] = std::make_shared<const Bytes>(std::move(state));
    return {};
  }
  Status prune(RunId, std::size_t) override { return {}; }

 private:
  std::map<RunId, std::shared_ptr<const Bytes>> states_;
};

}  // namespace

Result<std::unique_ptr<StateStore>> open_file_store(const std::string& directory) {
  std::error_code ec;
  fs::create_directories(directory, ec);
  if (ec)
    return fail(ErrorCode::bad_input, fmt::format("cannot make the state directory {}: {}", directory, ec.message()));
  fs::permissions(directory, fs::perms::owner_all, ec);
  const std::string lock_path = (fs::path(directory) / "lock").string();
  Descriptor lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (lock.get() < 0) return fail(ErrorCode::bad_input, from_errno("cannot open", lock_path).message());
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(ErrorCode::conflict,
                fmt::format("another client uses the state directory {} (it holds {})", directory, lock_path));
  }
  return std::make_unique<FileStore>(directory, std::move(lock));
}

std::unique_ptr<StateStore> make_memory_store() { return std::make_unique<MemoryStore>(); }

}  // namespace gleaner
