#include "simulation/output/round_output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "common/check.hpp"
#include "simulation/output/recording_lines.hpp"

namespace gleaner::simulation {
namespace {

std::string jsonl_path(const std::string& directory) { return directory + "/rounds.jsonl"; }
std::string csv_path(const std::string& directory) { return directory + "/rounds.csv"; }

std::unexpected<Error> system_failure(const std::string& path, int error) {
  const bool is_full = error == ENOSPC || error == EDQUOT;
  return fail(is_full ? ErrorCode::no_space : ErrorCode::fatal, fmt::format("{}: {}", path, std::strerror(error)));
}

Result<int> open_file(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | flags, 0644);
  if (fd >= 0) return fd;
  if (errno == EEXIST) {
    return fail(ErrorCode::conflict, fmt::format("{} is there already: name another folder with --output", path));
  }
  return system_failure(path, errno);
}

// All of the bytes or none: what a failed write left is cut off again.
Status write_whole(int fd, std::string_view bytes, const std::string& path) {
  struct stat before{};
  if (::fstat(fd, &before) != 0) return system_failure(path, errno);
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      if (::ftruncate(fd, before.st_size) != 0) return system_failure(path, errno);
      return system_failure(path, error);
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

// Whether there is more than what an experiment leaves that was killed before its first round.
bool has_lines(const std::string& path) {
  std::error_code code;
  if (!std::filesystem::exists(path, code)) return false;
  const std::string header = csv_header();
  if (!std::filesystem::is_regular_file(path, code) || std::filesystem::file_size(path, code) > header.size())
    return true;
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return !in || !header.starts_with(text);
}

// Where the header and so many lines of the table end; nothing where it has fewer.
Result<std::optional<std::uint64_t>> end_of_csv(const std::string& path, std::size_t lines) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(ErrorCode::fatal, fmt::format("{}: cannot be read", path));
  std::uint64_t offset = 0;
  std::string text;
  for (std::size_t i = 0; i <= lines; ++i) {
    if (!std::getline(in, text) || in.eof()) return std::optional<std::uint64_t>{};
    offset += text.size() + 1;
  }
  return offset;
}

// The table as far as the records go; it is made of them where it is missing.
Status cut_csv(const std::string& directory, const Recording& kept) {
  const std::string path = csv_path(directory);
  std::error_code code;
  if (!std::filesystem::exists(path, code)) {
    std::string all = csv_header();
    for (const RoundRecord& record : kept.rounds) all += to_csv_line(kept.label, record);
    GLEANER_ASSIGN(const int fd, open_file(path, O_CREAT | O_EXCL));
    const Status written = write_whole(fd, all, path);
    ::close(fd);
    return written;
  }
  GLEANER_ASSIGN(const auto end, end_of_csv(path, kept.rounds.size()));
  if (!end) {
    return fail(ErrorCode::corrupt,
                fmt::format("{} has fewer than {} rounds: delete it, and it is written anew from rounds.jsonl", path,
                            kept.rounds.size()));
  }
  if (::truncate(path.c_str(), static_cast<off_t>(*end)) != 0) return system_failure(path, errno);
  return {};
}

}  // namespace

RoundOutput::RoundOutput(std::string directory, OutputLabel label)
    : directory_(std::move(directory)), label_(std::move(label)) {}

RoundOutput::RoundOutput(RoundOutput&& other) noexcept
    : directory_(std::move(other.directory_)),
      label_(std::move(other.label_)),
      jsonl_(std::exchange(other.jsonl_, -1)),
      csv_(std::exchange(other.csv_, -1)),
      rounds_(std::move(other.rounds_)) {}

RoundOutput& RoundOutput::operator=(RoundOutput&& other) noexcept {
  std::swap(directory_, other.directory_);
  std::swap(label_, other.label_);
  std::swap(jsonl_, other.jsonl_);
  std::swap(csv_, other.csv_);
  std::swap(rounds_, other.rounds_);
  return *this;
}

RoundOutput::~RoundOutput() {
  if (jsonl_ >= 0) ::close(jsonl_);
  if (csv_ >= 0) ::close(csv_);
}

Result<RoundOutput> RoundOutput::create(const std::string& directory, OutputLabel label) {
  std::error_code code;
  std::filesystem::create_directories(directory, code);
  if (code) return fail(ErrorCode::fatal, fmt::format("{}: {}", directory, code.message()));
  RoundOutput output(directory, std::move(label));
  // Both are looked at before either is made: a refusal leaves nothing behind.
  for (const std::string& path : {jsonl_path(directory), csv_path(directory)}) {
    if (has_lines(path)) {
      return fail(ErrorCode::conflict, fmt::format("{} is there already: name another folder with --output", path));
    }
  }
  GLEANER_ASSIGN(output.jsonl_, open_file(jsonl_path(directory), O_CREAT | O_TRUNC));
  GLEANER_ASSIGN(output.csv_, open_file(csv_path(directory), O_CREAT | O_TRUNC));
  GLEANER_TRY(write_whole(output.csv_, csv_header(), csv_path(directory)));
  return output;
}

Result<RoundOutput> RoundOutput::resume(const std::string& directory, OutputLabel label, std::uint32_t last_round) {
  const std::string path = jsonl_path(directory);
  GLEANER_ASSIGN(RecordingLines lines, read_recording_lines(path));
  auto& rounds = lines.recording.rounds;
  if (!rounds.empty() && lines.recording.label != label) {
    return fail(ErrorCode::bad_input, fmt::format("{} is of the experiment {} with the data {}, expected {} with {}",
                                                  path, lines.recording.label.experiment, lines.recording.label.data,
                                                  label.experiment, label.data));
  }
  while (!rounds.empty() && rounds.back().round > last_round) rounds.pop_back();
  if (last_round != 0 && (rounds.empty() || rounds.back().round != last_round)) {
    return fail(ErrorCode::corrupt,
                fmt::format("{} has no line for round {}, which is where the state goes on", path, last_round));
  }
  lines.recording.label = label;
  const std::uint64_t end = rounds.empty() ? 0 : lines.ends[rounds.size() - 1];
  GLEANER_TRY(cut_csv(directory, lines.recording));
  if (::truncate(path.c_str(), static_cast<off_t>(end)) != 0) return system_failure(path, errno);
  RoundOutput output(directory, std::move(label));
  output.rounds_ = std::move(rounds);
  GLEANER_ASSIGN(output.jsonl_, open_file(path, 0));
  GLEANER_ASSIGN(output.csv_, open_file(csv_path(directory), 0));
  return output;
}

Status RoundOutput::append(const RoundRecord& record) {
  GLEANER_CHECK(rounds_.empty() || record.round > rounds_.back().round);
  struct stat before{};
  if (::fstat(jsonl_, &before) != 0) return system_failure(jsonl_path(directory_), errno);
  GLEANER_TRY(write_whole(jsonl_, to_json_line(label_, record), jsonl_path(directory_)));
  if (const Status status = write_whole(csv_, to_csv_line(label_, record), csv_path(directory_)); !status) {
    if (::ftruncate(jsonl_, before.st_size) != 0) return system_failure(jsonl_path(directory_), errno);
    return status;
  }
  rounds_.push_back(record);
  return {};
}

}  // namespace gleaner::simulation
