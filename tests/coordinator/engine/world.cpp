#include "world.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>

#include "common/check.hpp"
#include "protocol/aligned_buffer.hpp"
#include "training/model.hpp"
#include "training/synthetic.hpp"

namespace gleaner {
namespace {

const KernelTable& cpu_kernels() {
  static const KernelTable* table = *kernels_for(Backend::cpu);
  return *table;
}

// Sends a message through its bytes, as a socket would.
template <class Use>
void through_bytes(const Bytes& frame, Sender sender, Use use) {
  auto header = decode_header(std::span(frame).first(FrameHeader::kBytes), sender);
  GLEANER_CHECK(header.has_value());
  const AlignedBuffer body = AlignedBuffer::copy_of(ByteView(frame).subspan(FrameHeader::kBytes));
  auto message = decode_body(*header, body.view());
  if (!message) throw std::runtime_error(message.error().message());
  use(*message);
}

// A disk that is full whenever `is_full` says so.
class FullStore final : public StateStore {
 public:
  explicit FullStore(std::function<bool()> is_full) : is_full_(std::move(is_full)), below_(make_memory_store()) {}
  Result<std::shared_ptr<const Bytes>> load(RunId run) override { return below_->load(run); }
  Status save(RunId run, Bytes state) override {
    if (is_full_()) return fail(ErrorCode::no_space, "No space left on device");
    return below_->save(run, std::move(state));
  }
  Status prune(RunId in_use, std::size_t keep) override { return below_->prune(in_use, keep); }

