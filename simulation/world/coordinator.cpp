#include "simulation/world/coordinator.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/check.hpp"
#include "common/hash.hpp"
#include "protocol/aligned_buffer.hpp"
#include "simulation/world/virtual_disk.hpp"

namespace gleaner::simulation {
namespace {

constexpr std::uint32_t kHeartbeatMs = 30'000;  // the service's default
// As the service sends what brings a device up to date (coordinator/net/connection.cpp).
constexpr std::size_t kSyncAtOnceMax = 4096;
constexpr std::size_t kSyncChunkBytes = 256U << 10;
constexpr std::uint32_t kSamplesMax = 1U << 24;
// An evaluation's result comes so much later: the next round's training goes on beside it.
constexpr Duration kEvaluationTime = std::chrono::seconds(1);

// Where jobs for the loop go from within a pool's job; null on the owner's thread.
thread_local std::vector<Job>* loop_of_job = nullptr;

}  // namespace

Coordinator::Coordinator(Needs needs) : needs_(std::move(needs)), members_(needs_.devices, Member::away) {
  row_.id = kRun;
  row_.name = needs_.settings.spec.name;
  row_.lineage = kLineage;
  row_.state = RunState::active;
  needs_.settings.spec.id = row_.id;
  row_.settings = gleaner::to_stored(needs_.settings);
}

Coordinator::~Coordinator() {
  if (engine_) crash();
}

Status Coordinator::create_run() {
  GLEANER_ASSIGN(const auto database,
                 Database::open(needs_.database, Database::Access::serve, Database::Durability::process));
  return database->create_run(row_);
}

Status Coordinator::open() {
  GLEANER_ASSIGN(database_, Database::open(needs_.database, Database::Access::serve, Database::Durability::process));
  front_ = in_front_of(*database_, {.is_full = needs_.disk_is_full, .on_really_full = needs_.on_fatal});
  GLEANER_ASSIGN(const RunRow row, database_->run(row_.id));
  RunEngine::Needs engine{.database = front_.get(),
                          .kernels = needs_.kernels,
                          .evaluation = needs_.evaluation,
                          .outbox = this,
                          .executors = executors()};
  engine.on_progress = needs_.on_progress;
  engine.on_finished = needs_.on_finished;
  engine.on_lineage_change = [this](const std::string& reason) { needs_.on_fatal(Error(ErrorCode::fatal, reason)); };
  engine.on_fatal = needs_.on_fatal;
  GLEANER_ASSIGN(engine_, RunEngine::make(row, needs_.settings, std::move(engine)));
  offer_ = std::make_shared<const Bytes>(encode_frame(Offer{engine_->settings().spec, engine_->lineage()}));
  return {};
}

void Coordinator::start() { engine_->start(); }

void Coordinator::crash() {
  engine_->stop();
  ++life_;
  timers_.clear();
  uploads_.clear();
  ignored_.clear();
  std::ranges::fill(members_, Member::away);
  accepted_ = 0;
  engine_.reset();
  front_.reset();
  database_.reset();
}

Executors Coordinator::executors() {
  const auto in_order = [this](Job job) {
    needs_.time->soon([this, life = life_, job = std::move(job)] {
      if (life == life_) job();
    });
  };
  const auto loop = [in_order](Job job) {
    if (loop_of_job != nullptr) {
      loop_of_job->push_back(std::move(job));
    } else {
      in_order(std::move(job));
    }
  };
  return {.loop = loop,
          .compute = in_order,
          .background = [this](Job job) { evaluate_in_pool(std::move(job)); },
          .storage = in_order,
          .start_timer =
              [this](round::Timer timer, Duration after) {
                const std::uint64_t number = timers_[timer] = ++timers_started_;
                needs_.time->after(after, [this, life = life_, timer, number] {
                  const auto started = timers_.find(timer);
                  if (life != life_ || started == timers_.end() || started->second != number) return;
                  timers_.erase(started);
                  engine_->timer_fired(timer);
                });
              },
          .stop_timer = [this](round::Timer timer) { timers_.erase(timer); },
          .clock = needs_.time};
}

// What it says to the loop is heard at a fixed virtual time, however long it really took.
void Coordinator::evaluate_in_pool(Job job) {
  struct Evaluation {
    std::vector<Job> said;
    Ticket ticket;
  };
  auto evaluation = std::make_shared<Evaluation>();
  const double cost = needs_.evaluation ? needs_.evaluation->samples : 0.0;
  evaluation->ticket = needs_.pool->submit(cost, [job = std::move(job), said = &evaluation->said](WorkerScratch&) {
    loop_of_job = said;
    job();
    loop_of_job = nullptr;
  });
  needs_.time->after(kEvaluationTime, [this, life = life_, evaluation] {
    evaluation->ticket.wait();
    for (auto& said : evaluation->said) {
      if (life == life_) said();
    }
  });
}

void Coordinator::set_member(std::uint32_t device, Member member) {
  accepted_ -= members_[device] == Member::accepted ? 1 : 0;
  members_[device] = member;
  accepted_ += member == Member::accepted ? 1 : 0;
}

void Coordinator::connected(std::uint32_t device) { set_member(device, Member::connected); }

void Coordinator::disconnected(std::uint32_t device) {
  if (members_[device] == Member::away) return;
  uploads_.erase(device);
  ignored_.erase(device);
  const bool known = members_[device] == Member::accepted;
  set_member(device, Member::away);
  if (!known) return;
  remember_rates(device);
  engine_->device_left(needs_.names->name_of(device));
}

void Coordinator::remember_rates(std::uint32_t device) {
  const auto profile = engine_->profile_of(needs_.names->name_of(device));
  if (!profile) return;
  const Rates rates{profile->uplink_bytes_per_s, profile->downlink_bytes_per_s, profile->samples_per_s};
  if (rates.uplink_bytes_per_s > 0 || rates.downlink_bytes_per_s > 0 || rates.samples_per_s > 0) rates_[device] = rates;
}

void Coordinator::remember_all_rates() {
  for (std::uint32_t device = 0; device < members_.size(); ++device) {
    if (members_[device] == Member::accepted) remember_rates(device);
  }
}

void Coordinator::arrived(std::uint32_t device, const Bytes& frame, Duration sending) {
  if (members_[device] == Member::away) return;
  const auto header = decode_header(std::span(frame).first<FrameHeader::kBytes>(), Sender::device);
  if (!header) return protocol_error(device, header.error().message());
  const AlignedBuffer body = AlignedBuffer::copy_of(ByteView(frame).subspan(FrameHeader::kBytes));
  const auto message = decode_body(*header, body.view());
  if (!message) return protocol_error(device, message.error().message());
  receive(device, *message, sending);
}

void Coordinator::receive(std::uint32_t device, const Message& message, Duration sending) {
  const bool greeted = members_[device] >= Member::greeted;
  if (const auto* hello = std::get_if<Hello>(&message)) {
    return greeted ? protocol_error(device, "a second hello") : receive(device, *hello);
  }
  if (!greeted) return protocol_error(device, "a message before the hello");
  if (const auto* said = std::get_if<Accept>(&message)) {
    accept(device, *said);
  } else if (const auto* update = std::get_if<Update>(&message)) {
    receive(device, *update, sending);
  } else if (const auto* skip = std::get_if<Skip>(&message)) {
    engine_->skip_arrived(needs_.names->name_of(device), *skip);
  }
}

void Coordinator::receive(std::uint32_t device, const Hello& hello) {
  set_member(device, Member::greeted);
  send_encoded(device, std::make_shared<const Bytes>(
                           encode_frame(Welcome{.version = std::min(hello.version_max, kProtocolVersion),
                                                .heartbeat_ms = kHeartbeatMs,
                                                .capabilities = {}})));
  send_encoded(device, offer_);
}

void Coordinator::accept(std::uint32_t device, const Accept& accept) {
  const RunSpec& spec = engine_->settings().spec;
  uploads_.erase(device);
  ignored_.erase(device);
  if (accept.run != spec.id) return;
  if (accept.schema_hash != spec.schema_hash || accept.samples > kSamplesMax)
    return protocol_error(device, "the device's model or samples do not fit the run");
  set_member(device, Member::accepted);
  const DeviceName name = needs_.names->name_of(device);
  engine_->device_accepted(name, accept);
  if (const auto known = rates_.find(device); known != rates_.end()) {
    DeviceRow row{.name = name};
    row.uplink_bytes_per_s = known->second.uplink_bytes_per_s;
    row.downlink_bytes_per_s = known->second.downlink_bytes_per_s;
    row.samples_per_s = known->second.samples_per_s;
    engine_->device_measured(name, row);
  }
}

void Coordinator::receive(std::uint32_t device, const Update& update, Duration sending) {
  if (update.offset == 0) {
    uploads_.erase(device);
    ignored_.erase(device);
    const std::uint64_t bytes_max = engine_->payload_bytes_max_of(needs_.names->name_of(device), update.plan);
    Update meta = update;
    meta.bytes = {};
    if (bytes_max == 0) {
      ignored_[device] = update.plan;
      engine_->update_arrived(needs_.names->name_of(device), meta, nullptr, {});
      return;
    }
    if (update.total_bytes > bytes_max) {
      ignored_[device] = update.plan;
      engine_->update_refused(
          needs_.names->name_of(device), update.plan, RefusalCode::too_many_entries,
          fmt::format("{} bytes, the plan's grant needs at most {}", update.total_bytes, bytes_max));
      return;
    }
    uploads_[device].meta = meta;
  }
  if (const auto it = ignored_.find(device); it != ignored_.end() && it->second == update.plan) return;
  const auto it = uploads_.find(device);
  if (it == uploads_.end() || it->second.meta.plan != update.plan || it->second.meta.digest != update.digest ||
      it->second.bytes.size() != update.offset || it->second.meta.total_bytes != update.total_bytes) {
    return protocol_error(device, "a chunk of an update that does not continue the one before");
  }
  Upload& upload = it->second;
  upload.bytes.insert(upload.bytes.end(), update.bytes.begin(), update.bytes.end());
  upload.sending += sending;
  if (upload.bytes.size() < upload.meta.total_bytes) return;
  Upload whole = std::move(upload);
  uploads_.erase(it);
  finish_upload(device, std::move(whole));
}

void Coordinator::finish_upload(std::uint32_t device, Upload upload) {
  const DeviceName name = needs_.names->name_of(device);
  if (digest_of(upload.bytes) != upload.meta.digest) {
    engine_->update_refused(name, upload.meta.plan, RefusalCode::wrong_digest, "the bytes do not match their digest");
    return;
  }
  engine_->update_arrived(name, upload.meta, std::make_shared<const Bytes>(std::move(upload.bytes)), upload.sending);
}

void Coordinator::protocol_error(std::uint32_t device, const std::string& what) {
  send(needs_.names->name_of(device), Failure{FailureCode::protocol, 10'000, what});
}

void Coordinator::send_encoded(std::uint32_t device, std::shared_ptr<const Bytes> frame) {
  needs_.network->send_down(device, frame->size(), [frame] { return *frame; });
}

void Coordinator::send(const DeviceName& name, const Message& message) {
  const auto device = needs_.names->device_of(name);
  GLEANER_CHECK(device.has_value());
  if (members_[*device] < Member::greeted) return;
  send_encoded(*device, std::make_shared<const Bytes>(encode_frame(message)));
}

void Coordinator::send_plan(const DeviceName& name, const Plan& plan, std::shared_ptr<const Bytes> sync) {
  Plan first = plan;
  first.sync_bytes = sync ? sync->size() : 0;
  if (first.sync_bytes <= kSyncAtOnceMax) {
    if (sync) first.sync_head = *sync;
    send(name, first);
    return;
  }
  const auto device = needs_.names->device_of(name);
  GLEANER_CHECK(device.has_value());
  if (members_[*device] < Member::greeted) return;
  // A thousand devices may want a whole model at once: its frames are made when they arrive.
  const Instant began = needs_.time->now();
  for (std::size_t offset = 0; offset < sync->size(); offset += kSyncChunkBytes) {
    const std::size_t size = std::min(kSyncChunkBytes, sync->size() - offset);
    const bool last = offset + size == sync->size();
    auto make = [first, sync, offset, size] {
      const ByteView part = ByteView(*sync).subspan(offset, size);
      if (offset > 0) return encode_frame(SyncChunk{.plan = first.id, .offset = offset, .bytes = part});
      Plan head = first;
      head.sync_head = part;
      return encode_frame(head);
    };
    const std::uint64_t bytes = make().size();
    needs_.network->send_down(*device, bytes, [this, make, last, name, began, all = sync->size(), life = life_] {
      if (last && life == life_) {
        needs_.time->soon([this, name, all, life, spent = needs_.time->now() - began] {
          if (life == life_) engine_->download_measured(name, all, spent);
        });
      }
      return make();
    });
  }
}

void Coordinator::send_to_all(const Message& message) {
  const auto frame = std::make_shared<const Bytes>(encode_frame(message));
  for (std::uint32_t device = 0; device < members_.size(); ++device) {
    if (members_[device] >= Member::greeted) send_encoded(device, frame);
  }
}

SocketBytes Coordinator::socket_bytes() const {
  const LineBytes& bytes = needs_.network->bytes();
  return {.up_bytes = bytes.sockets_up, .down_bytes = bytes.sockets_down};
}

void Coordinator::save_rates(ByteWriter& out) const {
  out.put_varint(rates_.size());
  for (const auto& [device, rates] : rates_) {
    out.put_varint(device);
    out.put(rates);
  }
}

bool Coordinator::restore_rates(ByteReader& in) {
  for (std::uint64_t left = in.get_varint(); left > 0 && in.ok(); --left) {
    const std::uint64_t device = in.get_varint();
    if (device >= members_.size()) return false;
    rates_[static_cast<std::uint32_t>(device)] = in.get<Rates>();
  }
  return in.ok();
}

}  // namespace gleaner::simulation
