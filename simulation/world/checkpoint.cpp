// Checkpoints: the database's copy, the devices' states, and a manifest that names both, made last. The manifest is
// "GLNRSIM2", then what manifest_bytes() writes, then u64 XXH3-64 of all before it.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/hash.hpp"
#include "coordinator/engine/stored_model.hpp"
#include "simulation/world/federation.hpp"

namespace gleaner::simulation {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "GLNRSIM2";
constexpr std::string_view kManifest = "checkpoint";

Status copy_and_sync(const std::string& from, const std::string& to) {
  std::error_code ec;
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, ec);
  const bool full = ec == std::errc::no_space_on_device;
  if (ec) {
    return fail(full ? ErrorCode::no_space : ErrorCode::fatal,
                fmt::format("cannot copy {} to {}: {}", from, to, ec.message()));
  }
  const int fd = ::open(to.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = fd >= 0 && ::fsync(fd) == 0;
  if (fd >= 0) ::close(fd);
  return synced ? Status{} : fail(ErrorCode::fatal, fmt::format("cannot sync {}: {}", to, std::strerror(errno)));
}

Status write_whole(const std::string& path, const Bytes& bytes) {
  const std::string beside = path + ".new";
  {
    std::ofstream file(beside, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    file.flush();
    if (!file) return fail(ErrorCode::no_space, "cannot write " + beside);
  }
  const int fd = ::open(beside.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = fd >= 0 && ::fsync(fd) == 0;
  if (fd >= 0) ::close(fd);
  if (!synced || ::rename(beside.c_str(), path.c_str()) != 0)
    return fail(ErrorCode::fatal, fmt::format("cannot replace {}: {}", path, std::strerror(errno)));
  return {};
}

void remove_database(const std::string& path) {
  std::error_code ec;
  for (const char* part : {"", "-wal", "-shm", ".lock"}) fs::remove(path + part, ec);
}

void put_text(ByteWriter& out, const std::string& text) {
  out.put_varint(text.size());
  out.put_bytes(as_bytes(text));
}

std::string get_text(ByteReader& in) {
  const ByteView bytes = in.get_bytes(in.get_varint());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<Bytes> read_manifest(const std::string& folder) {
  const std::string path = folder + "/" + std::string(kManifest);
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return fail(ErrorCode::not_found,
                fmt::format("{}: there is no checkpoint to go on from; begin anew without --resume", folder));
  }
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const ByteView bytes = as_bytes(text);
  ByteReader check(bytes.last(std::min(bytes.size(), sizeof(std::uint64_t))));
  const ByteView content = bytes.first(bytes.size() - std::min(bytes.size(), sizeof(std::uint64_t)));
  ByteReader in(content);
  if (as_text(in.get_bytes(kMagic.size())) != kMagic || digest_of(content).value != check.get<std::uint64_t>())
    return fail(ErrorCode::corrupt, path + ": damaged, or of another release");
  const ByteView fields = content.subspan(kMagic.size());
  return Bytes(fields.begin(), fields.end());
}

std::string database_of(std::uint32_t round) { return fmt::format("run-{}.db", round); }

}  // namespace

Bytes Federation::manifest_bytes(const DeviceStates::Manifest& states) const {
  Bytes bytes;
  ByteWriter out(bytes);
  out.put_bytes(as_bytes(kMagic));
  put_text(out, simulation::to_stored(*needs_.experiment));
  out.put(needs_.checkpoint_every);
  out.put(rounds_closed_);
  out.put(time_.now());
  out.put(real_seconds());
  out.put(samples_trained());
  put_text(out, states.file);
  out.put(states.bytes);
  out.put(bytes_given_);
  network_->save(out);
  coordinator_->save_rates(out);
  out.put(digest_of(bytes).value);
  return bytes;
}

// The evaluation that was under way ends with the coordinator: it is made here, so that the round has its figures.
Status Federation::evaluate_now() {
  if (waiting_.empty() || !waiting_.back().wants_evaluation) return {};
  GLEANER_ASSIGN(const auto database,
                 Database::open(path_of("run.db"), Database::Access::serve, Database::Durability::process));
  GLEANER_ASSIGN(const auto model, load_stored_model(*database, needs_.experiment->run.spec.name));
  const Network network(model.spec);
  GLEANER_ASSIGN(const Evaluation result,
                 evaluate(network, *needs_.evaluation, model.parameters, needs_.pool->threads()));
  GLEANER_TRY(database->record_evaluation(coordinator_->run(), model.version, result.accuracy, result.mean_loss));
  evaluated_[model.version.value] = {result.accuracy, result.mean_loss};
  return {};
}

Status Federation::checkpoint() {
  coordinator_->remember_all_rates();
  time_.clear();
  coordinator_->crash();
  GLEANER_TRY(evaluate_now());
  for (auto& round : waiting_) {
    round.wants_evaluation = round.wants_evaluation && evaluated_.contains(round.record.version);
  }
  give_out();
  if (error_) return fail(*error_);  // a checkpoint whose round has no line could not be gone on from
  GLEANER_TRY(write_checkpoint());
  return restart();
}

Status Federation::write_checkpoint() {
  GLEANER_ASSIGN(const DeviceStates::Manifest states, states_->checkpoint());
  const std::string copy = path_of(database_of(rounds_closed_));
  GLEANER_TRY(copy_and_sync(path_of("run.db"), copy));
  GLEANER_TRY(copy_and_sync(path_of("run.db.lock"), copy + ".lock"));
  GLEANER_TRY(write_whole(path_of(std::string(kManifest)), manifest_bytes(states)));
  if (checkpoint_round_ != rounds_closed_) remove_database(path_of(database_of(checkpoint_round_)));
  checkpoint_round_ = rounds_closed_;
  return {};
}

// Everybody comes up from what is stored; the same after a checkpoint and in an experiment that goes on from it.
Status Federation::restart() {
  network_->restart(rounds_closed_);
  if (bad_world_) bad_world_->restart(rounds_closed_);
  GLEANER_TRY(coordinator_->open());
  after_recovery();
  // Nothing is planned before all are there.
  coordinator_->engine().pause();
  coordinator_->start();
  fleet_->restart();
  coordinator_->engine().resume();
  round_begins();
  return {};
}

Status Federation::check_new(const std::string& folder) {
  if (fs::exists(folder + "/" + std::string(kManifest))) {
    return fail(ErrorCode::conflict, fmt::format("{} holds an experiment already: go on with --resume, or name another "
                                                 "folder with --output",
                                                 folder));
  }
  const std::string path = folder + "/run.db";
  if (!fs::exists(path)) return {};
  GLEANER_ASSIGN(const auto database, Database::open(path, Database::Access::serve, Database::Durability::process));
  GLEANER_ASSIGN(const auto runs, database->runs());
  if (std::ranges::none_of(runs, [](const RunRow& run) { return run.rounds_done > 0; })) return {};
  return fail(ErrorCode::conflict, fmt::format("{} holds an experiment already, which has no checkpoint to go on from: "
                                               "name another folder with --output",
                                               folder));
}

Result<std::unique_ptr<Federation>> Federation::create(Needs needs) {
  std::unique_ptr<Federation> federation(new Federation(std::move(needs)));
  GLEANER_TRY(check_new(federation->needs_.folder));
  remove_database(federation->path_of("run.db"));  // of one that was killed before it began
  GLEANER_TRY(federation->prepare());
  GLEANER_TRY(federation->coordinator_->create_run());
  // So that one which is stopped early can be resumed too.
  if (federation->needs_.checkpoint_every != 0) GLEANER_TRY(federation->write_checkpoint());
  GLEANER_TRY(federation->begin());
  return federation;
}

Result<std::unique_ptr<Federation>> Federation::resume(Needs needs) {
  std::unique_ptr<Federation> federation(new Federation(std::move(needs)));
  GLEANER_TRY(federation->prepare());
  GLEANER_TRY(federation->read_checkpoint());
  GLEANER_TRY(federation->rounds_closed_ == 0 ? federation->begin() : federation->restart());
  return federation;
}

Status Federation::check_resume(const Experiment& experiment, const std::string& folder) {
  GLEANER_ASSIGN(const Bytes manifest, read_manifest(folder));
  ByteReader in(manifest);
  return simulation::check_resume(experiment, get_text(in));
}

Status Federation::read_checkpoint() {
  GLEANER_ASSIGN(const Bytes manifest, read_manifest(needs_.folder));
  ByteReader in(manifest);
  GLEANER_TRY(simulation::check_resume(*needs_.experiment, get_text(in)));
  needs_.checkpoint_every = in.get<std::uint32_t>();  // part of the experiment
  rounds_closed_ = rounds_told_ = checkpoint_round_ = in.get<std::uint32_t>();
  time_ = VirtualTime(in.get<Instant>());
  real_seconds_before_ = in.get<double>();
  samples_trained_before_ = in.get<std::uint64_t>();
  DeviceStates::Manifest states;
  states.file = get_text(in);
  states.bytes = in.get<std::uint64_t>();
  bytes_given_ = in.get<LineBytes>();
  if (!network_->restore(in) || !coordinator_->restore_rates(in) || !in.ok() || !in.at_end())
    return fail(ErrorCode::corrupt, path_of(std::string(kManifest)) + ": its length does not match its content");
  GLEANER_TRY(states_->restore(states));
  const std::string database = path_of("run.db");
  const std::string copy = path_of(database_of(rounds_closed_));
  remove_database(database);
  GLEANER_TRY(copy_and_sync(copy, database));
  return copy_and_sync(copy + ".lock", database + ".lock");
}

}  // namespace gleaner::simulation