 private:
  std::function<bool()> is_full_;
  std::unique_ptr<StateStore> below_;
};

}  // namespace

World::World(WorldSpec spec) : spec_(std::move(spec)), random_(spec_.seed, Purpose::test) {
  std::string folder = (std::filesystem::temp_directory_path() / "gleaner-world-XXXXXX").string();
  GLEANER_CHECK(::mkdtemp(folder.data()) != nullptr);
  folder_ = folder;
  auto settings = parse_run_settings(spec_.toml, "world.toml");
  if (!settings) throw std::runtime_error(settings.error().message());
  settings_ = std::move(*settings);
  row_.id = {42};
  row_.name = settings_.spec.name;
  row_.lineage = {7};
  settings_.spec.id = row_.id;
  row_.settings = to_stored(settings_);
  auto database = Database::open((folder_ / "db").string(), Database::Access::serve);
  GLEANER_CHECK(database.has_value());
  GLEANER_CHECK((*database)->create_run(row_).has_value());
  database->reset();
  open_coordinator();
  const DatasetShape& shape = settings_.shape;
  for (std::uint32_t i = 0; i < spec_.devices; ++i) {
    auto device = std::make_unique<Device>();
    device->name = {fmt::format("device-{}", i)};
    device->samples = std::make_shared<const Dataset>(synthetic_dataset(
        {.samples = 40 + 8 * i, .classes = shape.classes, .height = shape.height, .width = shape.width, .noise = 120},
        {.pattern = 1, .noise = 10 + i}));
    device->store = std::make_unique<FullStore>([this] {
      const bool is_full = spec_.full_disks > 0.0 && random_.uniform() < spec_.full_disks;
      unsaved_ += is_full ? 1 : 0;
      return is_full;
    });
    devices_.push_back(std::move(device));
    start_device(*devices_.back());
  }
}

World::~World() {
  engine_->stop();
  queues_.clear();
  engine_.reset();
  database_.reset();
  std::error_code ec;
  std::filesystem::remove_all(folder_, ec);
}

Executors World::executors() {
  const auto into = [this](const std::string& name) {
    return [this, name](Job job) { queues_[name].push_back(std::move(job)); };
  };
  return {.loop = into("loop"),
          .compute = into("compute"),
          .background = into("background"),
          .storage = into("storage"),
          .start_timer = [this](round::Timer timer, Duration after) { timers_[timer] = clock_.now() + after; },
          .stop_timer = [this](round::Timer timer) { timers_.erase(timer); },
          .clock = &clock_};
}

void World::open_coordinator() {
  auto database = Database::open((folder_ / "db").string(), Database::Access::serve);
  if (!database) throw std::runtime_error(database.error().message());
  database_ = std::move(*database);
  auto row = database_->run(row_.id);
  GLEANER_CHECK(row.has_value());
  RunEngine::Needs needs{.database = database_.get(),
                         .kernels = &cpu_kernels(),
                         .evaluation = nullptr,
                         .outbox = this,
                         .executors = executors()};
  needs.on_progress = [] {};
  needs.on_finished = [this] { finished_ = true; };
  needs.on_lineage_change = [this](const std::string& reason) { fatal_ = reason; };
  needs.on_fatal = [this](const Error& error) { fatal_ = error.message(); };
  auto engine = RunEngine::make(*row, settings_, std::move(needs));
  if (!engine) throw std::runtime_error(engine.error().message());
  engine_ = std::move(*engine);
  engine_->start();
}

void World::crash_coordinator() {
  ++crashes_;
  engine_->stop();
  for (auto& device : devices_) cut(*device);
  for (const char* name : {"loop", "compute", "background", "storage", "network"}) queues_[name].clear();
  timers_.clear();
  engine_.reset();
  database_.reset();
  open_coordinator();
}

void World::start_device(Device& device) {
  device.session = std::make_unique<session::Session>(session::Identity{.software = "test", .cores = 1});
  for (auto& action : device.session->begin()) perform(device, std::move(action));
}

void World::crash_device(Device& device) {
  ++crashes_;
  cut(device);
  ++device.life;
  device.run.reset();
  device.reconnect_at.reset();
  start_device(device);
}

void World::cut(Device& device) {
  if (!device.connected) return;
  device.connected = false;
  device.greeted = false;
  device.accepted = false;
  ++device.connection;
  if (engine_) engine_->device_left(device.name);
  feed(device, session::Disconnected{Error(ErrorCode::retry, "cut")});
}

void World::tick_faults() {
  const auto victim = [this]() -> Device& {
    return *devices_[random_.below(static_cast<std::uint32_t>(devices_.size()))];
  };
  if (random_.uniform() < spec_.disconnects) cut(victim());
  if (random_.uniform() < spec_.device_crashes) crash_device(victim());
  if (random_.uniform() < spec_.coordinator_crashes) crash_coordinator();
}

bool World::run_something() {
  std::vector<Queue*> ready;
  for (auto& [name, queue] : queues_) {
    if (!queue.empty()) ready.push_back(&queue);
  }
  if (ready.empty()) return false;
  Queue& queue = *ready[random_.below(static_cast<std::uint32_t>(ready.size()))];
  const Job job = std::move(queue.front());
  queue.pop_front();
  job();
  return true;
}

bool World::pass_time() {
  std::optional<Instant> next;
  const auto consider = [&](Instant t) { next = next ? std::min(*next, t) : t; };
  for (const auto& [timer, at] : timers_) consider(at);
  for (const auto& device : devices_) {
    if (device->reconnect_at) consider(*device->reconnect_at);
  }
  if (!next) return false;
  clock_.advance_to(*next);
  for (auto& device : devices_) {
    if (!device->reconnect_at || *device->reconnect_at > clock_.now()) continue;
    device->reconnect_at.reset();
    feed(*device, session::ReconnectTimer{});
  }
  std::vector<round::Timer> fired;
  for (const auto& [timer, at] : timers_) {
    if (at <= clock_.now()) fired.push_back(timer);
  }
  for (const auto timer : fired) {
    timers_.erase(timer);
    engine_->timer_fired(timer);
  }
  return true;
}

bool World::run_to_end(std::uint64_t steps_max) {
  for (std::uint64_t step = 0; step < steps_max && fatal_.empty(); ++step) {
    if (finished_) {
      // What is still on its way arrives: devices hear of the end.
      while (run_something()) {
      }
      return true;
    }
    tick_faults();
    if (!run_something() && !pass_time()) return false;
  }
  return false;
}

World::Device& World::device_of(const DeviceName& name) {
  for (auto& device : devices_) {
    if (device->name == name) return *device;
  }
  GLEANER_CHECK(false);
  return *devices_.front();
}

DeviceState World::device_state(std::uint32_t i) {
  const auto bytes = devices_[i]->store->load(row_.id);
  const auto rule = make_upload_rule(settings_.spec.upload_rule, {}).value();
  const auto memory = memory_kind_of(settings_.spec, *rule);
  return device_state_from(**bytes, row_.id, memory, settings_.spec.dimension).value();
}

void World::send(const DeviceName& name, const Message& message) {
  if (const auto* refused = std::get_if<Refused>(&message)) {
    if (stolen_.contains({name.value, refused->plan.value})) {
      thefts_refused_ += refused->code == RefusalCode::stale_plan ? 1 : 0;
      return;
    }
  }
  Device& device = device_of(name);
  if (device.connected && device.greeted && !device.accepted && std::holds_alternative<Plan>(message))
    fatal_ = "device " + name.value + " gets a plan on a connection that accepted nothing";
  if (device.connected && device.greeted) deliver(device, encode_frame(message));
}

void World::send_plan(const DeviceName& device, const Plan& plan, std::shared_ptr<const Bytes> sync) {
  Plan whole = plan;
  if (sync && sync->size() > sizeof(float) * settings_.spec.dimension)
    fatal_ =
        fmt::format("{} bytes to bring a model of {} parameters up to date", sync->size(), settings_.spec.dimension);
  if (sync) {
    whole.sync_bytes = sync->size();
    whole.sync_head = *sync;
  }
  send(device, whole);
}

void World::send_to_all(const Message& message) {
  for (auto& device : devices_) send(device->name, message);
}

void World::deliver(Device& device, Bytes frame) {
  bytes_.down_bytes += frame.size();
  queues_["network"].push_back([this, &device, connection = device.connection, frame = std::move(frame)] {
    if (!device.connected || device.connection != connection) return;
    through_bytes(frame, Sender::coordinator,
                  [&](const Message& message) { feed(device, session::MessageArrived{message}); });
  });
}

void World::from_device(Device& device, const Message& message) {
  Bytes frame = encode_frame(message);
  bytes_.up_bytes += frame.size();
  queues_["network"].push_back([this, &device, connection = device.connection, frame = std::move(frame)] {
    if (!device.connected || device.connection != connection) return;
    through_bytes(frame, Sender::device, [&](const Message& m) { dispatch(device, m); });
  });
}

void World::dispatch(Device& device, const Message& message) {
  if (std::holds_alternative<Hello>(message)) {
    device.greeted = true;
    send(device.name, Welcome{});
    send(device.name, Offer{engine_->settings().spec, engine_->lineage()});
  } else if (const auto* accept = std::get_if<Accept>(&message)) {
    device.accepted = true;
    engine_->device_accepted(device.name, *accept);
  } else if (const auto* update = std::get_if<Update>(&message)) {
    const bool before = random_.uniform() < 0.5;
    const bool stolen = spec_.thefts > 0.0 && random_.uniform() < spec_.thefts;
    if (stolen && before) steal(device, *update);
    arrive(device.name, *update);
    if (stolen && !before) steal(device, *update);
  } else if (const auto* skip = std::get_if<Skip>(&message)) {
    engine_->skip_arrived(device.name, *skip);
  }
}

void World::arrive(const DeviceName& device, const Update& update) {
  Update meta = update;
  meta.bytes = {};
  std::shared_ptr<const Bytes> payload;
  // A server does not read what is too long; a thief's arrives whole, as if the plan had become another's meanwhile.
  const bool is_theft = stolen_.contains({device.value, update.plan.value});
  if (is_theft || engine_->payload_bytes_max_of(device, update.plan) >= update.total_bytes) {
    payload = std::make_shared<const Bytes>(update.bytes.begin(), update.bytes.end());
    held_bytes_ += payload->size();
  }
  engine_->update_arrived(device, meta, payload, std::chrono::milliseconds(5));
}

void World::steal(const Device& from, const Update& update) {
  const auto thief = std::ranges::find_if(devices_, [&](const auto& device) { return device.get() != &from; });
  ++thefts_;
  stolen_.insert({(*thief)->name.value, update.plan.value});
  Update lie = update;
  ++lie.digest.value;
  arrive((*thief)->name, lie);
}

void World::feed(Device& device, const session::Event& event) {
  for (auto& action : device.session->handle(event, clock_.now())) perform(device, std::move(action));
}

void World::work(Device& device, std::function<session::Event()> job) {
  auto& queue = queues_["work " + device.name.value];
  queue.push_back([this, &device, life = device.life, job = std::move(job)] {
    if (device.life != life) return;
    auto event = std::make_shared<session::Event>(job());
    // Between the work and its telling lies a moment in which everything can die.
    queues_["told " + device.name.value].push_back([this, &device, life, event] {
      if (device.life == life) feed(device, *event);
    });
  });
}

void World::perform(Device& device, session::Action action) {
  if (std::holds_alternative<session::Connect>(action)) {
    device.connected = true;
    ++device.connection;
    queues_["network"].push_back([this, &device, connection = device.connection] {
      if (device.connected && device.connection == connection) feed(device, session::Connected{});
    });
  } else if (const auto* timer = std::get_if<session::StartReconnectTimer>(&action)) {
    if (spec_.reconnect_at_once) {
      queues_["network"].push_back([this, &device, life = device.life] {
        if (device.life == life && !device.connected) feed(device, session::ReconnectTimer{});
      });
      return;
    }
    device.reconnect_at = clock_.now() + std::max<Duration>(timer->at_least, std::chrono::milliseconds(100));
  } else if (const auto* out = std::get_if<session::Send>(&action)) {
    from_device(device, out->message);
  } else if (const auto* answer = std::get_if<session::SendAnswer>(&action)) {
    const auto& a = answer->answer;
    if (!a.send) return from_device(device, Skip{a.plan, a.samples, a.compute_ms, a.left, a.right, a.loss});
    Update update{.plan = a.plan,
                  .digest = a.digest,
                  .samples = a.samples,
                  .total_bytes = static_cast<std::uint32_t>(a.payload->size())};
    update.left = a.left;
    update.right = a.right;
    update.loss = a.loss;
    update.bytes = *a.payload;
    from_device(device, update);
  } else if (std::holds_alternative<session::CloseConnection>(action)) {
    cut(device);
  } else if (const auto* open = std::get_if<session::OpenRun>(&action)) {
    work(device, [this, &device, spec = open->spec, lineage = open->lineage]() -> session::Event {
      session::RunOpened opened{.run = spec.id};
      auto run =
          DeviceRun::open(spec, lineage, {device.samples, device.store.get(), &cpu_kernels(), &clock_, device.name});
      GLEANER_CHECK(run.has_value());
      device.run = std::move(*run);
      opened.samples = device.run->samples();
      opened.schema_hash = device.run->schema_hash();
      opened.held = device.run->held();
      return opened;
    });
  } else if (const auto* settle = std::get_if<session::SettlePlan>(&action)) {
    queues_["work " + device.name.value].push_back([&device, life = device.life, s = *settle] {
      if (device.life == life && device.run) device.run->settle(s.plan, s.outcome);
    });
  } else if (const auto* execute = std::get_if<session::Execute>(&action)) {
    work(device, [&device, task = execute->task]() -> session::Event { return device.run->execute(task); });
  } else if (const auto* load = std::get_if<session::LoadAnswer>(&action)) {
    work(device, [&device, plan = load->plan]() -> session::Event {
      return session::AnswerLoaded{device.run->stored_answer(plan)};
    });
  }
}

}  // namespace gleaner
