#include "simulation/world/device_states.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "common/check.hpp"
#include "common/hash.hpp"

namespace gleaner::simulation {
namespace {

constexpr std::uint64_t kHeadBytes = 3 * sizeof(std::uint64_t);
constexpr std::uint64_t kRewriteBytesMin = 64ULL << 20;  // smaller files may be mostly old
// How many times as long as what counts the file may be before it is written anew.
constexpr std::uint64_t kRewriteWithHoles = 30;
constexpr std::uint64_t kRewriteWithoutHoles = 3;

Error from_errno(const std::string& what, const std::string& path) {
  const int code = errno;
  const bool full = code == ENOSPC || code == EDQUOT;
  return {full ? ErrorCode::no_space : ErrorCode::fatal, fmt::format("{} {}: {}", what, path, std::strerror(code))};
}

Status write_at(int fd, ByteView bytes, std::uint64_t offset, const std::string& path) {
  while (!bytes.empty()) {
    const auto written = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return fail(from_errno("cannot write the devices' states to", path));
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return {};
}

// Less than asked for only at the end of the file.
Result<Bytes> read_at(int fd, std::uint64_t bytes, std::uint64_t offset, const std::string& path) {
  Bytes out(bytes);
  std::size_t done = 0;
  while (done < out.size()) {
    const auto got = ::pread(fd, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(from_errno("cannot read the devices' states from", path));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  out.resize(done);
  return out;
}

Bytes head_of(std::uint32_t device, ByteView state) {
  Bytes head;
  ByteWriter out(head);
  out.put(std::uint64_t{device});
  out.put(std::uint64_t{state.size()});
  out.put(digest_of(state).value);
  return head;
}

}  // namespace

DeviceStates::DeviceStates(std::string folder, std::uint64_t budget_bytes)
    : folder_(std::move(folder)), budget_bytes_(budget_bytes) {}

DeviceStates::~DeviceStates() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool DeviceStates::has(std::uint32_t device) const {
  const std::scoped_lock lock(mutex_);
  return states_.contains(device);
}

std::uint64_t DeviceStates::devices() const {
  const std::scoped_lock lock(mutex_);
  return states_.size();
}

std::uint64_t DeviceStates::memory_bytes() const {
  const std::scoped_lock lock(mutex_);
  return memory_bytes_;
}

Result<std::shared_ptr<const Bytes>> DeviceStates::load(std::uint32_t device) const {
  const std::scoped_lock lock(mutex_);
  const auto it = states_.find(device);
  if (it == states_.end()) return nullptr;
  if (!it->second.bytes) return read(device, it->second);
  used_.splice(used_.end(), used_, it->second.in_use);
  return it->second.bytes;
}

Status DeviceStates::save(std::uint32_t device, std::shared_ptr<const Bytes> bytes) {
  const std::scoped_lock lock(mutex_);
  const auto known = states_.find(device);
  const bool in_memory = known != states_.end() && known->second.bytes;
  // Its own old bytes go anyway: they must not be written out to make room for the new ones.
  if (in_memory) used_.splice(used_.end(), used_, known->second.in_use);
  const std::uint64_t old_bytes = in_memory ? known->second.bytes->size() : 0;
  if (bytes->size() > old_bytes) GLEANER_TRY(make_room(bytes->size() - old_bytes, in_memory ? 1 : 0));
  State& state = states_[device];
  // Writing others out may have written this one too.
  if (state.bytes) {
    memory_bytes_ -= state.bytes->size();
  } else {
    state.in_use = used_.insert(used_.end(), device);
  }
  if (!state.fresh) forget(state);
  state.fresh = true;
  state.length = bytes->size();
  memory_bytes_ += bytes->size();
  state.bytes = std::move(bytes);
  return {};
}

void DeviceStates::forget(const State& state) {
  live_bytes_ -= kHeadBytes + state.length;
  const Record record = {state.offset, state.length};
  if (state.offset >= checkpoint_bytes_) return punch(record);
  old_.push_back(record);
}

// Best effort: a hole that is not made costs room alone.
void DeviceStates::punch(const Record& record) {
  if (!makes_holes_) return;
  const int done = ::fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                               static_cast<off_t>(record.offset + kHeadBytes), static_cast<off_t>(record.length));
  makes_holes_ = done == 0 || errno != EOPNOTSUPP;
}

Status DeviceStates::make_room(std::uint64_t bytes, std::size_t kept) {
  while (memory_bytes_ + bytes > budget_bytes_ && used_.size() > kept) {
    const std::uint32_t device = used_.front();
    State& state = states_.at(device);
    if (state.fresh) GLEANER_TRY(append(device, state));
    memory_bytes_ -= state.bytes->size();
    state.bytes.reset();
    used_.pop_front();
  }
  return {};
}

Status DeviceStates::open_file() {
  if (descriptor_ >= 0) return {};
  file_ = fmt::format("states-{}.log", ++generation_);
  descriptor_ = ::open(path().c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (descriptor_ < 0) return fail(from_errno("cannot make", path()));
  file_bytes_ = 0;
  live_bytes_ = 0;
  return {};
}

Status DeviceStates::append(std::uint32_t device, State& state) {
  GLEANER_TRY(open_file());
  const Bytes head = head_of(device, *state.bytes);
  GLEANER_TRY(write_at(descriptor_, head, file_bytes_, path()));
  GLEANER_TRY(write_at(descriptor_, *state.bytes, file_bytes_ + kHeadBytes, path()));
  state.offset = file_bytes_;
  state.length = state.bytes->size();
  state.fresh = false;
  file_bytes_ += kHeadBytes + state.length;
  live_bytes_ += kHeadBytes + state.length;
  return {};
}

Result<std::shared_ptr<const Bytes>> DeviceStates::read(std::uint32_t device, const State& state) const {
  return read_from(descriptor_, path(), device, state);
}

Result<std::shared_ptr<const Bytes>> DeviceStates::read_from(int descriptor, const std::string& path,
                                                             std::uint32_t device, const State& state) {
  GLEANER_ASSIGN(Bytes record, read_at(descriptor, kHeadBytes + state.length, state.offset, path));
  const ByteView bytes = ByteView(record).subspan(std::min<std::size_t>(kHeadBytes, record.size()));
  const Bytes head = head_of(device, bytes);
  if (bytes.size() != state.length || std::memcmp(head.data(), record.data(), kHeadBytes) != 0) {
    return fail(ErrorCode::corrupt,
                fmt::format("{}: the state of device {} at byte {} is damaged", path, device, state.offset));
  }
  return std::make_shared<const Bytes>(bytes.begin(), bytes.end());
}

// Into a new file; until it is whole the old one counts.
Status DeviceStates::write_anew() {
  const int old_descriptor = std::exchange(descriptor_, -1);
  const std::string old_file = file_;
  const std::uint64_t old_bytes = file_bytes_;
  const std::uint64_t old_live_bytes = live_bytes_;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> order;  // as they lie in the old file, new ones last
  for (const auto& [device, state] : states_) order.emplace_back(state.fresh ? UINT64_MAX : state.offset, device);
  std::ranges::sort(order);
  std::vector<State> written;
  const Status done = [&]() -> Status {
    GLEANER_TRY(open_file());
    for (const auto& [offset, device] : order) {
      const State& state = states_.at(device);
      State copy{.bytes = state.bytes};
      if (!copy.bytes) {
        GLEANER_ASSIGN(copy.bytes, read_from(old_descriptor, folder_ + "/" + old_file, device, state));
      }
      GLEANER_TRY(append(device, copy));
      copy.bytes.reset();
      written.push_back(std::move(copy));
    }
    return {};
  }();
  if (!done) {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
      ::unlink(path().c_str());
    }
    descriptor_ = old_descriptor;
    file_ = old_file;
    file_bytes_ = old_bytes;
    live_bytes_ = old_live_bytes;
    return done;
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    State& state = states_.at(order[i].second);
    state.offset = written[i].offset;
    state.length = written[i].length;
    state.fresh = false;
  }
  if (old_descriptor >= 0) ::close(old_descriptor);
  old_file_ = old_file;
  old_.clear();
  older_.clear();
  return {};
}

Result<DeviceStates::Manifest> DeviceStates::checkpoint() {
  const std::scoped_lock lock(mutex_);
  if (!old_file_.empty()) ::unlink((folder_ + "/" + std::exchange(old_file_, {})).c_str());
  if (states_.empty()) return Manifest{};
  for (const Record& record : older_) punch(record);
  older_ = std::exchange(old_, {});
  const std::uint64_t fresh_bytes = memory_bytes_;
  const std::uint64_t times = makes_holes_ ? kRewriteWithHoles : kRewriteWithoutHoles;
  if (file_bytes_ > kRewriteBytesMin && file_bytes_ + fresh_bytes > times * (live_bytes_ + fresh_bytes)) {
    GLEANER_TRY(write_anew());
  } else {
    // In the order of devices, so that the file's bytes do not depend on a hash table.
    std::vector<std::uint32_t> fresh;
    for (const auto& [device, state] : states_) {
      if (state.fresh) fresh.push_back(device);
    }
    std::ranges::sort(fresh);
    for (const std::uint32_t device : fresh) GLEANER_TRY(append(device, states_.at(device)));
  }
  if (::fsync(descriptor_) != 0) return fail(from_errno("cannot sync", path()));
  checkpoint_bytes_ = file_bytes_;
  return Manifest{.file = file_, .bytes = file_bytes_};
}

Status DeviceStates::restore(const Manifest& manifest) {
  const std::scoped_lock lock(mutex_);
  GLEANER_CHECK(states_.empty() && descriptor_ < 0);
  if (manifest.file.empty()) return {};
  file_ = manifest.file;
  if (std::sscanf(file_.c_str(), "states-%u.log", &generation_) != 1 || file_.contains('/'))
    return fail(ErrorCode::corrupt, fmt::format("{}: not a name of a file of states", file_));
  descriptor_ = ::open(path().c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor_ < 0) return fail(from_errno("cannot open", path()));
  for (std::uint64_t offset = 0; offset < manifest.bytes;) {
    GLEANER_ASSIGN(const Bytes head, read_at(descriptor_, kHeadBytes, offset, path()));
    ByteReader in(head);
    const auto device = in.get<std::uint64_t>();
    const auto length = in.get<std::uint64_t>();
    if (head.size() < kHeadBytes || device > UINT32_MAX || length > manifest.bytes - offset - kHeadBytes) {
      return fail(ErrorCode::corrupt, fmt::format("{}: damaged at byte {}", path(), offset));
    }
    State& state = states_[static_cast<std::uint32_t>(device)];
    if (!state.fresh) forget(state);
    state.offset = offset;
    state.length = length;
    state.fresh = false;
    live_bytes_ += kHeadBytes + length;
    offset += kHeadBytes + length;
  }
  file_bytes_ = checkpoint_bytes_ = manifest.bytes;
  if (::ftruncate(descriptor_, static_cast<off_t>(file_bytes_)) != 0) return fail(from_errno("cannot cut", path()));
  return {};
}

}  // namespace gleaner::simulation
